package main

import (
	"errors"
	"io"
	"os"

	"fenceproof/checker/history"
	"fenceproof/checker/run"
	"fenceproof/checker/verdict"
	"fenceproof/reports"

	"github.com/spf13/cobra"
)

func recheckCommand() *cobra.Command {
	var quiet, asJSON bool
	c := &cobra.Command{
		Use:   "recheck RUN",
		Short: "Judge a recorded run again, from its files alone",
		Long: `Recheck reads the history in the run's folder (runs/latest, or any folder with a history/ of the documented format),
judges it, and prints the verdict. It changes nothing. The exit status is the verdict's.`,
		Args: oneArg("the run's folder, for example runs/latest"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := recorded(args[0]); err != nil {
				return err
			}
			v, err := run.Recheck(args[0])
			if errors.Is(err, history.ErrEmpty) {
				return usage("%w", err)
			}
			if err != nil {
				return &exitError{exitHarness, err}
			}
			show := func() error { return run.Print(harmless{c.OutOrStdout()}, v, quiet) }
			if asJSON {
				show = func() error { return printJSON(c.OutOrStdout(), v) }
			}
			if err := show(); err != nil {
				return &exitError{exitHarness, err}
			}
			if v.Exit != 0 {
				return &exitError{status: v.Exit}
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the verdict only")
	c.Flags().BoolVar(&asJSON, "json", false, "print it as verdict.json has it")
	return c
}

// recorded refuses what is no run's folder.
func recorded(dir string) error {
	is, err := os.Stat(run.HistoryDir(dir))
	if err == nil && !is.IsDir() {
		err = errors.New("history is no folder")
	}
	if err != nil {
		return usage("%s is no run: it has no folder history (%v)", dir, err)
	}
	return nil
}

func printJSON(w io.Writer, v *verdict.Run) error {
	b, err := v.JSON()
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

func oneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage("%s takes one argument: %s", c.CommandPath(), what)
		}
		return nil
	}
}

func transcriptCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "transcript RUN [PAYOUT...]",
		Short: "Tell in plain text what happened to payouts of a run",
		Long: `Transcript prints, from the history in the run's folder, every answer, row change and stop that concerned the payouts,
each effect before the answer that reports it. A payout is named by its id or by how that begins; without any it tells of those whose lock holder was hit on purpose, else of
the one whose story says most.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s takes the run's folder, for example runs/latest, and perhaps payouts", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := recorded(args[0]); err != nil {
				return err
			}
			err := reports.Transcript(harmless{c.OutOrStdout()}, run.HistoryDir(args[0]), args[1:]...)
			switch {
			case errors.Is(err, reports.ErrWhichPayout), errors.Is(err, history.ErrEmpty):
				return usage("%v", err)
			case err != nil:
				return &exitError{exitHarness, err}
			}
			return nil
		},
	}
}
