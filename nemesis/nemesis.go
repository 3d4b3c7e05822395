// Package nemesis breaks a running stack as a plan says, and never leaves it broken. Each fault is one file with its
// guarantee in the first line. The package knows a stack only by the small interfaces below.
package nemesis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// Stack is what a nemesis needs of the running system.
type Stack interface {
	// Process finds a process by its name.
	Process(contract.Process) (Process, error)
}

// Process is a process that can be stopped and killed. The calls return when the effect was seen in /proc, or with an
// error when it was not seen before ctx ended.
type Process interface {
	// Running tells whether it has been started and has not ended. A stopped process is running.
	Running() bool
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	// Kill ends it with SIGKILL, a server with all of its processes, and returns when nothing of it is left.
	Kill(ctx context.Context) error
	// Restart starts it again on the same ports and data, and returns when it is ready.
	Restart(ctx context.Context) error
}

// Recorder keeps the nemesis log.
type Recorder interface {
	Record(history.Witness, history.Event) int64
}

// fault is one injection: a state machine from set-up to healed.
type fault interface {
	inject(ctx context.Context) error // returns when the effect was seen
	heal(ctx context.Context) error   // returns when the effect is seen to be gone
}

// Phases of a fault window in the nemesis log.
const (
	PhaseInject = "inject" // the injection begins
	PhaseSeen   = "seen"   // its effect was seen
	PhaseHeal   = "heal"   // healing begins; Msg says why now
	PhaseHealed = "healed" // the effect is seen to be gone
	PhaseFailed = "failed" // the effect was not seen, or did not go away
)

// Deadlines of one injection or healing, where a fault has none of its own.
const (
	injectTimeout = 2 * time.Second
	healTimeout   = 5 * time.Second
)

// errUnproven is the error of a healing that was done, and whose success could not be seen. It leaves nothing broken: the
// log says so, and the run is none the worse, unless its nemesis rests on that (a clock's, a restore's): then it is not exercised.
var errUnproven = errors.New("not seen to be healed")

// errFaded is the error of a healing that was done and seen, of a fault whose effect had not lasted until then. The log says both,
// and the window shows less than it was meant to.
var errFaded = errors.New("it is healed, and its effect had not lasted until then")

// slow is a fault whose injection or healing may take longer.
type slow interface {
	limits() (inject, heal time.Duration)
}

func limits(f fault) (inject, heal time.Duration) {
	if s, ok := f.(slow); ok {
		return s.limits()
	}
	return injectTimeout, healTimeout
}

// teller is a fault that can say what was seen of its effect, and what was seen when that was gone.
type teller interface {
	seen() string
	healed() string
}

// told is what a fault says of its effect and of its healing, nothing where it has nothing to say.
func told(f fault) (seen, healed func() string) {
	if t, ok := f.(teller); ok {
		return t.seen, t.healed
	}
	nothing := func() string { return "" }
	return nothing, nothing
}

// attested is a fault of which the log says more than words: what the judgement counts by.
type attested interface {
	attrs() map[string]string
}

// Engine carries out one plan. Observe feeds it the run's events, Run blocks until the plan is done or its time is up.
type Engine struct {
	plan  plan.Plan
	stack Stack
	rec   Recorder
	heard *listeners

	patience time.Duration // how long a step waits for a process that another one holds
	copyWait time.Duration // how long a copy may stay without an answer

	grantWait time.Duration // how long a restored store may grant nothing

	end context.CancelFunc // ends the drive

	mu     sync.Mutex
	busy   map[contract.Process]*holding  // processes that a step holds
	freed  map[contract.Process]time.Time // when one was held last
	window int
	status Status
}

// Status counts what the engine has done so far.
type Status struct {
	Active  []string // faults active now: "pause executor-2"
	Windows int      // windows whose effect was seen
	Failed  int      // injections whose effect was not seen
}

// NewEngine makes the engine of one plan on one stack.
func NewEngine(p plan.Plan, s Stack, rec Recorder) *Engine {
	return &Engine{plan: p, stack: s, rec: rec, heard: newListeners(), patience: patience, copyWait: healTimeout, grantWait: grantLimit, end: func() {}, busy: map[contract.Process]*holding{}, freed: map[contract.Process]time.Time{}}
}

// Observe takes the next event of the run; it never blocks.
func (e *Engine) Observe(ev *history.Event) { e.heard.observe(ev) }

// Status is a copy of the engine's counts.
func (e *Engine) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.status
	s.Active = slices.Clone(s.Active)
	return s
}

// Run carries the plan's steps out until ctx ends or drive has passed: those that begin at a time then, and those that
// wait for a message from a time on from then on; the others in their order and at most plan.Together at once. When it
// returns everything is healed; the error says what could not be healed, or not be tried. An injection whose effect was not
// seen is no error, nor is a step whose time or event never came: the log and Status say so of each. Where the system
// did not carry out a step of the operator's runbook the steps end there, as nobody is let in any more, or to some of the keys.
// The error is a RunbookError then, unless the harness failed as well: of that alone it speaks.
func (e *Engine) Run(ctx context.Context) error {
	if len(e.plan.Steps) == 0 {
		return nil
	}
	begin := time.Now()
	ctx, cancel := context.WithDeadline(ctx, begin.Add(time.Duration(e.plan.Drive)))
	defer cancel()
	e.end = cancel
	var mu sync.Mutex
	var failed []error
	var keptOut error // the first: the drive has ended then
	do := func(s plan.Step) {
		err := e.step(ctx, begin, s)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case bySystem(err):
			keptOut = cmp.Or(keptOut, err)
		case err != nil:
			failed = append(failed, err)
		}
	}
	var work sync.WaitGroup
	var rest []plan.Step
	for _, s := range e.plan.Steps {
		if s.Timed() || s.WaitsFrom() {
			work.Go(func() { do(s) })
		} else {
			rest = append(rest, s)
		}
	}
	steps := make(chan plan.Step)
	work.Go(func() {
		defer close(steps)
		for i, s := range rest {
			select {
			case steps <- s:
			case <-ctx.Done():
				for _, s := range rest[i:] {
					e.missed(s, trigger{}, contract.Process(s.Target), "the drive has ended, and its turn had not come")
				}
				return
			}
		}
	})
	for range e.plan.Together {
		work.Go(func() {
			for s := range steps {
				do(s)
			}
		})
	}
	work.Wait()
	if len(failed) == 0 {
		return keptOut
	}
	return errors.Join(failed...)
}

// step waits for the step's time and trigger, injects, waits for its end and heals.
func (e *Engine) step(ctx context.Context, begin time.Time, s plan.Step) error {
	if !wait(ctx, time.Until(begin.Add(time.Duration(s.At)))) {
		e.missed(s, trigger{}, contract.Process(s.Target), "the drive has ended before")
		return nil
	}
	switch {
	case s.Fault.OnMessage():
		return e.single(ctx, s)
	case s.Fault.OnLink():
		return e.network(ctx, s)
	case s.Fault.OnKey():
		return e.revoke(ctx, s)
	case s.Fault.OnStore():
		return e.restore(ctx, s)
	case s.Fault.OnStandby():
		return e.failover(ctx, s)
	}
	target, trig, ok := e.target(ctx, s)
	if !ok {
		return nil
	}
	defer e.release(target)
	if !wait(ctx, time.Duration(s.Delay)) {
		e.missed(s, trig, target, "the drive has ended before")
		return nil
	}
	// The end may come while the injection is still being seen, so it is listened for from before.
	var end <-chan struct{}
	if s.Until != "" {
		l := e.heard.listen(func(ev *history.Event) bool { return ends(s.Until, trig, ev) })
		defer l.close()
		end = l.heard
	}
	f, err := e.fault(s, target)
	if err != nil {
		return err
	}
	err = e.hold(ctx, s, target, trig, f, end)
	if bySystem(err) { // what nobody gets any more he need not be seen to wait for
		e.end()
	}
	return err
}

// hold is one fault window. Healing happens on every path, on a context of its own.
func (e *Engine) hold(ctx context.Context, s plan.Step, target contract.Process, trig trigger, f fault, end <-chan struct{}) error {
	n := e.open(s, target)
	log := func(phase, format string, args ...any) {
		ev := history.Event{Type: contract.Info, Proc: "nemesis", Op: contract.Op(s.Fault), Window: n, Phase: phase,
			Target: string(target), Payout: trig.payout, Key: trig.key, Token: trig.token, Msg: fmt.Sprintf(format, args...)}
		if a, ok := f.(attested); ok {
			ev.Attrs = a.attrs()
		}
		e.rec.Record(history.Nemesis, ev)
	}
	log(PhaseInject, "%s", reason(s, trig))
	seen, healed := told(f)
	until := time.After(time.Duration(s.For))
	injectLimit, healLimit := limits(f)
	c, cancel := context.WithTimeout(context.WithoutCancel(ctx), injectLimit)
	injectErr := f.inject(c)
	cancel()
	why := "the effect was not seen"
	if injectErr == nil {
		log(PhaseSeen, "%s", seen())
		why = outlast(ctx, s, end, until)
	} else {
		log(PhaseFailed, "%v", injectErr)
	}
	log(PhaseHeal, "%s", why)
	c, cancel = context.WithTimeout(context.WithoutCancel(ctx), healLimit)
	defer cancel()
	healErr := f.heal(c)
	if healErr != nil {
		log(PhaseFailed, "%v", healErr)
	}
	if healErr == nil || errors.Is(healErr, errFaded) { // whatever is excused by the effect ends with it
		log(PhaseHealed, "%s", healed())
	}
	e.close(s, target, injectErr == nil)
	if errors.Is(healErr, errUnproven) || errors.Is(healErr, errFaded) {
		return nil
	}
	return healErr
}

func reason(s plan.Step, t trigger) string {
	why := "planned at " + s.At.String()
	if s.On != "" && t == (trigger{}) {
		why = fmt.Sprintf("planned %s after %s", s.Delay, s.On)
	} else if s.On != "" {
		why = fmt.Sprintf("%s after %s for %s under token %d", s.Delay, s.On, t.subject(), t.token)
	}
	if s.Fault.OnLink() {
		why = how(s) + ", " + why
	}
	if s.Clock != nil {
		why = movement(*s.Clock) + ", " + why
	}
	return why
}

// outlast blocks until the window is over and says why it is.
func outlast(ctx context.Context, s plan.Step, end <-chan struct{}, until <-chan time.Time) string {
	select {
	case <-end:
		return string(s.Until)
	case <-until:
		if s.Until == "" {
			return "planned end"
		}
		return fmt.Sprintf("%s did not come within %s", s.Until, s.For)
	case <-ctx.Done():
		return "the drive has ended"
	}
}

func (e *Engine) open(s plan.Step, target contract.Process) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.window++
	e.status.Active = append(e.status.Active, active(s, target))
	return e.window
}

func (e *Engine) close(s plan.Step, target contract.Process, seen bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.status.Active, active(s, target)); i >= 0 {
		e.status.Active = slices.Delete(e.status.Active, i, i+1)
	}
	if seen {
		e.status.Windows++
	} else {
		e.status.Failed++
	}
}

func active(s plan.Step, target contract.Process) string {
	return string(s.Fault) + " " + string(target)
}

func (e *Engine) fault(s plan.Step, target contract.Process) (fault, error) {
	if s.Fault == plan.DiskFull {
		return e.diskFull(s, target)
	}
	if s.Fault == plan.Clock {
		return e.skew(s, target)
	}
	p, err := e.stack.Process(target)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Fault, err)
	}
	switch s.Fault {
	case plan.Pause:
		return pause{p}, nil
	case plan.Kill:
		return &kill{p: p}, nil
	}
	return nil, fmt.Errorf("fault %q is not known", s.Fault)
}

// wait sleeps for d; false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(0, d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
