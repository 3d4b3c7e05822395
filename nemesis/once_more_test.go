package nemesis

import (
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

func onSubmit(f plan.Fault) plan.Step {
	return plan.Step{Fault: f, Target: "executor-1→rail-proxy", Message: &plan.Message{Side: plan.Request, Op: contract.OpSubmit}}
}

// again is ev at a stage of the call that repeats it.
func again(ev history.Event, stage history.Stage) *history.Event {
	x := at(ev, stage)
	x.Call, x.DupOf = ev.Call+1000, ev.Call
	return x
}

func TestARequestIsSentOnceMoreAndTheWindowIsTheCopysWay(t *testing.T) {
	rail := newHop("executor-1", contract.RailProxy)
	l := newLog()
	e, done, _ := tell(t, l, time.Hour, []*hop{rail}, onSubmit(plan.Duplicate))
	awaitAsked(t, rail)
	m := rail.send(plan.Request, submit("executor-1", 41))
	if m.wants.Fate != Repeated {
		t.Errorf("it was met as %+v", m.wants)
	}
	m.awaitRelease(t)
	e.Observe(at(submit("executor-1", 41), history.Answered)) // the original
	e.Observe(again(submit("executor-1", 7), history.Forwarded))
	e.Observe(again(submit("executor-1", 41), history.Received))
	if p := l.phases("executor-1→rail-proxy"); p != "" {
		t.Errorf("before the copy was on its way there was %q", p)
	}
	e.Observe(again(submit("executor-1", 41), history.Forwarded))
	seen := l.await(t, PhaseSeen, "executor-1→rail-proxy")
	if seen.Op != "duplicate" || seen.Call != 41 || seen.Token != 41 || seen.Msg != "call 1041 repeats call 41" {
		t.Errorf("the log says %+v", seen)
	}
	e.Observe(again(submit("executor-1", 41), history.Answered))
	if err := done(); err != nil || e.Status().Windows != 1 {
		t.Errorf("%v; %d windows", err, e.Status().Windows)
	}
	if p := l.phases("executor-1→rail-proxy"); p != "inject seen healed" {
		t.Errorf("phases %q", p)
	}
}

func TestACopyThatWaitsIsSentWhenTheDriveEnds(t *testing.T) {
	rail := newHop("executor-1", contract.RailProxy)
	s := onSubmit(plan.Duplicate)
	s.Delay = plan.Duration(time.Hour)
	e, done, cancel := tell(t, newLog(), 2*time.Hour, []*hop{rail}, s)
	awaitAsked(t, rail)
	m := rail.send(plan.Request, submit("executor-1", 41))
	e.settle(t, 2)
	if m.isReleased() {
		t.Error("it did not wait")
	}
	cancel()
	m.awaitRelease(t)
	e.Observe(again(submit("executor-1", 41), history.Forwarded))
	e.Observe(again(submit("executor-1", 41), history.Answered))
	if err := done(); err != nil || e.Status().Windows != 1 {
		t.Errorf("%v; %d windows", err, e.Status().Windows)
	}
}

func TestACopyThatNobodyTookIsNoWindow(t *testing.T) {
	rail := newHop("executor-1", contract.RailProxy)
	l := newLog()
	e, done, _ := tell(t, l, time.Hour, []*hop{rail}, onSubmit(plan.Duplicate))
	awaitAsked(t, rail)
	rail.send(plan.Request, submit("executor-1", 41)).awaitRelease(t)
	e.Observe(again(submit("executor-1", 41), history.Received))
	e.Observe(again(submit("executor-1", 41), history.Answered)) // the connection was refused
	if err := done(); err != nil || e.Status().Windows != 0 || e.Status().Failed != 1 {
		t.Errorf("%v; %+v", err, e.Status())
	}
	if p := l.phases("executor-1→rail-proxy"); p != "failed" {
		t.Errorf("phases %q", p)
	}
}

func TestARequestWaitsForTheWriteThatComesAfterIt(t *testing.T) {
	for name, c := range map[string]struct {
		behind plan.Behind
		passes []history.Event // these do not overtake it
		ends   history.Event
	}{
		"the next one over its link": {"", []history.Event{
			{Proc: "executor-1", Link: "executor-1→rail-proxy", Op: contract.OpSubmit, Call: 40, Payout: "q"},            // it was sent before
			{Proc: "executor-2", Link: "executor-2→rail-proxy", Op: contract.OpSubmit, Call: 90, Payout: "p"},            // over another link
			{Proc: "executor-1", Link: "executor-1→rail-proxy", Op: contract.OpSubmit, Call: 91, DupOf: 40, Payout: "q"}, // our own copy of another
			{Proc: "executor-1", Link: "executor-1→rail-proxy", Op: contract.OpLookup, Call: 92, Payout: "q"},            // no write
			{Proc: "executor-1", Link: "executor-1→payment-resource", Op: contract.OpClaim, Call: 93, Payout: "p"},       // to another server
		}, history.Event{Proc: "executor-1", Link: "executor-1→rail-proxy", Op: contract.OpSubmit, Call: 94, Payout: "q"}},
		"the next one about its payout": {plan.BehindPayout, []history.Event{
			{Proc: "executor-1", Link: "executor-1→rail-proxy", Op: contract.OpSubmit, Call: 90, Payout: "q"},
		}, history.Event{Proc: "executor-2", Link: "executor-2→payment-resource", Op: contract.OpClaim, Call: 91, Payout: "p"}},
	} {
		t.Run(name, func(t *testing.T) {
			rail := newHop("executor-1", contract.RailProxy)
			l := newLog()
			s := onSubmit(plan.Reorder)
			s.Message.Behind, s.For = c.behind, plan.Duration(time.Hour)
			e, done, _ := tell(t, l, 2*time.Hour, []*hop{rail}, s)
			awaitAsked(t, rail)
			m := rail.send(plan.Request, submit("executor-1", 41))
			e.settle(t, 2)
			for _, ev := range c.passes {
				ev.W = history.Wiretap
				e.Observe(at(ev, history.Answered))
			}
			if p := l.phases("executor-1→rail-proxy"); p != "" || m.isReleased() {
				t.Fatalf("something that is no later write let it go: %q", p)
			}
			c.ends.W = history.Wiretap
			e.Observe(at(c.ends, history.Answered))
			m.awaitRelease(t)
			e.Observe(at(submit("executor-1", 41), history.Forwarded))
			if err := done(); err != nil || e.Status().Windows != 1 {
				t.Errorf("%v; %d windows", err, e.Status().Windows)
			}
			if p := l.phases("executor-1→rail-proxy"); p != "inject seen heal healed" {
				t.Errorf("phases %q", p)
			}
		})
	}
}

// settle waits until n wait for events.
func (e *Engine) settle(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) { // between two looks
		e.heard.mu.Lock()
		waiting := len(e.heard.waiting)
		e.heard.mu.Unlock()
		if waiting >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d wait for events, not %d", waiting, n)
		}
	}
}

func TestARequestThatNothingOvertookWasLateAndNoWindow(t *testing.T) {
	rail := newHop("executor-1", contract.RailProxy)
	l := newLog()
	s := onSubmit(plan.Reorder)
	s.For = plan.Duration(time.Millisecond)
	e, done, _ := tell(t, l, time.Hour, []*hop{rail}, s)
	awaitAsked(t, rail)
	rail.send(plan.Request, submit("executor-1", 41)).awaitRelease(t)
	e.Observe(at(submit("executor-1", 41), history.Forwarded))
	if err := done(); err != nil || e.Status().Windows != 0 || e.Status().Failed != 1 {
		t.Errorf("%v; %+v", err, e.Status())
	}
	if p := l.phases("executor-1→rail-proxy"); p != "failed" {
		t.Errorf("phases %q", p)
	}
}

// A plan may be full of messages that are waited for: none of them stands in another's way.
func TestMessagesThatHaveATimeAreWaitedForBesideOneAnother(t *testing.T) {
	rail := newHop("executor-1", contract.RailProxy)
	never, drop := onSubmit(plan.Drop), onSubmit(plan.Drop)
	never.Message = &plan.Message{Side: plan.Request, Op: contract.OpClaim}
	never.At, drop.At = 1, 2
	_, done, cancel := tell(t, newLog(), time.Hour, []*hop{rail}, never, never, drop)
	for range 3 {
		awaitAsked(t, rail)
	}
	if rail.send(plan.Request, submit("executor-1", 1)) == nil {
		t.Error("the third was not waited for")
	}
	cancel()
	if err := done(); err != nil {
		t.Error(err)
	}
}

// Whoever has the copy may be stopped, or kept waiting for a lock: that is no failure of ours.
func TestACopyThatIsNotAnsweredFailsItsWindowAndNotTheRun(t *testing.T) {
	rail := newHop("executor-1", contract.RailProxy)
	l := newLog()
	e := NewEngine(plan.Plan{Together: 1, Drive: plan.Duration(time.Hour), Steps: []plan.Step{onSubmit(plan.Duplicate)}}, hops{links: []*hop{rail}}, l)
	e.copyWait = time.Millisecond
	done := make(chan error, 1)
	go func() { done <- e.Run(t.Context()) }()
	awaitAsked(t, rail)
	rail.send(plan.Request, submit("executor-1", 41)).awaitRelease(t)
	e.Observe(again(submit("executor-1", 41), history.Forwarded))
	if err := <-done; err != nil {
		t.Errorf("the run fails: %v", err)
	}
	if p := l.phases("executor-1→rail-proxy"); p != "inject seen failed" || e.Status().Windows != 1 {
		t.Errorf("phases %q, the engine counts %+v", p, e.Status())
	}
}
