// Package janitor cleans up after a test whose process was killed. The janitor is the test's own binary, started again
// under another name; it waits until the test's process is gone.
package janitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// cleaning bounds a janitor's work.
const cleaning = 30 * time.Second

// Serve turns a test binary that was started under name into its janitor: it waits for the end of the test's process,
// cleans with the arguments that Start was given, and exits. Any other process it leaves alone. It belongs into an init
// function, so that it comes before any test.
func Serve(name string, clean func(ctx context.Context, args []string) error) {
	if os.Args[0] != name {
		return
	}
	if err := work(os.Stdin, os.Args[1:], clean); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// work waits for the end of the pipe, which the end of the test's process closes.
func work(pipe io.Reader, args []string, clean func(ctx context.Context, args []string) error) error {
	if _, err := io.Copy(io.Discard, pipe); err != nil {
		return fmt.Errorf("wait for the end of the tests: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleaning)
	defer cancel()
	return clean(ctx, args)
}

// Janitor is a janitor that was started. Whoever holds it must hold it as long as there is something to clean: with it
// goes the pipe, and with that everything.
type Janitor struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

// Start starts a janitor of that name. It outlives Ctrl-C in the terminal, which is not meant for it.
func Start(name string, args ...string) (*Janitor, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the test's own binary: %w", err)
	}
	cmd := exec.Command(self)
	cmd.Args = append([]string{name}, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make the janitor's pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the janitor: %w", err), pipe.Close())
	}
	return &Janitor{cmd: cmd, pipe: pipe}, nil
}

// Dismiss lets the janitor end once everything was removed: it finds nothing to do.
func (j *Janitor) Dismiss() error {
	if err := errors.Join(j.pipe.Close(), j.cmd.Wait()); err != nil {
		return fmt.Errorf("dismiss the janitor: %w", err)
	}
	return nil
}
