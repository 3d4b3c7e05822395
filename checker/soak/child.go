package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"fenceproof/checker/run"
)

// A run that has not ended this long after its drive hangs: the harness has failed. It is told to end, and killed when
// it does not within grace.
const (
	overdue = 10 * time.Minute
	grace   = 2 * time.Minute
)

// child does one run in a process of its own, so that whatever a run needs of memory is gone with it. When ctx ends the
// process is told to; it heals, judges what there is and reports.
type child struct {
	exe, runs, output string
	task              Task
	env               []string
	before            []string // folders that runs of this cell and seed had left before
	overdue, grace    time.Duration
	cmd               *exec.Cmd
	signal            syscall.Signal // that tells it to end
	done              chan struct{}
	err               error
}

// outcome is how a child ended.
type outcome struct {
	line Line
	// cut: the soak was interrupted, and told it to end before it had. What it found counts only where it is a violation;
	// that the harness failed in it is told all the same.
	cut bool
}

// do runs the child to its end. The error is that it could not be run.
func (c *child) do(ctx context.Context) (outcome, error) {
	began := time.Now()
	var err error
	if c.before, err = c.folders(); err != nil {
		return outcome{}, err
	}
	out, err := os.Create(c.output)
	if err != nil {
		return outcome{}, fmt.Errorf("keep what a run prints: %w", err)
	}
	defer out.Close()
	c.cmd = exec.Command(c.exe, append(c.task.Args(), "--quiet", "--runs", c.runs)...)
	c.cmd.Stdout, c.cmd.Stderr, c.cmd.Env = out, out, c.env
	// A process group of its own: the terminal's Ctrl-C is for the soak, which passes it on once. The kernel kills the run
	// when the soak is killed, and the run's warden cleans up after it.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.done = make(chan struct{})
	started := make(chan error)
	go c.run(started)
	if err := <-started; err != nil {
		return outcome{}, fmt.Errorf("start a run: %w", err)
	}
	cut, late := c.await(ctx)
	l := c.judged(cut, late)
	l.Took = time.Since(began)
	if p := c.cmd.ProcessState; p != nil {
		if u, ok := p.SysUsage().(*syscall.Rusage); ok {
			l.Memory = u.Maxrss * 1024
		}
	}
	if l.Run != "" {
		l.Disk = size(filepath.Join(c.runs, l.Run))
	}
	return outcome{l, cut}, nil
}

// run starts the process and stays on the thread that started it: the kernel takes the end of that thread for the
// parent's death.
func (c *child) run(started chan<- error) {
	defer close(c.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err == nil {
		c.err = c.cmd.Wait()
	}
}

// await waits for the child's end. cut tells whether ctx ended first, late whether it had to be told because it hung.
func (c *child) await(ctx context.Context) (cut, late bool) {
	clock := time.NewTimer(c.task.Drive + c.overdue)
	defer clock.Stop()
	select {
	case <-c.done:
		return false, false
	case <-ctx.Done():
		cut = true
	case <-clock.C:
		late = true
	}
	c.signal = asked(ctx)
	_ = c.cmd.Process.Signal(c.signal) // it may have ended since
	last := time.NewTimer(c.task.Drive + c.overdue)
	if late {
		last.Reset(c.grace)
	}
	defer last.Stop()
	select {
	case <-c.done:
	case <-last.C:
		_ = c.cmd.Process.Kill()
		<-c.done
		late = true
	}
	return cut, late
}

// asked is the signal that ended ctx, so that a run names the one that somebody has sent; SIGTERM where none did.
func asked(ctx context.Context) syscall.Signal {
	if cause := context.Cause(ctx); cause != nil {
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
			if strings.HasSuffix(cause.Error(), "("+s.String()+")") {
				return s
			}
		}
	}
	return syscall.SIGTERM
}

// folder is the name of the run's folder, "" where there is none. A run that is done again after a failure of the harness
// finds the folder of the one before it, which is not this one's.
func (c *child) folder() string {
	found, err := c.folders()
	if err != nil {
		return ""
	}
	for _, id := range slices.Backward(found) {
		if !slices.Contains(c.before, id) {
			return id
		}
	}
	return ""
}

// folders are the names of all folders that runs of this cell and seed have left, the newest last.
func (c *child) folders() ([]string, error) {
	entries, err := os.ReadDir(c.runs)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("look for the folder of a run: %w", err)
	}
	t := c.task
	what := fmt.Sprintf("%s-%s-%s-%d", t.Cell.Workload, t.Cell.Backend, strings.ReplaceAll(t.Nemesis, ",", "+"), t.Seed)
	var all []string // ReadDir sorts by name, and names begin with the time
	for _, e := range entries {
		if _, rest, _ := strings.Cut(e.Name(), "-"); e.IsDir() && run.IsRun(e.Name()) && rest == what {
			all = append(all, e.Name())
		}
	}
	return all, nil
}

// forget removes what the child has left.
func (c *child) forget() error {
	err := os.Remove(c.output)
	if id := c.folder(); id != "" {
		err = errors.Join(err, run.Remove(filepath.Join(c.runs, id)))
	}
	if err != nil {
		return fmt.Errorf("remove an interrupted run: %w", err)
	}
	return nil
}
