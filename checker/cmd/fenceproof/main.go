// Command fenceproof verifies a system whose locks guard money: it runs the real thing, breaks it on purpose, and
// decides from recorded evidence whether the money stayed right.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"fenceproof/checker/contract"
	"fenceproof/checker/doctor"
	"fenceproof/checker/linear"
	"fenceproof/deploy/local/warden"

	"github.com/spf13/cobra"
)

// Exit statuses besides those of a verdict (0 pass, 1 violated, 2 inconclusive or not exercised).
const (
	exitUsage   = 254
	exitHarness = 255
)

func main() {
	warden.RunIfAsked()
	linear.RunIfAsked()
	doctor.RunIfAsked()
	forgetPostgres()
	readersMayLeave()
	os.Exit(execute(os.Args[1:]))
}

// exitError ends the command with a status of its own; its text was already shown where it is empty.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func execute(args []string) int {
	root := command()
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return 0
	}
	var e *exitError
	if !errors.As(err, &e) {
		// Cobra's own errors: an unknown command, too many arguments.
		e = &exitError{exitUsage, err}
	}
	if e.err != nil {
		fmt.Fprintf(os.Stderr, "fenceproof: %v\n", e.err)
	}
	return e.status
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "fenceproof",
		Short: "Mutual exclusion does not protect a resource; the fencing token does. See it hold, and see it fail.",
		Long: `fenceproof runs a payout system for real (two PostgreSQL instances, a lock service, executors, a payment rail),
stops its processes in the middle of their work, and judges from recorded evidence whether the money stayed right.

Exit status: 0 pass, 1 violated, 2 inconclusive or not exercised, 253 this machine cannot do what the run takes, 254 wrong
usage, 255 the harness itself failed.`,
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              knownCommand,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.SetOut(unread{os.Stdout})
	root.AddCommand(verifyCommand(), recheckCommand(), importCommand(), exportCommand(), replayCommand(), lockClientCommand(), auditCommand(), transcriptCommand(), mutantsCommand(), sweepCommand(), soakCommand(), doctorCommand(), cleanCommand())
	return root
}

// knownCommand names the command that was probably meant.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	return usage("%q is not a command%s", args[0], contract.Meant(args[0], names))
}
