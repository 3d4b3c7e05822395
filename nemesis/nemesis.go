// Package nemesis breaks a running stack as a plan says, and never leaves it broken. Each fault is one file with its
// guarantee in the first line. The package knows a stack only by the small interfaces below.
package nemesis

import (
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

// Process is a process that can be stopped. Both calls return when the effect was seen in /proc, or with an error when
// it was not seen before ctx ended.
type Process interface {
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
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

// Deadlines of one injection or healing.
const (
	injectTimeout = 2 * time.Second
	healTimeout   = 5 * time.Second
)

// Engine carries out one plan. Observe feeds it the run's events, Run blocks until the plan is done or its time is up.
type Engine struct {
	plan  plan.Plan
	stack Stack
	rec   Recorder
	heard *listeners

	mu     sync.Mutex
	busy   map[contract.Process]bool // processes that a step holds
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
	return &Engine{plan: p, stack: s, rec: rec, heard: newListeners(), busy: map[contract.Process]bool{}}
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

// Run carries the plan's steps out until ctx ends or drive has passed: those that begin at a time then, the others in
// their order and at most plan.Together at once. When it returns everything is healed; the error says what could not be
// injected or healed.
func (e *Engine) Run(ctx context.Context) error {
	if len(e.plan.Steps) == 0 {
		return nil
	}
	begin := time.Now()
	ctx, cancel := context.WithDeadline(ctx, begin.Add(time.Duration(e.plan.Drive)))
	defer cancel()
	var mu sync.Mutex
	var failed []error
	do := func(s plan.Step) {
		if err := e.step(ctx, begin, s); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err)
		}
	}
	var work sync.WaitGroup
	var rest []plan.Step
	for _, s := range e.plan.Steps {
		if s.Timed() {
			work.Go(func() { do(s) })
		} else {
			rest = append(rest, s)
		}
	}
	steps := make(chan plan.Step)
	work.Go(func() {
		defer close(steps)
		for _, s := range rest {
			select {
			case steps <- s:
			case <-ctx.Done():
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
	return errors.Join(failed...)
}

// step waits for the step's time and trigger, injects, waits for its end and heals.
func (e *Engine) step(ctx context.Context, begin time.Time, s plan.Step) error {
	if !wait(ctx, time.Until(begin.Add(time.Duration(s.At)))) {
		return nil
	}
	if s.Fault.OnMessage() {
		return e.single(ctx, s)
	}
	target, trig, ok := e.target(ctx, s)
	if !ok {
		return nil
	}
	defer e.release(target)
	if !wait(ctx, time.Duration(s.Delay)) {
		return nil
	}
	// The end may come while the injection is still being seen, so it is listened for from before.
	var end <-chan struct{}
	if s.Until != "" {
		l := e.heard.listen(func(ev *history.Event) bool { return ends(s.Until, trig, ev) })
		defer l.close()
		end = l.heard
	}
	f, err := e.fault(s.Fault, target)
	if err != nil {
		return err
	}
	return e.hold(ctx, s, target, trig, f, end)
}

// hold is one fault window. Healing happens on every path, on a context of its own.
func (e *Engine) hold(ctx context.Context, s plan.Step, target contract.Process, trig trigger, f fault, end <-chan struct{}) error {
	n := e.open(s, target)
	log := func(phase, format string, args ...any) {
		e.rec.Record(history.Nemesis, history.Event{Type: contract.Info, Proc: "nemesis", Op: contract.Op(s.Fault), Window: n, Phase: phase,
			Target: string(target), Payout: trig.payout, Key: trig.key, Token: trig.token, Msg: fmt.Sprintf(format, args...)})
	}
	log(PhaseInject, "%s", reason(s, trig))
	until := time.After(time.Duration(s.For))
	c, cancel := context.WithTimeout(context.WithoutCancel(ctx), injectTimeout)
	injectErr := f.inject(c)
	cancel()
	why := "the effect was not seen"
	if injectErr == nil {
		log(PhaseSeen, "")
		why = outlast(ctx, s, end, until)
	} else {
		log(PhaseFailed, "%v", injectErr)
	}
	log(PhaseHeal, "%s", why)
	c, cancel = context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer cancel()
	healErr := f.heal(c)
	if healErr != nil {
		log(PhaseFailed, "%v", healErr)
	} else {
		log(PhaseHealed, "")
	}
	e.close(s, target, injectErr == nil)
	return errors.Join(injectErr, healErr)
}

func reason(s plan.Step, t trigger) string {
	if s.On == "" {
		return "planned at " + s.At.String()
	}
	return fmt.Sprintf("%s after %s for %s under token %d", s.Delay, s.On, t.subject(), t.token)
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

// target finds whom the step hits and marks it busy; false when the time was up first.
func (e *Engine) target(ctx context.Context, s plan.Step) (contract.Process, trigger, bool) {
	if s.On == "" {
		p := contract.Process(s.Target)
		free := e.take(p)
		if !free {
			e.missed(s, p)
		}
		return p, trigger{}, free
	}
	var trig trigger
	l := e.heard.listen(func(ev *history.Event) bool {
		if s.Target != plan.Holder && string(ev.Proc) != string(s.Target) {
			return false
		}
		if !triggers(s.On, e.heard, ev) || !e.take(ev.Proc) {
			return false
		}
		trig = triggerOf(ev)
		return true
	})
	defer l.close()
	select {
	case <-l.heard:
		return trig.proc, trig, true
	case <-ctx.Done():
		l.close()
		select {
		case <-l.heard: // it was heard at the same instant: what was taken is given back
			e.release(trig.proc)
		default:
		}
		return "", trigger{}, false
	}
}

// missed says of a step that it is not done, because another one holds its process. Nothing may be left out in silence.
func (e *Engine) missed(s plan.Step, target contract.Process) {
	n := e.open(s, target)
	e.rec.Record(history.Nemesis, history.Event{Type: contract.Info, Proc: "nemesis", Op: contract.Op(s.Fault), Window: n, Phase: PhaseFailed,
		Target: string(target), Msg: fmt.Sprintf("planned at %s and not done: another step holds %s", s.At, target)})
	e.close(s, target, false)
}

func (e *Engine) take(p contract.Process) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy[p] {
		return false
	}
	e.busy[p] = true
	return true
}

func (e *Engine) release(p contract.Process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.busy, p)
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

func (e *Engine) fault(f plan.Fault, target contract.Process) (fault, error) {
	p, err := e.stack.Process(target)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f, err)
	}
	switch f {
	case plan.Pause:
		return pause{p}, nil
	}
	return nil, fmt.Errorf("fault %q is not known", f)
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
