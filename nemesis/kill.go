package nemesis

// Kill: a killed process loses all that it had in memory and in flight, at one instant and without a word; what it had
// been told to keep is there when it has been started again, and what it had answered stays true.

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// kill is SIGKILL, and a start on the same ports and data.
type kill struct {
	p     Process
	ended bool // it had ended by itself, so nothing of it is for us to start
}

// Limits of a kill. A start may have to wait for a port, for shared memory, or for a log that is to be read again.
const (
	killLimit    = 5 * time.Second
	restartLimit = 25 * time.Second
	restartEvery = 100 * time.Millisecond // between two attempts
)

func (f *kill) limits() (inject, heal time.Duration) { return killLimit, restartLimit }

func (f *kill) inject(ctx context.Context) error {
	if f.ended = !f.p.Running(); f.ended {
		return errors.New("it had ended by itself, so there was nothing to kill")
	}
	return f.p.Kill(ctx)
}

// heal starts the process, again and again until it is ready: its port may still be taken, what it needs may be down. One
// that has not ended yet, as killing it took too long, will: it is waited for, as nobody else would start it.
func (f *kill) heal(ctx context.Context) error {
	if f.ended { // there is nothing to start
		return nil
	}
	for f.p.Running() {
		if !wait(ctx, restartEvery) {
			return errors.New("it was killed and has not ended, so it was not started again")
		}
	}
	for attempt := 1; ; attempt++ {
		err := f.p.Restart(ctx)
		if err == nil {
			return nil
		}
		if !wait(ctx, restartEvery) {
			return fmt.Errorf("it was not to be started again in %d attempts, the last: %w", attempt, err)
		}
	}
}
