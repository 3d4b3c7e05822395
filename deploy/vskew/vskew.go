// Package vskew moves the wall clock of running processes, without their help: of Go programs, which ask the vDSO past
// the C library, and of C programs alike. The functions of the vDSO, a page of code that the kernel maps into every
// process, are redirected to code of ours beside them, which adds an offset to what the kernel answers. Monotonic clocks
// are left alone, and so is everything that the kernel does by its own clock: timers, and the times of files.
//
// A process stays redirected until it ends. What it forks is redirected as it is, with an offset of its own from then on;
// what it executes, or what is started in its place, has the true time. Where the offset is zero the time is the true one.
package vskew

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"fenceproof/deploy/process"
)

// ErrUnsupported says that no clock can be moved on this machine.
var ErrUnsupported = errors.New("the wall clock of a process can be moved on Linux on amd64 only")

// ErrOwnChild says that a process is a child of this very one, which waits for its end: the kernel would tell that waiter
// of the stop as if it were the end.
var ErrOwnChild = errors.New("it is a child of this process: a child's clock is moved from another one")

// Limit is how far a clock may be moved, either way.
const Limit = 365 * 24 * time.Hour

// Move puts the wall clock of a process by ahead of the true one, or behind it where by is negative. All of its threads see
// the new offset at once. Where the process was not redirected yet it is stopped for that, mostly for less than a
// millisecond: its threads are stopped one by one, and one that sleeps in the kernel and hears of nothing has the others wait
// for 100 ms at most. Then they go on, and it is tried again a little later, for 3 s in all. Whatever becomes of this process
// meanwhile, the other one runs on, redirected or not. The error is os.ErrProcessDone where it has ended. One that never was
// moved has the true time, and nothing is done to it where by is 0.
func Move(ctx context.Context, pid int, by time.Duration) error {
	if by < -Limit || by > Limit {
		return fmt.Errorf("move the clock of process %d: %s is more than %s", pid, by, Limit)
	}
	err := move(ctx, pid, anybody, by)
	for end := time.Now().Add(soon); errors.Is(err, errNoVDSO) && time.Now().Before(end); time.Sleep(time.Millisecond) {
		err = move(ctx, pid, anybody, by)
	}
	return ofMove(pid, err)
}

// anybody stands for the start of a process where its pid is known to be nobody else's.
const anybody = 0

func ofMove(pid int, err error) error {
	if err != nil {
		if dies(pid) {
			err = os.ErrProcessDone
		}
		return fmt.Errorf("move the clock of process %d: %w", pid, err)
	}
	return nil
}

// soon is how long a process that has just been started may take to have its vDSO, and one that has no memory any more to
// be gone.
const soon = 100 * time.Millisecond

// errNoVDSO says that a process has no vDSO: it is a thing of the kernel's, or has not come that far yet.
var errNoVDSO = errors.New("it has no vDSO")

// dies tells, of a process of which something could not be done, whether it is because it has ended, or is about to.
func dies(pid int) bool {
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		if process.Gone(pid) || time.Now().After(end) || err == nil && len(maps) > 0 {
			return process.Gone(pid)
		}
	}
}

// How often a family is looked at until nobody of it is found behind, and how long is waited before each further look. A
// process that is being forked has its parent's old offset by now, and cannot be seen yet.
const (
	looks     = 50
	lookAgain = 2 * time.Millisecond
	enough    = 2 // looks, one after the other, at which nobody was behind
)

// MoveFamily moves the clocks of a process and of all its descendants, its own first: what it forks from then on has the
// new offset from the beginning. Descendants that end meanwhile are no error.
func MoveFamily(ctx context.Context, root int, by time.Duration) error {
	if err := Move(ctx, root, by); err != nil {
		return err
	}
	for calm, n := 0, 0; calm < enough; n++ {
		if n == looks {
			return fmt.Errorf("move the clocks of process %d and its descendants: after %d looks there are still some behind", root, looks)
		}
		behind, err := moveDescendants(ctx, root, by)
		if err != nil {
			return err
		}
		if calm++; behind > 0 {
			calm = 0
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return fmt.Errorf("move the clocks of process %d and its descendants: %w", root, context.Cause(ctx))
		}
	}
	return nil
}

// moveDescendants tells how many it found with another offset.
func moveDescendants(ctx context.Context, root int, by time.Duration) (behind int, err error) {
	family, err := process.Family(root)
	if err != nil {
		return 0, fmt.Errorf("move the clocks of the descendants of process %d: %w", root, err)
	}
	for _, s := range family {
		at, err := offset(s.Pid, s.Start)
		if by == 0 && errors.Is(err, os.ErrPermission) {
			continue // who may not read there has written nothing, and it has the true time
		}
		if err == nil && at != by {
			behind++
			err = move(ctx, s.Pid, s.Start, by)
		}
		if errors.Is(err, errNoVDSO) && !dies(s.Pid) { // it is being made, and will be looked at again
			behind++
			continue
		}
		if err = ofMove(s.Pid, err); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return behind, err
		}
	}
	return behind, nil
}
