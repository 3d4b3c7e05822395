package nemesis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// hops is a stack of links and nothing else. Each link hands the messages that a test sends to whoever waits for them.
type hops struct {
	victims
	links []*hop
}

func (h hops) Links(l contract.Link) ([]Link, error) {
	var found []Link
	for _, x := range h.links {
		if x.name == l || l.From == plan.AnyExecutor && x.name.To == l.To {
			found = append(found, x)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there is no link %s", l)
	}
	return found, nil
}

type hop struct {
	name    contract.Link
	mu      sync.Mutex
	waiting []*encounter
	asked   chan struct{} // one for each Meet
}

func newHop(from, to contract.Process) *hop {
	return &hop{name: contract.Link{From: from, To: to}, asked: make(chan struct{}, 100)}
}

func (h *hop) Name() contract.Link { return h.name }

func (h *hop) Meet(m Message) (Meeting, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := &encounter{wants: m, met: make(chan struct{}), released: make(chan struct{})}
	h.waiting = append(h.waiting, e)
	h.asked <- struct{}{}
	return e, nil
}

// send is the arrival of a message; what waits for it has it.
func (h *hop) send(side plan.Side, ev history.Event) *encounter {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, e := range h.waiting {
		if e.wants.Side == side && e.wants.Op == ev.Op && (e.wants.Payout == "" || e.wants.Payout == ev.Payout) && !e.isReleased() {
			h.waiting = slices.Delete(h.waiting, i, i+1)
			if !e.wants.Claim() {
				return nil
			}
			e.event = ev
			close(e.met)
			return e
		}
	}
	return nil
}

type encounter struct {
	wants    Message
	event    history.Event
	met      chan struct{}
	once     sync.Once
	released chan struct{}
}

func (e *encounter) Met() <-chan struct{} { return e.met }
func (e *encounter) Event() history.Event { return e.event }
func (e *encounter) Release()             { e.once.Do(func() { close(e.released) }) }
func (e *encounter) isReleased() bool {
	select {
	case <-e.released:
		return true
	default:
		return false
	}
}

func (e *encounter) awaitRelease(t *testing.T) {
	t.Helper()
	select {
	case <-e.released:
	case <-time.After(20 * time.Second):
		t.Fatal("the message was never let go")
	}
}

func awaitAsked(t *testing.T, hops ...*hop) {
	t.Helper()
	for _, h := range hops {
		select {
		case <-h.asked:
		case <-time.After(20 * time.Second):
			t.Fatalf("nobody waits on %s", h.name)
		}
	}
}

// tell runs a plan of steps on links in the background.
func tell(t *testing.T, l *log, drive time.Duration, links []*hop, steps ...plan.Step) (*Engine, func() error, context.CancelFunc) {
	t.Helper()
	e := NewEngine(plan.Plan{Together: 1, Drive: plan.Duration(drive), Steps: steps}, hops{links: links}, l)
	e.patience = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(cancel)
	return e, func() error { return <-done }, cancel
}

func submit(proc contract.Process, token int64) history.Event {
	return history.Event{W: history.Wiretap, Proc: proc, Op: contract.OpSubmit, Payout: "p", Token: token, Call: token}
}

func at(ev history.Event, stage history.Stage) *history.Event {
	ev.Stage, ev.Type, ev.Status = stage, contract.OK, 200
	return &ev
}

func delaySubmit(target plan.Target) plan.Step {
	return plan.Step{Fault: plan.Delay, Target: target, Message: &plan.Message{Side: plan.Request, Op: contract.OpSubmit},
		Until: plan.SuccessorAtRail, For: plan.Duration(time.Hour)}
}

func TestAMessageIsKeptUntilASuccessorWasAcceptedWhereItGoes(t *testing.T) {
	one, two := newHop("executor-1", contract.RailProxy), newHop("executor-2", contract.RailProxy)
	l := newLog()
	e, done, _ := tell(t, l, 2*time.Hour, []*hop{one, two}, delaySubmit("executor-*→rail-proxy"))
	awaitAsked(t, one, two)
	kept := two.send(plan.Request, submit("executor-2", 41))
	seen := l.await(t, PhaseSeen, "executor-2→rail-proxy")
	if seen.Payout != "p" || seen.Token != 41 || seen.Op != "delay" {
		t.Errorf("the log says %+v", seen)
	}
	if one.send(plan.Request, submit("executor-1", 42)) != nil {
		t.Error("another executor's message was met as well")
	}
	e.Observe(at(submit("executor-1", 40), history.Answered)) // an older token is no successor's
	if kept.isReleased() {
		t.Error("an older token let it go")
	}
	e.Observe(at(submit("executor-1", 42), history.Answered))
	kept.awaitRelease(t)
	e.Observe(at(submit("executor-2", 41), history.Forwarded))
	if err := done(); err != nil {
		t.Error(err)
	}
	if p := l.phases("executor-2→rail-proxy"); p != "inject seen heal healed" || e.Status().Windows != 1 {
		t.Errorf("phases %q, %d windows", p, e.Status().Windows)
	}
}

func TestTheHoldersMessageIsThatOfTheTriggersPayout(t *testing.T) {
	one, two := newHop("executor-1", contract.RailProxy), newHop("executor-2", contract.RailProxy)
	l := newLog()
	s := delaySubmit("holder→rail-proxy")
	s.On, s.Until, s.For = plan.SubmittedOK, "", plan.Duration(time.Millisecond)
	e, done, _ := tell(t, l, time.Hour, []*hop{one, two}, s)
	deadline := time.After(20 * time.Second)
	for asked := false; !asked; { // the engine listens some time after it was started
		e.Observe(delivered("executor-2", contract.OpSubmitted, "p", 7))
		select {
		case <-two.asked:
			asked = true
		case <-deadline:
			t.Fatal("nobody waits on the holder's link")
		case <-time.After(time.Millisecond):
		}
	}
	other := submit("executor-2", 8)
	other.Payout = "another"
	if two.send(plan.Request, other) != nil {
		t.Error("a message of another payout was met")
	}
	two.send(plan.Request, submit("executor-2", 7)).awaitRelease(t)
	e.Observe(at(submit("executor-2", 7), history.Forwarded))
	if err := done(); err != nil || len(one.waiting) > 0 {
		t.Errorf("%v; %d wait on another executor's link", err, len(one.waiting))
	}
}

func TestADroppedMessageIsSeenAndTheNextStepBegins(t *testing.T) {
	rail := newHop(contract.RailProxy, contract.RailStub)
	l := newLog()
	drop := plan.Step{Fault: plan.Drop, Target: "rail-proxy→rail-stub", Message: &plan.Message{Side: plan.Answer, Op: contract.OpTransfer}}
	e, done, _ := tell(t, l, time.Hour, []*hop{rail}, drop, drop)
	for range 2 {
		awaitAsked(t, rail)
		if m := rail.send(plan.Answer, history.Event{Op: contract.OpTransfer, Payout: "p"}); m == nil || m.wants.Fate != Lost {
			t.Fatalf("it was met as %+v", m)
		}
	}
	if err := done(); err != nil || e.Status().Windows != 2 {
		t.Errorf("%v; %d windows", err, e.Status().Windows)
	}
	if p := l.phases("rail-proxy→rail-stub"); p != "inject seen healed inject seen healed" {
		t.Errorf("phases %q", p)
	}
}

func TestWhatIsKeptGoesOnWhenTheDriveEnds(t *testing.T) {
	one := newHop("executor-1", contract.RailProxy)
	l := newLog()
	e, done, cancel := tell(t, l, time.Hour, []*hop{one}, delaySubmit("executor-1→rail-proxy"))
	awaitAsked(t, one)
	kept := one.send(plan.Request, submit("executor-1", 1))
	l.await(t, PhaseSeen, "executor-1→rail-proxy")
	cancel()
	kept.awaitRelease(t)
	e.Observe(at(submit("executor-1", 1), history.Forwarded))
	if err := done(); err != nil {
		t.Error(err)
	}
}

func TestAMessageThatNeverCameIsNoWindowAndIsWaitedForNoMore(t *testing.T) {
	one := newHop("executor-1", contract.RailProxy)
	l := newLog()
	e, done, cancel := tell(t, l, time.Hour, []*hop{one}, delaySubmit("executor-1→rail-proxy"))
	awaitAsked(t, one)
	cancel()
	if err := done(); err != nil {
		t.Error(err)
	}
	if one.send(plan.Request, submit("executor-1", 1)) != nil || e.Status().Windows != 0 || e.Status().Failed != 1 {
		t.Errorf("it is still waited for, or counts: %+v", e.Status())
	}
	if p := l.phases("executor-1→rail-proxy"); p != "failed" {
		t.Errorf("phases %q", p)
	}
}

func TestALinkThatIsNotThereIsAnError(t *testing.T) {
	_, done, _ := tell(t, newLog(), time.Hour, nil, delaySubmit("executor-9→rail-proxy"))
	if err := done(); err == nil || !strings.Contains(err.Error(), "executor-9→rail-proxy") {
		t.Errorf("got %v", err)
	}
}

// Whose event begins a step and which process the step has in its hands differ where the link is a group's or a server's.
func TestAMessageStepLetsGoOfWhatItHeldAndOfNobodyElse(t *testing.T) {
	for _, target := range []plan.Target{"executor-*→rail-proxy", "rail-proxy→rail-stub", "executor-1→rail-proxy"} {
		t.Run(string(target), func(t *testing.T) {
			link, err := target.Link()
			if err != nil {
				t.Fatal(err)
			}
			from := link.From
			if from == plan.AnyExecutor {
				from = contract.Executor(1)
			}
			wire := newHop(from, link.To)
			s := delaySubmit(target)
			s.On, s.Until, s.For = plan.SubmittedOK, "", plan.Duration(time.Millisecond)
			e, done, _ := tell(t, newLog(), time.Hour, []*hop{wire}, s)
			held := contract.Executor(1) // by another step
			if link.From == held {
				held = contract.RailProxy
			}
			if !e.take(held) {
				t.Fatal("it is held already")
			}
			e.settle(t, 1)
			e.Observe(delivered("executor-1", contract.OpSubmitted, "p", 7))
			awaitAsked(t, wire)
			wire.send(plan.Request, submit("executor-1", 7)).awaitRelease(t)
			e.Observe(at(submit("executor-1", 7), history.Forwarded))
			if err := done(); err != nil {
				t.Fatal(err)
			}
			if !e.take(link.From) {
				t.Errorf("%s is still held", link.From)
			}
			if e.take(held) {
				t.Errorf("%s, which another step holds, was let go", held)
			}
		})
	}
}

// Two executors send at once. What is done to the one message must not be done to the other as well.
func TestOfTwoMessagesThatComeAtOnceOneIsMet(t *testing.T) {
	for _, f := range []plan.Fault{plan.Drop, plan.Duplicate, plan.Delay} {
		t.Run(string(f), func(t *testing.T) {
			one, two := newHop("executor-1", contract.RailProxy), newHop("executor-2", contract.RailProxy)
			s := onSubmit(f)
			s.Target = "executor-*→rail-proxy"
			e := NewEngine(plan.Plan{}, hops{links: []*hop{one, two}}, newLog())
			w, err := (&messageFault{e: e, step: s, target: contract.Link{From: plan.AnyExecutor, To: contract.RailProxy}}).await(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer w.end()
			// Both come before anybody has looked at the first.
			if one.send(plan.Request, submit("executor-1", 1)) == nil || two.send(plan.Request, submit("executor-2", 2)) != nil {
				t.Error("not the first was met, or both were")
			}
			if got := <-w.first; got.link.Name().From != "executor-1" {
				t.Errorf("%s is said to have been met", got.link.Name())
			}
		})
	}
}

func TestAMessageThatIsMetAsTheDriveEndsIsAWindow(t *testing.T) {
	rail := newHop("executor-1", contract.RailProxy)
	l := newLog()
	e, done, cancel := tell(t, l, time.Hour, []*hop{rail}, onSubmit(plan.Drop))
	awaitAsked(t, rail)
	rail.mu.Lock()
	m := rail.waiting[0]
	rail.mu.Unlock()
	if !m.wants.Claim() { // it is lost, and nobody knows yet
		t.Fatal("it is not waited for")
	}
	cancel()
	m.event = submit("executor-1", 1)
	time.AfterFunc(20*time.Millisecond, func() { close(m.met) })
	if err := done(); err != nil {
		t.Fatal(err)
	}
	if got := l.phases("executor-1→rail-proxy"); got != "inject seen healed" || e.Status().Windows != 1 {
		t.Errorf("the log says %q", got)
	}
}
