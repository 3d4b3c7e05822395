package nemesis

// Delay and drop: one message of one call comes late, or never. Whoever sent it cannot call it back: a write that is
// delayed past its lease arrives as the write of somebody who does not hold the lock any more.
// Every fault of single messages meets its message here; duplicate.go and reorder.go say what becomes of it there.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// Links is what a Stack can do besides, where its messages can be met one by one.
type Links interface {
	// Links finds the links that a target means; the client plan.AnyExecutor means those of all executors.
	Links(contract.Link) ([]Link, error)
}

// Link is a hop with somebody on it who can keep or lose a message.
type Link interface {
	// Name is the hop's own.
	Name() contract.Link
	// Meet waits for a message that m describes.
	Meet(m Message) (Meeting, error)
}

// Message describes a message, and says what becomes of it.
type Message struct {
	Side   plan.Side
	Op     contract.Op
	Payout string // "" for any
	Nth    int    // the n-th such message, from 1
	Fate   Fate
	// Claim is asked when the message has come: where it says no, another link has met its message before, or nobody waits
	// any more. The message is left alone then, and this one not met.
	Claim func() bool
}

// Fate is what becomes of a message that is met.
type Fate int

// The fates.
const (
	Kept     Fate = iota // until the meeting is released
	Lost                 // it never arrives
	Repeated             // it passes, and once it was answered and the meeting is released it is sent once more
)

// Meeting is a message that is waited for.
type Meeting interface {
	// Met is closed when the message has come, and is kept or lost.
	Met() <-chan struct{}
	// Event says what is known of the call, once Met is closed.
	Event() history.Event
	// Release lets a kept message go, or one that is repeated be sent again. One that has not come yet is waited for no more.
	Release()
}

// messageFault is the window of a fault on a single message.
type messageFault struct {
	e      *Engine
	step   plan.Step
	window int
	target contract.Link
	trig   trigger // of the step, and then the message itself
	call   int64   // the call that was met, 0 before
}

// single carries out a step on a single message.
func (e *Engine) single(ctx context.Context, s plan.Step) error {
	target, err := s.Target.Link()
	if err != nil {
		return fmt.Errorf("%s: %w", s.Fault, err)
	}
	f := &messageFault{e: e, step: s, target: target}
	if s.On != "" {
		of := s
		of.Target = plan.Target(target.From)
		held, trig, ok := e.target(ctx, of)
		if !ok {
			return nil
		}
		defer e.release(held) // whose event it was is another matter: of a group, or of a server, it is somebody else's
		f.trig = trig
	}
	if target.From == contract.Process(plan.Holder) {
		f.target.From = f.trig.proc
	}
	if err := f.run(ctx); err != nil {
		return fmt.Errorf("%s on %s: %w", s.Fault, f.target, err)
	}
	return nil
}

func (f *messageFault) log(phase, format string, args ...any) {
	f.e.rec.Record(history.Nemesis, history.Event{Type: contract.Info, Proc: "nemesis", Op: contract.Op(f.step.Fault), Window: f.window, Phase: phase, Call: f.call,
		Target: f.target.String(), Payout: f.trig.payout, Key: f.trig.key, Token: f.trig.token, Msg: fmt.Sprintf(format, args...)})
}

// run waits for the message, keeps or loses it as the step says, and sees a kept one off. The window begins when the
// message has come: only then it is known on which link.
func (f *messageFault) run(ctx context.Context) error {
	w, err := f.await(ctx)
	if err != nil {
		return err
	}
	defer w.end()
	active := contract.Process(f.target.String())
	f.window = f.e.open(f.step, active)
	seen := false
	defer func() { f.e.close(f.step, active, seen) }()
	why := reason(f.step, f.trig)
	var met arrival
	select {
	case met = <-w.first:
	case <-ctx.Done():
		if !w.claim() { // one has come at the same instant, and something was done to it
			met = <-w.first
			break
		}
		f.log(PhaseFailed, "the drive has ended, and no %s of %s has come", f.step.Message.Side, f.step.Message.Op)
		return nil
	}
	call := met.meeting.Event()
	f.target, f.trig, f.call = met.link.Name(), triggerOf(&call), call.Call
	switch f.step.Fault {
	case plan.Duplicate:
		seen, err = f.repeat(ctx, met.meeting, why)
		return err
	case plan.Reorder:
		seen, err = f.overtake(ctx, met.meeting, why)
		return err
	}
	seen = true
	f.log(PhaseInject, "the %s of %s, %s", f.step.Message.Side, f.step.Message.Op, why)
	if f.step.Fault == plan.Drop {
		f.log(PhaseSeen, "call %d has lost it", call.Call)
		f.log(PhaseHealed, "the next message passes")
		return nil
	}
	return f.keep(ctx, met.meeting)
}

// keep keeps a message that has come until its time is over, and waits until it was seen to go on.
func (f *messageFault) keep(ctx context.Context, m Meeting) error {
	gone := f.e.heard.listen(f.left())
	defer gone.close()
	var end <-chan struct{}
	if f.step.Until != "" {
		l := f.e.heard.listen(func(ev *history.Event) bool { return ends(f.step.Until, f.trig, ev) })
		defer l.close()
		end = l.heard
	}
	f.log(PhaseSeen, "call %d keeps back its %s", f.call, f.step.Message.Side)
	f.log(PhaseHeal, "%s", outlast(ctx, f.step, end, time.After(time.Duration(f.step.For))))
	m.Release()
	return f.awaitEnd(gone, "it was not seen to go on")
}

// awaitEnd waits for the last sign of a fault.
func (f *messageFault) awaitEnd(l *listener, otherwise string) error {
	select {
	case <-l.heard:
		f.log(PhaseHealed, "")
		return nil
	case <-time.After(healTimeout):
		f.log(PhaseFailed, "%s", otherwise)
		return fmt.Errorf("the message of call %d was released, and %s", f.call, otherwise)
	}
}

// left hears of the message's leaving the hop.
func (f *messageFault) left() func(*history.Event) bool {
	return func(ev *history.Event) bool { return ev.Call == f.call && leaves(f.step.Message.Side, ev.Stage) }
}

// leaves tells whether stage says that a message has left the hop, or that there is nobody left to take it.
func leaves(side plan.Side, stage history.Stage) bool {
	if side == plan.Request {
		return stage == history.Forwarded || stage == history.Answered
	}
	return stage == history.Delivered || stage == history.Lost
}

// linksEvery is how often it is asked for links whose client has not been started yet.
const linksEvery = 20 * time.Millisecond

// links finds the links of the step. A client that is only being started has none yet, and is waited for.
func (f *messageFault) links(ctx context.Context, stack Links) ([]Link, error) {
	over := time.Now().Add(f.e.patience)
	for {
		links, err := stack.Links(f.target)
		if err == nil || time.Now().After(over) || !wait(ctx, linksEvery) {
			return links, err
		}
	}
}

func fate(f plan.Fault) Fate {
	switch f {
	case plan.Drop:
		return Lost
	case plan.Duplicate:
		return Repeated
	default:
		return Kept
	}
}

// waiting is one message waited for on several links: the first to come is the one.
type waiting struct {
	meetings []Meeting
	claimed  atomic.Bool  // there is a first, or there will be none any more
	first    chan arrival // holds one
	over     chan struct{}
	watchers sync.WaitGroup
}

// claim tells whoever is the first to ask that he is.
func (w *waiting) claim() bool { return w.claimed.CompareAndSwap(false, true) }

type arrival struct {
	link    Link
	meeting Meeting
}

func (f *messageFault) await(ctx context.Context) (*waiting, error) {
	stack, ok := f.e.stack.(Links)
	if !ok {
		return nil, errors.New("this stack has nobody on its links who could meet a message")
	}
	links, err := f.links(ctx, stack)
	if err != nil {
		return nil, err
	}
	w := &waiting{first: make(chan arrival, 1), over: make(chan struct{})}
	m := f.step.Message
	for _, l := range links {
		meeting, err := l.Meet(Message{Side: m.Side, Op: m.Op, Payout: f.trig.payout, Nth: max(1, m.Nth), Fate: fate(f.step.Fault), Claim: w.claim})
		if err != nil {
			w.end()
			return nil, err
		}
		w.meetings = append(w.meetings, meeting)
	}
	for i, l := range links {
		w.watchers.Go(func() { w.watch(arrival{l, w.meetings[i]}) })
	}
	return w, nil
}

// watch reports its message. There is one at most.
func (w *waiting) watch(a arrival) {
	select {
	case <-w.over:
		return
	case <-a.meeting.Met():
		w.first <- a
	}
}

// end ends all waiting; what is kept goes on.
func (w *waiting) end() {
	close(w.over)
	w.watchers.Wait()
	for _, m := range w.meetings {
		m.Release()
	}
}
