package nemesis

// Clock: a wall clock that is wrong changes nobody's rights but those that it decides: a client's none, the lock store's
// when a lease is over, and even then never who writes last.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/nemesis/plan"
)

// Clocks is what a Stack can do besides, where the wall clocks of processes can be moved.
type Clocks interface {
	Clock(context.Context, contract.Process) (Clock, error)
	// ClockHealed sets right what a clock that was ahead has left behind, as an operator would, and says in left what was done.
	// The error is a RunbookError where the system did not do what it was asked for.
	ClockHealed(context.Context, contract.Process) (left string, err error)
}

// Clock is the wall clock of a process.
type Clock interface {
	// Running tells whether there is a process whose clock it is.
	Running() bool
	// Move puts it so far ahead of the true time, or behind.
	Move(ctx context.Context, by time.Duration) error
	// Read asks the process for the time: by how much it is ahead of the harness's clock, at least and at most.
	Read(ctx context.Context) (least, most time.Duration, err error)
	Close(ctx context.Context) error
}

// Times of a moved clock.
const (
	clockLimit = 6 * time.Second        // for it to be seen; a drift has to come that far first
	rightLimit = 20 * time.Second       // for it to be right again, with what it has left behind
	driftEvery = 50 * time.Millisecond  // between two small steps of a drift
	readEvery  = 70 * time.Millisecond  // between two questions
	readLimit  = 2 * time.Second        // for the answer to one
	restLimit  = 2 * time.Second        // for a move that is under way when the window ends
	tooFar     = 500 * time.Millisecond // a clock that never was as far ahead has left nothing behind
)

// skew is one movement of one clock.
type skew struct {
	stack  Clocks
	target contract.Process
	how    plan.Movement
	clock  Clock

	stop   context.CancelFunc // of what moves the clock all the while: no further move is begun
	cease  context.CancelFunc // and the one that is under way ends
	moving sync.WaitGroup
	mu     sync.Mutex
	by     time.Duration // as it was moved last
	far    time.Duration // as far ahead as it ever was
	failed error
	told   string
	right  string
	ended  bool // the process has
	heard  bool // it answered, after the last window's end

	keptOut bool // everybody is, from what it has left behind
}

func (e *Engine) skew(s plan.Step, target contract.Process) (fault, error) {
	stack, ok := e.stack.(Clocks)
	if !ok || s.Clock == nil {
		return nil, fmt.Errorf("%s: the clocks of this stack cannot be moved", s.Fault)
	}
	return &skew{stack: stack, target: target, how: *s.Clock}, nil
}

// limits: what it takes to set right who does not answer, and to let go of him, comes on top of the second.
func (f *skew) limits() (inject, heal time.Duration) { return clockLimit, rightLimit }
func (f *skew) seen() string                         { return f.told }
func (f *skew) healed() string                       { return f.right }

// attrs are how it is moved.
func (f *skew) attrs() map[string]string {
	all := map[string]string{}
	for name, d := range map[string]plan.Duration{"by": f.how.By, "strobe": f.how.Strobe, "drift": f.how.Drift} {
		if d != 0 {
			all[name] = d.String()
		}
	}
	if f.keptOut {
		all[AttrKeptOut] = "true"
	}
	return all
}

// inject moves the clock and returns when the process was heard to say so.
func (f *skew) inject(ctx context.Context) (err error) {
	if f.clock, err = f.stack.Clock(ctx, f.target); err != nil {
		return err
	}
	alive, cease := context.WithCancel(context.WithoutCancel(ctx))
	moving, stop := context.WithCancel(alive)
	f.stop, f.cease = stop, cease
	switch {
	case f.how.Drift != 0:
		began := time.Now()
		f.moving.Go(func() {
			f.again(moving, alive, driftEvery, func() time.Duration {
				return time.Duration(time.Since(began).Seconds() * float64(f.how.Drift))
			})
		})
	case f.how.Strobe != 0:
		n := 0
		f.moving.Go(func() {
			f.again(moving, alive, time.Duration(f.how.Strobe), func() time.Duration { n++; return time.Duration(f.how.By) * time.Duration(n%2) })
		})
	default:
		if err := f.move(ctx, time.Duration(f.how.By)); err != nil {
			return err
		}
	}
	f.told, err = f.watch(ctx)
	return err
}

// move moves the clock and remembers how far.
func (f *skew) move(ctx context.Context, by time.Duration) error {
	f.mu.Lock()
	f.far = max(f.far, by)
	f.mu.Unlock()
	err := f.clock.Move(ctx, by)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.by = by
	return err
}

// again moves the clock all the while, until ctx ends or it cannot be moved. A move that has begun goes on until alive ends.
func (f *skew) again(ctx, alive context.Context, every time.Duration, by func() time.Duration) {
	for {
		if err := f.move(alive, by()); err != nil {
			f.mu.Lock()
			f.failed = err
			f.mu.Unlock()
			return
		}
		if !wait(ctx, every) {
			return
		}
	}
}

// watch asks for the time until what is said can be nothing but the movement.
func (f *skew) watch(ctx context.Context) (string, error) {
	var all sightings
	for {
		least, most, err := f.ask(ctx)
		if err == nil {
			if text, done := all.take(f.how, time.Now(), least, most); done {
				return text, nil
			}
		}
		f.mu.Lock()
		failed := f.failed
		f.mu.Unlock()
		if failed != nil || !wait(ctx, readEvery) {
			return "", errors.Join(fmt.Errorf("its clock is not seen to be %s; the last time it said %s", movement(f.how), shift(least, most)), err, failed)
		}
	}
}

func (f *skew) ask(ctx context.Context) (least, most time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	return f.clock.Read(ctx)
}

// heal puts the clock right, and returns when the process was heard to say the true time. Who has died since has no clock
// any more, and who was started in his place has a true one. Whom nobody can hear has his clock right all the same: what it
// has left behind is set right as well, and that it is unproven is said.
func (f *skew) heal(ctx context.Context) (err error) {
	if f.clock == nil {
		return nil
	}
	defer func() {
		soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), rightLimit)
		defer cancel()
		closed := f.clock.Close(soon)
		f.keptOut = closed == nil && bySystem(err)
		switch {
		case closed != nil && err != nil:
			err = fmt.Errorf("%w; and before that: %v", closed, err) // an unproven healing excuses no clock that is left as it is
		case closed != nil:
			err = closed
		}
	}()
	f.rest(ctx)
	before := ""
	if least, most, err := f.ask(ctx); err == nil {
		before = "it was " + shift(least, most) + ", and "
	}
	unproven := f.setRight(ctx, before)
	if unproven != nil && !errors.Is(unproven, errUnproven) {
		return unproven
	}
	if f.far >= tooFar {
		if unproven != nil { // the time for it was spent on questions
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), rightLimit)
			defer cancel()
		}
		left, err := f.stack.ClockHealed(ctx, f.target)
		if left != "" {
			f.right += "; " + left
		}
		switch {
		case err != nil && unproven != nil && !f.heard: // whoever answers nothing cannot be set right either
			return fmt.Errorf("%w (%s; what it has left behind is not set right: %v)", unproven, f.right, err)
		case err != nil:
			return fmt.Errorf("what it has left behind is not set right: %w", err)
		}
	}
	switch {
	case unproven != nil:
		return fmt.Errorf("%w (%s)", errors.Join(unproven, f.failed), f.right)
	case f.failed != nil && f.told != "" && !f.ended:
		return fmt.Errorf("%w: it %s, and was not moved any further: %w", errFaded, f.right, f.failed)
	}
	return nil
}

// setRight takes the offset away until the process says the true time. It is errUnproven where it was taken away, and nothing
// that the process has said since tells against it.
func (f *skew) setRight(ctx context.Context, before string) error {
	var all sightings
	moved, off := false, false
	for {
		if !f.clock.Running() {
			f.right, f.ended = "it has ended, and whoever is started in its place has the true time", true
			return nil
		}
		err := f.clock.Move(ctx, 0)
		if err == nil || ctx.Err() == nil { // no time to do it once more takes nothing back
			moved = err == nil
		}
		if err == nil {
			var least, most time.Duration
			if least, most, err = f.ask(ctx); err == nil {
				f.heard, off = true, least > 0 || most < 0
				if all.still(0, max(f.by.Abs(), plan.MinShift), least, most) {
					// What was being forked at the first move may have the old offset. It is there by now: a server that
					// has forked again to answer is through with it.
					if err = f.clock.Move(ctx, 0); err == nil {
						f.right = before + "is " + shift(all.least, all.most)
						return nil
					}
				}
			}
		}
		if !wait(ctx, readEvery) {
			err = errors.Join(errors.New("its clock is not seen to be right again"), err)
			if moved && !off {
				f.right = before + "the offset was taken away"
				return fmt.Errorf("%w: %w", errUnproven, err)
			}
			return err
		}
	}
}

// rest has nothing move the clock any more. A move that is under way may end by itself for a moment; then it is ended.
func (f *skew) rest(ctx context.Context) {
	if f.stop == nil {
		return
	}
	f.stop()
	defer f.cease()
	soon, cancel := context.WithTimeout(ctx, restLimit)
	defer cancel()
	end := context.AfterFunc(soon, f.cease)
	f.moving.Wait()
	end()
}
