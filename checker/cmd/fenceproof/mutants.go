package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"fenceproof/checker/mutant"

	"github.com/spf13/cobra"
)

// mutantsFlags are the flags of mutants as they were given.
type mutantsFlags struct {
	only, runs, into, doc string
	seeds                 int
	list, check           bool
}

func mutantsCommand() *cobra.Command {
	f := mutantsFlags{only: os.Getenv("ONLY")}
	c := &cobra.Command{
		Use:   "mutants",
		Short: "Break the system on purpose, one build after the other, and see each one caught by the right invariant",
		Long: `mutants builds deliberately broken services from the checkout that it runs in, runs each under the plan that exposes
it, and checks that exactly the right invariants fall, and that the healthy build passes under the same plan and seed.

A matrix that was cut short, or in which a patch or a plan had to be mended, is gone on with by --into and its folder: what
was run there with the same patch and plan is not run again, whatever it came to. The machine, the databases and the sources
must be the same.

Exit status: 0 every mutant was killed or is masked as its patch says, 1 one was not, 254 wrong usage, 255 the harness
itself failed.`,
		Example: `  fenceproof mutants
  fenceproof mutants --only release-by-key
  fenceproof mutants --into runs/mutants-20260301T200000.000Z`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return mutants(c, f) },
	}
	fs := c.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.only, "only", f.only, "only these mutants, separated by commas (also ONLY=)")
	fs.IntVar(&f.seeds, "seeds", 0, "of each mutant only the first so many seeds (0: all)")
	fs.StringVar(&f.runs, "runs", "runs", "folder of all runs")
	fs.StringVar(&f.into, "into", "", "folder of the matrix (default one below --runs, named for the time); one that is there is gone on with")
	fs.StringVar(&f.doc, "doc", "", "write the matrix into this file as well; it has to be the whole one")
	fs.BoolVar(&f.list, "list", false, "list the mutants and do nothing")
	fs.BoolVar(&f.check, "check", false, "see whether the patches apply and compile, and run nothing")
	return c
}

func mutants(c *cobra.Command, f mutantsFlags) error {
	if err := usable(f.runs); err != nil {
		return err
	}
	if c.Flags().Changed("only") && f.only == "" {
		return usage("--only needs the name of a mutant; without it all are run")
	}
	if c.Flags().Changed("into") && f.into == "" {
		return usage("--into needs the folder of a matrix")
	}
	if err := folder("--into", f.into); err != nil {
		return err
	}
	if f.doc != "" {
		if is, err := os.Stat(filepath.Dir(f.doc)); err != nil || !is.IsDir() {
			return usage("--doc %s: there is no folder %s", f.doc, filepath.Dir(f.doc))
		}
		if is, err := os.Stat(f.doc); err == nil && !is.Mode().IsRegular() {
			return usage("--doc %s: this is no file", f.doc)
		}
	}
	all, err := mutant.All()
	if err != nil {
		return &exitError{exitHarness, err}
	}
	chosen, err := mutant.Select(all, f.only)
	if err != nil {
		return usage("--only: %w", err)
	}
	if f.seeds < 0 {
		return usage("--seeds %d: 0 for all, or more", f.seeds)
	}
	if f.doc != "" && (f.only != "" || f.seeds != 0) {
		return usage("--doc %s: a part of the matrix is not what documentation should say; leave --only and --seeds out, or --doc", f.doc)
	}
	out := c.OutOrStdout()
	if f.list {
		for _, m := range chosen {
			fmt.Fprintf(out, "%-32s %s\n", m.Name, m.Title)
		}
		return nil
	}
	root, err := mutant.FindRoot(".")
	if err != nil {
		return usage("%w", err)
	}
	ctx, stop := interruptible(c.Context())
	defer stop()
	if f.check {
		return checkMutants(ctx, out, root, chosen)
	}
	m, dir, err := mutant.Run(ctx, mutant.Options{Root: root, Runs: f.runs, Into: f.into, Seeds: f.seeds, Out: out}, chosen)
	switch {
	case errors.Is(err, mutant.ErrInto), errors.Is(err, mutant.ErrStale):
		return usage("%w", err)
	case err != nil && ctx.Err() != nil && dir != "":
		return &exitError{exitHarness, fmt.Errorf("%w; what was run is in %s, and the same command with --into %[2]s goes on with it", err, dir)}
	case err != nil && dir != "":
		return &exitError{exitHarness, fmt.Errorf("%w; what was run is in %s", err, dir)}
	case err != nil:
		return &exitError{exitHarness, err}
	}
	if f.doc != "" {
		if err := os.WriteFile(f.doc, []byte(m.Markdown()), 0o644); err != nil {
			return &exitError{exitHarness, fmt.Errorf("write the matrix, which is in %s: %w", dir, err)}
		}
	}
	if err := m.Print(out); err != nil {
		return &exitError{exitHarness, err}
	}
	fmt.Fprintf(out, "the runs are in %s\n", dir)
	if !m.Good(chosen) {
		return &exitError{status: 1}
	}
	return nil
}

// checkMutants applies and compiles every mutant.
func checkMutants(ctx context.Context, out io.Writer, root string, chosen []mutant.Mutant) error {
	scratch, err := os.MkdirTemp("", "fenceproof-mutants-")
	if err != nil {
		return &exitError{exitHarness, fmt.Errorf("make a folder for the builds: %w", err)}
	}
	defer os.RemoveAll(scratch)
	bad := 0
	for _, m := range chosen {
		err := mutant.Builder{Root: root, Scratch: scratch}.Check(ctx, m)
		if err != nil {
			bad++
			fmt.Fprintf(out, "%-32s %v\n", m.Name, err)
			continue
		}
		fmt.Fprintf(out, "%-32s applies and compiles\n", m.Name)
	}
	if bad > 0 {
		return &exitError{status: 1}
	}
	return nil
}
