package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"fenceproof/deploy/etcd"
)

// janitorName is the name under which the test's own binary runs again as the janitor of one member or cluster.
const janitorName = "fenceproof-test-etcd-janitor"

// cleaning bounds the janitor's work.
const cleaning = 30 * time.Second

// init turns a test binary that was started under the janitor's name into one, before any test code runs.
func init() {
	if os.Args[0] != janitorName {
		return
	}
	if err := sweep(os.Stdin, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// sweep waits for the end of the test's process, which closes the pipe, and removes the servers and their folders.
func sweep(pipe io.Reader, home string, folders []string) error {
	if _, err := io.Copy(io.Discard, pipe); err != nil {
		return fmt.Errorf("wait for the end of the tests: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleaning)
	defer cancel()
	var errs []error
	for _, f := range folders {
		errs = append(errs, etcd.Demolish(ctx, f))
	}
	return errors.Join(append(errs, os.RemoveAll(home))...)
}

// janitor cleans up after a test whose process was killed.
type janitor struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

func watch(home string, folders []string) (*janitor, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the test's own binary: %w", err)
	}
	cmd := exec.Command(self)
	cmd.Args = append([]string{janitorName, home}, folders...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C in the terminal is not meant for it
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make the janitor's pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the janitor: %w", err), pipe.Close())
	}
	return &janitor{cmd: cmd, pipe: pipe}, nil
}

// dismiss lets the janitor end after everything was removed: it finds nothing to do.
func (j *janitor) dismiss() error {
	if err := errors.Join(j.pipe.Close(), j.cmd.Wait()); err != nil {
		return fmt.Errorf("dismiss the janitor: %w", err)
	}
	return nil
}
