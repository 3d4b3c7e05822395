package main

import (
	"fenceproof/checker/replay"
	"fenceproof/checker/run"

	"github.com/spf13/cobra"
)

func replayCommand() *cobra.Command {
	var s surroundings
	c := &cobra.Command{
		Use:   "replay RUN",
		Short: "Do a recorded run again: the same plan, load, fencing and expectation",
		Long: `Replay reads from the history in the run's folder what the run was told to do and does it again, as a run of its own.
The faults come at the same times and events; processes and networks are as free as ever, so what comes of it may differ.`,
		Args: oneArg("the run's folder, for example runs/latest"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := recorded(args[0]); err != nil {
				return err
			}
			cfg, err := replay.Of(args[0])
			if err != nil {
				return usage("%v", err)
			}
			if err := s.apply(&cfg); err != nil {
				return err
			}
			cfg.Command = "bin/fenceproof replay " + quoted(args[0])
			ctx, stop := interruptible(c.Context())
			defer stop()
			return outcome(run.Verify(ctx, cfg))
		},
	}
	s.declare(c.Flags())
	return c
}
