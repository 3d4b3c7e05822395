package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"fenceproof/checker/doctor"
	"fenceproof/checker/run"
	"fenceproof/nemesis/plan"

	"github.com/spf13/cobra"
)

func doctorCommand() *cobra.Command {
	var runs string
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can and cannot do, and the command that mends it",
		Long: `Doctor looks for the programs that runs need, and tries what runs and faults need: to make a folder below --runs, to mount
and fill a file system, to move the clock of a process, to make a cgroup. It fetches and builds nothing, and removes what it has made.

Exit status: 0 the machine can do everything; 1 it lacks something that a workload, a backend or a nemesis needs; 254 wrong
usage, 255 it could not be looked at.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := usable(runs); err != nil {
				return err
			}
			exe, err := os.Executable()
			if err != nil {
				return &exitError{exitHarness, fmt.Errorf("find this program's folder: %w", err)}
			}
			r, err := doctor.Examine(c.Context(), doctor.Surroundings{Runs: runs, Bin: filepath.Dir(exe), Memory: fullDisks()})
			if err != nil {
				return &exitError{exitHarness, err}
			}
			if err := printDoctor(c, r, asJSON); err != nil {
				return &exitError{exitHarness, err}
			}
			if !r.Fit {
				return &exitError{status: 1}
			}
			return nil
		},
	}
	c.Flags().StringVar(&runs, "runs", "runs", "folder of all runs")
	c.Flags().BoolVar(&asJSON, "json", false, "print it for programs")
	return c
}

// fullDisks is how much memory the longest of the usual runs fills: one whose databases both have their disks filled.
func fullDisks() int64 {
	return 2 * plan.Plan{Drive: plan.Duration(run.DefaultDrive)}.Volume()
}

func printDoctor(c *cobra.Command, r doctor.Report, asJSON bool) error {
	if !asJSON {
		return r.Print(c.OutOrStdout())
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write down the findings: %w", err)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n", text)
	return err
}
