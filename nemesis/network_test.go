package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/nemesis/plan"
)

// wires is a stack of links in memory.
type wires struct {
	victims
	leads contract.Process

	mu    sync.Mutex
	links map[string]*wire
}

func (w *wires) Hop(l contract.Link) (Hop, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.links[l.String()] == nil {
		w.links[l.String()] = &wire{}
	}
	return w.links[l.String()], nil
}

func (w *wires) Leader(context.Context) (contract.Process, error) { return w.leads, nil }

// wire is a link that does what it is told, unless it is made of rubber: then nothing breaks it. One that is torn does not
// heal.
type wire struct {
	rubber, torn bool
	busy         bool // no wait for an answer of this link ends before it has come
	down         int  // so many questions in a row find nobody at the other end: their connections end

	mu    sync.Mutex
	fault plan.Fault
	how   plan.Network
	log   []string
	held  []*inquiry
}

func (w *wire) set(f plan.Fault, d plan.Direction) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprint(f, " ", d))
	if !w.rubber {
		w.fault = f
	}
	return nil
}

func (w *wire) Cut(_ context.Context, d plan.Direction) error   { return w.set(plan.Cut, d) }
func (w *wire) Hold(_ context.Context, d plan.Direction) error  { return w.set(plan.Hold, d) }
func (w *wire) Reset(_ context.Context, d plan.Direction) error { return w.set(plan.Reset, d) }

func (w *wire) Slow(_ context.Context, d plan.Direction, n plan.Network) error {
	w.how = n
	return w.set(plan.Slow, d)
}

func (w *wire) Heal(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, "heal")
	if w.torn {
		return nil
	}
	w.fault = ""
	for _, q := range w.held {
		close(q.answered)
	}
	w.held = nil
	return nil
}

func (w *wire) Ask(context.Context) (Question, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := &inquiry{answered: make(chan struct{})}
	if w.down > 0 {
		w.down--
		q.err = errors.New("the connection ended")
		return q, nil
	}
	switch w.fault {
	case plan.Hold:
		w.held = append(w.held, q)
	case plan.Cut:
	case plan.Reset:
		q.err = errors.New("connection reset")
	case plan.Slow:
		q.after, q.deaf = time.Duration(w.how.Latency), w.busy
	default:
		close(q.answered)
	}
	return q, nil
}

// inquiry is a question over a wire.
type inquiry struct {
	answered chan struct{}
	err      error
	after    time.Duration
	deaf     bool // on a busy machine, who waits too long finds the answer
}

func (q *inquiry) Answer(ctx context.Context) error {
	if q.err != nil {
		return q.err
	}
	var slowly <-chan time.Time
	if q.after > 0 {
		slowly = time.After(q.after)
	}
	if q.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-q.answered:
		return nil
	case <-slowly:
		return nil
	case <-ctx.Done():
		return ErrSilent
	}
}

func (q *inquiry) Close() {}

// wired runs steps on a stack with this load.
func wired(t *testing.T, w *wires, l *log, steps ...plan.Step) (*Engine, func() error, context.CancelFunc) {
	t.Helper()
	w.links = map[string]*wire{}
	p := plan.Plan{Workload: plan.PayoutWorkload, Backend: plan.BackendEtcd, EtcdMembers: 3, Executors: 2, Together: 2, Drive: plan.Duration(long), Steps: steps}
	e := NewEngine(p, w, l)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(cancel)
	return e, func() error { return <-done }, cancel
}

func TestEveryFaultOfLinksIsSeenAndHealed(t *testing.T) {
	for _, s := range []plan.Step{
		{Fault: plan.Cut}, {Fault: plan.Hold, Network: &plan.Network{Direction: plan.OfRequests}},
		{Fault: plan.Reset, Network: &plan.Network{Direction: plan.OfAnswers}},
		{Fault: plan.Slow, Network: &plan.Network{Latency: plan.Duration(time.Hour), Jitter: plan.Duration(time.Minute)}},
	} {
		s.Target, s.For = "executor-1→rail-proxy", plan.Duration(time.Millisecond)
		w, l := &wires{}, newLog()
		e, wait, _ := wired(t, w, l, s)
		if err := wait(); err != nil {
			t.Errorf("%s: %v", s.Fault, err)
		}
		if got := l.phases("executor-1→rail-proxy"); got != "inject seen heal healed" || e.Status().Windows != 1 {
			t.Errorf("%s: the log says %q, the engine %+v", s.Fault, got, e.Status())
		}
		if got, want := strings.Join(w.links["executor-1→rail-proxy"].log, ", "), fmt.Sprintf("%s %s, heal", s.Fault, s.Direction()); got != want {
			t.Errorf("the link was told %q, want %q", got, want)
		}
	}
}

func TestALinkThatDoesNotBreakFailsTheInjectionAndOneThatDoesNotHealTheRun(t *testing.T) {
	for _, s := range []plan.Step{{Fault: plan.Cut}, {Fault: plan.Hold}, {Fault: plan.Reset}, {Fault: plan.Slow, Network: &plan.Network{Latency: plan.Duration(time.Hour)}}} {
		rubber := &wire{rubber: true}
		if err := linkFault(s, rubber).inject(t.Context()); err == nil {
			t.Errorf("%s: nothing was broken, and it was seen", s.Fault)
		}
		torn := &wire{torn: true}
		f := linkFault(s, torn)
		if err := f.inject(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := f.heal(ctx); err == nil {
			t.Errorf("%s: nothing works again, and it was seen", s.Fault)
		}
	}
}

func TestAGroupOfLinksIsBrokenAtOnceAndEachHasAWindow(t *testing.T) {
	for _, c := range []struct {
		target plan.Target
		want   []string
	}{
		{"executor-2→*", []string{"executor-2→lock-server", "executor-2→payment-resource", "executor-2→rail-proxy"}},
		{"executor-*→lock-server", []string{"executor-1→lock-server", "executor-2→lock-server"}},
		{"lock-server→*", []string{"lock-server→etcd-1", "lock-server→etcd-2", "lock-server→etcd-3"}},
		{"etcd-1↔etcd-*", []string{"etcd-1→etcd-2", "etcd-1→etcd-3", "etcd-2→etcd-1", "etcd-3→etcd-1"}},
		{"etcd-leader<->etcd-*", []string{"etcd-1→etcd-2", "etcd-2→etcd-1", "etcd-2→etcd-3", "etcd-3→etcd-2"}},
		{"etcd-leader->etcd-1", []string{"etcd-2→etcd-1"}},
	} {
		w, l := &wires{leads: "etcd-2"}, newLog()
		_, wait, cancel := wired(t, w, l, plan.Step{Fault: plan.Cut, Target: c.target, For: plan.Duration(long)})
		for _, name := range c.want {
			l.await(t, PhaseSeen, contract.Process(name))
		}
		cancel()
		if err := wait(); err != nil {
			t.Error(err)
		}
		var hit []string
		for name, wire := range w.links {
			if hit = append(hit, name); wire.fault != "" {
				t.Errorf("%s is still broken", name)
			}
		}
		if slices.Sort(hit); !slices.Equal(hit, c.want) {
			t.Errorf("%s hits %v", c.target, hit)
		}
	}
}

func TestWhatAHolderSendsIsHeldUntilItsSuccessorWasAcceptedThere(t *testing.T) {
	w, l := &wires{}, newLog()
	e, wait, _ := wired(t, w, l, plan.Step{Fault: plan.Hold, Target: "holder→rail-proxy", On: plan.SubmittedOK, Until: plan.SuccessorAtRail, For: plan.Duration(long)})
	listening(t, e, l, delivered("executor-1", contract.OpSubmitted, "p", 41))
	l.await(t, PhaseSeen, "executor-1→rail-proxy")
	e.Observe(answered("executor-2", contract.OpClaim, "p", 42, ""))
	if e.take("executor-1") {
		t.Error("nobody holds the holder: another step may stop it")
	}
	e.Observe(answered("executor-2", contract.OpSubmit, "p", 42, ""))
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if got := l.await(t, PhaseHeal, "executor-1→rail-proxy"); got.Msg != string(plan.SuccessorAtRail) || got.Payout != "p" || got.Token != 41 {
		t.Errorf("healed because %+v", got)
	}
	if !e.take("executor-1") {
		t.Error("the holder is still held")
	}
}

func TestAStepWhoseLinkIsHeldByAnotherIsNotDoneAndGivesBackTheOthers(t *testing.T) {
	l := newLog()
	e, wait, _ := wired(t, &wires{}, l)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	e.patience = 20 * time.Millisecond
	if !e.take("executor-1→payment-resource") {
		t.Fatal("the link is held already")
	}
	s := plan.Step{Fault: plan.Cut, Target: "executor-1→*", For: plan.Duration(time.Second)}
	if err := e.step(t.Context(), time.Now(), s); err != nil {
		t.Fatal(err)
	}
	if got := l.await(t, PhaseFailed, "executor-1→payment-resource"); !strings.Contains(got.Msg, "another step holds") {
		t.Errorf("the log says %+v", got)
	}
	if !e.take("executor-1→lock-server") {
		t.Error("a link that it took is not given back")
	}
}

// The link of a server that is down ends its connections, whatever fault is on it.
func TestSilenceOfSomebodyWhoIsDownIsNotTakenForAFault(t *testing.T) {
	for _, s := range []plan.Step{{Fault: plan.Cut}, {Fault: plan.Hold}, {Fault: plan.Slow, Network: &plan.Network{Latency: plan.Duration(time.Hour)}}} {
		w := &wire{rubber: true, down: 3}
		if err := linkFault(s, w).inject(t.Context()); err == nil || !strings.Contains(err.Error(), "answered all the same") {
			t.Errorf("%s: nothing was broken, and what was seen is %v", s.Fault, err)
		}
	}
}

func TestALinkWhoseServerIsDownIsNotBroken(t *testing.T) {
	for _, f := range []plan.Fault{plan.Cut, plan.Hold, plan.Reset, plan.Slow} {
		w, l := &wires{}, newLog()
		e, wait, _ := wired(t, w, l)
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		e.patience = 50 * time.Millisecond
		w.links["lock-server→etcd-1"] = &wire{down: 1 << 30}
		s := plan.Step{Fault: f, Target: "lock-server→etcd-1", For: plan.Duration(time.Millisecond), Network: &plan.Network{Latency: plan.Duration(time.Hour)}}
		if err := e.step(t.Context(), time.Now(), s); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		if got := l.phases("lock-server→etcd-1"); got != PhaseFailed || len(w.links["lock-server→etcd-1"].log) > 0 {
			t.Errorf("%s: the log says %q, the link was told %v", f, got, w.links["lock-server→etcd-1"].log)
		}
	}
}

// Two steps of a mix may meet: whoever was to answer is killed while it is asked whether the link is broken.
func TestALinkWhoseServerIsTakenAwayMeanwhileIsToldFromOneThatDoesNotBreak(t *testing.T) {
	const name = "executor-1→lock-server"
	silent := errors.New("nobody is there")
	for _, c := range []struct {
		held contract.Process
		says error
		attr string
	}{{"lock-server", silent, "lock-server"}, {"paydb", silent, ""}, {"lock-server", errAnswered, ""}} {
		for _, again := range []bool{false, true} { // he is there again by the time that the step gives up
			l := newLog()
			e := NewEngine(plan.Plan{Together: 1, Drive: plan.Duration(long)}, victims{}, l)
			if !e.take(c.held) {
				t.Fatal("it is held already")
			}
			f := &onLink{fault: letGoOf{e, c.held, again, c.says}, e: e, server: contract.LockServer}
			s := plan.Step{Fault: plan.Cut, Target: name, For: plan.Duration(time.Millisecond)}
			if err := e.hold(t.Context(), s, name, trigger{}, f, nil); err != nil {
				t.Fatal(err)
			}
			if failed := l.await(t, PhaseFailed, name); failed.Attrs[AttrHeld] != c.attr || (c.attr != "") != strings.Contains(failed.Msg, "another step had lock-server in its hands") {
				t.Errorf("%+v: the log says %+v", c, failed)
			}
		}
	}
}

// letGoOf is an injection whose effect is not seen, and in whose middle somebody may be let go of.
type letGoOf struct {
	e    *Engine
	held contract.Process
	lets bool
	says error
}

func (f letGoOf) inject(context.Context) error {
	if f.lets {
		f.e.release(f.held)
	}
	return f.says
}

func (f letGoOf) heal(context.Context) error { return nil }

func TestALinkIsHealedWhenWhoeverIsAtItsEndIsThereAgain(t *testing.T) {
	for _, s := range []plan.Step{{Fault: plan.Cut}, {Fault: plan.Hold}, {Fault: plan.Reset}, {Fault: plan.Slow, Network: &plan.Network{Latency: plan.Duration(time.Hour)}}} {
		w := &wire{}
		f := linkFault(s, w)
		if err := f.inject(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.down = 3
		if _, heal := limits(f); heal < restartLimit {
			t.Errorf("%s: after %s it is given up, and a start may take %s", s.Fault, heal, restartLimit)
		}
		if err := f.heal(t.Context()); err != nil {
			t.Errorf("%s: %v", s.Fault, err)
		}
	}
}

func TestAnAnswerThatComesJustWhenTheWaitForItEndsProvesALinkSlow(t *testing.T) {
	how := &plan.Network{Latency: plan.Duration(20 * time.Millisecond), Direction: plan.OfAnswers}
	if err := linkFault(plan.Step{Fault: plan.Slow, Network: how}, &wire{busy: true}).inject(t.Context()); err != nil {
		t.Errorf("the answer took as long as the link does, and what was seen is %v", err)
	}
}

func TestALinkThatWorksOnAMachineAsSlowAsItWasIsNotSeenToBeHealedAndLeavesNothingBroken(t *testing.T) {
	w := &wire{torn: true}
	f := linkFault(plan.Step{Fault: plan.Slow, Network: &plan.Network{Latency: plan.Duration(300 * time.Millisecond), Jitter: plan.Duration(290 * time.Millisecond)}}, w)
	if err := f.inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := f.heal(ctx); !errors.Is(err, errUnproven) {
		t.Errorf("got %v", err)
	}
}
