package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Limits of how long an effect may take to be seen, and how often it is looked for.
const (
	effectLimit = 10 * time.Second
	look        = time.Millisecond
)

// await polls seen until it holds, fails, or the limit is over.
func await(ctx context.Context, what string, seen func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, effectLimit)
	defer cancel()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		ok, err := seen()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not seen in time: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// Pause stops p and then every descendant of it, and returns when /proc shows all their threads stopped. p is stopped
// first: a stopped process neither makes children nor reaps them, so their pids stay theirs.
func Pause(ctx context.Context, p Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := awaitStopped(ctx, p.Pid()); err != nil {
		return err
	}
	return eachStopped(ctx, p.Pid())
}

func awaitStopped(ctx context.Context, pid int) error {
	return await(ctx, fmt.Sprintf("stop process %d", pid), func() (bool, error) { return stopped(pid) })
}

// eachStopped stops the descendants of a stopped process, generation by generation, until there is none that runs.
func eachStopped(ctx context.Context, root int) error {
	seen := map[int]bool{}
	for {
		pids, err := Descendants(root)
		if err != nil {
			return err
		}
		fresh := 0
		for _, pid := range pids {
			if seen[pid] {
				continue
			}
			seen[pid] = true
			fresh++
			if err := kill(pid, syscall.SIGSTOP); err != nil {
				return err
			}
			if err := awaitStopped(ctx, pid); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return err
			}
		}
		if fresh == 0 {
			return nil
		}
	}
}

// Resume lets p and its descendants run again, and returns when no thread of theirs is stopped. The children run
// first, p last, so that nobody reaps what is still to be resumed.
func Resume(ctx context.Context, p Process) error {
	pids, err := Descendants(p.Pid())
	if err != nil {
		return err
	}
	for i := len(pids) - 1; i >= 0; i-- {
		if err := kill(pids[i], syscall.SIGCONT); err != nil {
			return err
		}
	}
	if err := p.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	for _, pid := range append(pids, p.Pid()) {
		err := await(ctx, fmt.Sprintf("resume process %d", pid), func() (bool, error) { return resumed(pid) })
		if err != nil && (pid == p.Pid() || !errors.Is(err, os.ErrProcessDone)) {
			return err
		}
	}
	return nil
}

// Kill ends p and every descendant with SIGKILL and returns when all are gone. p is stopped first, so that it cannot
// notice the death of a child, nor make another.
func Kill(ctx context.Context, p Process) error {
	err := p.Signal(syscall.SIGSTOP)
	if errors.Is(err, os.ErrProcessDone) {
		return awaitEnd(ctx, p, nil)
	}
	if err != nil {
		return err
	}
	if err := awaitStopped(ctx, p.Pid()); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	pids, err := Descendants(p.Pid())
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := kill(pid, syscall.SIGKILL); err != nil {
			return err
		}
	}
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return awaitEnd(ctx, p, pids)
}

// Stop asks p to end with s and waits for it until ctx ends; then it is killed with all its descendants.
func Stop(ctx context.Context, p Process, s syscall.Signal) error {
	if err := p.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		late := fmt.Errorf("process %d did not end on %v and was killed: %w", p.Pid(), s, context.Cause(ctx))
		return errors.Join(late, Kill(context.WithoutCancel(ctx), p))
	}
}

func awaitEnd(ctx context.Context, p Process, others []int) error {
	ctx, cancel := context.WithTimeout(ctx, effectLimit)
	defer cancel()
	select {
	case <-p.Done():
	case <-ctx.Done():
		return fmt.Errorf("kill process %d: it is still there: %w", p.Pid(), context.Cause(ctx))
	}
	return AwaitGone(ctx, others)
}

// KillAll sends SIGKILL to pids and waits until all have ended. The caller knows that they are the ones it means.
func KillAll(ctx context.Context, pids []int) error {
	var errs []error
	for _, pid := range pids {
		errs = append(errs, kill(pid, syscall.SIGKILL))
	}
	return errors.Join(append(errs, AwaitGone(ctx, pids))...)
}

// AwaitGone waits until all of pids have ended.
func AwaitGone(ctx context.Context, pids []int) error {
	for _, pid := range pids {
		err := await(ctx, fmt.Sprintf("wait for the end of process %d", pid), func() (bool, error) { return Gone(pid), nil })
		if err != nil {
			return err
		}
	}
	return nil
}

// kill signals a process that may have ended meanwhile.
func kill(pid int, s syscall.Signal) error {
	if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %v to process %d: %w", s, pid, err)
	}
	return nil
}
