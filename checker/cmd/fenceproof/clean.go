package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"fenceproof/checker/mutant"
	"fenceproof/checker/run"
	"fenceproof/checker/soak"

	"github.com/spf13/cobra"
)

func cleanCommand() *cobra.Command {
	var runs, bin string
	var keep int
	var idle bool
	c := &cobra.Command{
		Use:   "clean",
		Short: "Remove old runs",
		Long: `Clean removes the folders of old runs, and what of their databases lies elsewhere. Runs that are going on stay, and so
do the folders of soaks and of matrices of mutants, which are removed by hand. The runs of either are refused: they are its
evidence.
With --idle it fails while a run is going on, or while anything runs from the folder of programs: what would be removed next
is in use.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if keep < 0 {
				return usage("--keep is %d; 0 removes every run", keep)
			}
			if err := named(runs); err != nil {
				return err
			}
			if bin != "" && !idle {
				return usage("--bin says nothing without --idle")
			}
			if err := noEvidence(runs); err != nil {
				return err
			}
			n, busy, err := run.Clean(runs, keep)
			switch {
			case errors.Is(err, run.ErrNoRuns) && c.Flags().Changed("runs"):
				return usage("--runs %s: %w", runs, run.ErrNoRuns)
			case errors.Is(err, run.ErrNoRuns):
				_, err = fmt.Fprintf(c.OutOrStdout(), "there is no folder %s, so there are no runs to remove\n", runs)
			case err == nil:
				_, err = fmt.Fprintf(c.OutOrStdout(), "removed %d %s from %s\n", n, map[bool]string{true: "run", false: "runs"}[n == 1], runs)
				err = errors.Join(err, soaksLeft(c.OutOrStdout(), runs))
			}
			for _, b := range busy {
				_, e := fmt.Fprintf(c.OutOrStdout(), "%s is going on, and stays\n", filepath.Join(runs, b))
				err = errors.Join(err, e)
			}
			if err == nil && idle {
				return allIdle(busy, bin)
			}
			if err != nil {
				return &exitError{exitHarness, err}
			}
			return nil
		},
	}
	c.Flags().StringVar(&runs, "runs", "runs", "folder of all runs")
	c.Flags().IntVar(&keep, "keep", 0, "how many of the newest runs to keep")
	c.Flags().BoolVar(&idle, "idle", false, "fail while a run is going on")
	c.Flags().StringVar(&bin, "bin", "", "with --idle, the folder of programs (default this program's own)")
	return c
}

// named refuses an empty name for the folder of all runs, which would be the current one.
func named(runs string) error {
	if runs == "" {
		return usage("--runs is empty; name the folder of all runs, for example runs")
	}
	return nil
}

// usable refuses what cannot be the folder of all runs.
func usable(runs string) error {
	if err := named(runs); err != nil {
		return err
	}
	return folder("--runs", runs)
}

// folder refuses a path, given with a flag, that is no folder and that none can be made at: it names something else, or leads
// through it.
func folder(flag, path string) error {
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		is, err := os.Stat(at)
		switch {
		case err == nil && !is.IsDir():
			return usage("%s %s: %s is no folder", flag, path, at)
		case err == nil || at == filepath.Dir(at):
			return nil // or whoever uses it says what is wrong
		}
	}
}

// noEvidence refuses runs that are those of a soak, whether it is going on or over, or of a matrix of mutants.
func noEvidence(runs string) error {
	if _, err := os.Stat(filepath.Join(runs, mutant.MatrixFile)); err == nil {
		return usage("--runs %s: these are the runs of a matrix of mutants, and its evidence: remove that whole folder by hand when it is not needed any more", runs)
	}
	real, err := realPath(runs)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil // cleaning says so
	}
	if err != nil {
		return &exitError{exitHarness, fmt.Errorf("find the folder of all runs: %w", err)}
	}
	dir := filepath.Dir(real)
	switch on, err := soak.GoingOn(dir); {
	case err != nil:
		return usage("--runs %s: %w", runs, err)
	case on:
		return usage("--runs %s: these are the runs of the soak in %s, which is going on: wait for its end, or end it with Ctrl-C", runs, dir)
	case soak.Exists(dir):
		return usage("--runs %s: these are the runs of the soak in %s, and its evidence: remove that whole folder by hand when it is not needed any more", runs, dir)
	}
	return nil
}

// realPath is path without links, from the root: a relative one begins where the shell believes to be, which may be a link itself.
func realPath(path string) (string, error) {
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(whole)
}

// programs is the folder bin by its real name, as the system tells it of what runs from there; without bin it is that of
// this program.
func programs(bin string) (string, error) {
	if bin == "" {
		own, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find this program's folder: %w", err)
		}
		return filepath.Dir(own), nil
	}
	real, err := realPath(bin)
	if errors.Is(err, os.ErrNotExist) { // what ran from there may still do so
		above, e := realPath(filepath.Dir(bin))
		real, err = filepath.Join(above, filepath.Base(bin)), e
	}
	if err != nil {
		return "", fmt.Errorf("find the folder of programs: %w", err)
	}
	return real, nil
}

// allIdle refuses while a run of busy is going on, or anything else runs from the folder of programs.
func allIdle(busy []string, bin string) error {
	if len(busy) > 0 {
		return usage("a run is going on (%s): wait for its end, or end it with Ctrl-C; until then its programs stay", strings.Join(busy, ", "))
	}
	from, err := programs(bin)
	if err != nil {
		return &exitError{exitHarness, err}
	}
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return &exitError{exitHarness, fmt.Errorf("look for running programs: %w", err)}
	}
	for _, l := range links {
		pid := strings.Split(l, "/")[2]
		exe, err := os.Readlink(l)
		if err == nil && pid != strconv.Itoa(os.Getpid()) && filepath.Dir(exe) == from {
			return usage("%s is running (process %s), so a run is going on elsewhere: wait for its end; until then its programs stay", exe, pid)
		}
	}
	return nil
}
