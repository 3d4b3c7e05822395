package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/deploy/process"
	"fenceproof/nemesis/plan"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// victims is a stack of real processes that do nothing.
type victims map[contract.Process]*victim

func (v victims) Process(name contract.Process) (Process, error) {
	p, ok := v[name]
	if !ok {
		return nil, fmt.Errorf("there is no process %s", name)
	}
	return p, nil
}

// victim is a process that can be started again. It fails to as often as fails says.
type victim struct {
	process.Process
	launch func(context.Context) (process.Process, error)
	fails  int
}

func (v *victim) Running() bool {
	select {
	case <-v.Done():
		return false
	default:
		return true
	}
}

func (v *victim) Pause(ctx context.Context) error  { return process.Pause(ctx, v.Process) }
func (v *victim) Resume(ctx context.Context) error { return process.Resume(ctx, v.Process) }
func (v *victim) Kill(ctx context.Context) error   { return process.Kill(ctx, v.Process) }

func (v *victim) Restart(ctx context.Context) (err error) {
	if v.fails--; v.fails >= 0 {
		return errors.New("address already in use")
	}
	v.Process, err = v.launch(ctx)
	return err
}

func startVictims(t *testing.T, names ...contract.Process) victims {
	t.Helper()
	v := victims{}
	for _, n := range names {
		sleep := process.Command{Path: "/bin/sleep", Args: []string{"600"}, Dir: t.TempDir()}
		p := &victim{launch: func(ctx context.Context) (process.Process, error) { return process.Direct{}.Launch(ctx, sleep) }}
		if err := p.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := process.Kill(ctx, p); err != nil {
				t.Error(err)
			}
		})
		v[n] = p
	}
	return v
}

// stopped reads from /proc whether the process is stopped.
func (v victims) stopped(t *testing.T, name contract.Process) bool {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", v[name].Pid()))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(after, "T")
}

// log is a nemesis log in memory.
type log struct {
	mu     sync.Mutex
	events []history.Event
	grew   chan struct{}
}

func newLog() *log { return &log{grew: make(chan struct{}, 1000)} }

func (l *log) Record(_ history.Witness, e history.Event) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
	l.grew <- struct{}{}
	return int64(len(l.events))
}

// await waits until the log holds a phase on a target.
func (l *log) await(t *testing.T, phase string, target contract.Process) history.Event {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		l.mu.Lock()
		for _, e := range l.events {
			if e.Phase == phase && e.Target == string(target) {
				l.mu.Unlock()
				return e
			}
		}
		l.mu.Unlock()
		select {
		case <-l.grew:
		case <-deadline:
			t.Fatalf("%s never was %s", target, phase)
		}
	}
}

func (l *log) phases(target contract.Process) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, e := range l.events {
		if e.Target == string(target) {
			out = append(out, e.Phase)
		}
	}
	return strings.Join(out, " ")
}

// story runs a plan of one or more steps in the background.
func story(t *testing.T, v victims, l *log, drive time.Duration, steps ...plan.Step) (*Engine, func() error, context.CancelFunc) {
	t.Helper()
	e := NewEngine(plan.Plan{Together: 2, Drive: plan.Duration(drive), Steps: steps}, v, l)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(cancel)
	return e, func() error { return <-done }, cancel
}

func delivered(proc contract.Process, op contract.Op, payout string, token int64) *history.Event {
	return &history.Event{W: history.Wiretap, Type: contract.OK, Proc: proc, Op: op, Stage: history.Delivered, Status: 200,
		Payout: payout, Token: token, Outcome: contract.OutcomeAcked, Call: token}
}

func answered(proc contract.Process, op contract.Op, payout string, token int64, res string) *history.Event {
	e := delivered(proc, op, payout, token)
	e.Stage, e.Res = history.Answered, res
	return e
}

const long = time.Minute

// listening feeds evs until the engine, which must first have begun to wait for them, acts.
func listening(t *testing.T, e *Engine, l *log, evs ...*history.Event) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); len(l.grew) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the engine did not act on its trigger")
		}
		for _, ev := range evs {
			e.Observe(ev)
		}
		runtime.Gosched()
	}
}

func TestTheHolderIsStoppedUntilItsNextWriteIsStale(t *testing.T) {
	for name, c := range map[string]struct {
		on     plan.Event
		first  []*history.Event
		notYet []*history.Event
		end    *history.Event
	}{
		"after submitted, until the rail accepted a higher token": {
			on:     plan.SubmittedOK,
			first:  []*history.Event{delivered("executor-1", contract.OpSubmitted, "p", 41)},
			notYet: []*history.Event{answered("executor-2", contract.OpClaim, "p", 42, ""), answered("executor-2", contract.OpSubmit, "other", 42, "")},
			end:    answered("executor-2", contract.OpSubmit, "p", 42, ""),
		},
		"after a claim that found it unclaimed, until a successor claimed": {
			on:     plan.ClaimOK,
			first:  []*history.Event{answered("executor-1", contract.OpClaim, "p", 41, `{"state":"CLAIMED"}`), delivered("executor-1", contract.OpClaim, "p", 41)},
			notYet: []*history.Event{answered("executor-1", contract.OpClaim, "p", 41, "")},
			end:    answered("executor-2", contract.OpClaim, "p", 42, ""),
		},
		"after the outcome, until a successor posted": {
			on:     plan.OutcomeOK,
			first:  []*history.Event{delivered("executor-1", contract.OpOutcome, "p", 41)},
			notYet: []*history.Event{answered("executor-2", contract.OpClaim, "p", 42, "")},
			end:    answered("executor-2", contract.OpPost, "p", 42, ""),
		},
	} {
		t.Run(name, func(t *testing.T) {
			v, l := startVictims(t, "executor-1", "executor-2"), newLog()
			e, wait, _ := story(t, v, l, long, plan.Step{Fault: plan.Pause, Target: plan.Holder, On: c.on, Until: plan.NextFence(c.on), For: plan.Duration(long)})
			listening(t, e, l, c.first...)
			l.await(t, PhaseSeen, "executor-1")
			if !v.stopped(t, "executor-1") || v.stopped(t, "executor-2") {
				t.Fatal("not the holder alone is stopped")
			}
			for _, ev := range c.notYet {
				e.Observe(ev)
			}
			if !v.stopped(t, "executor-1") || len(e.Status().Active) != 1 {
				t.Fatal("it was resumed before its write was stale")
			}
			e.Observe(c.end)
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			if v.stopped(t, "executor-1") {
				t.Error("it is still stopped")
			}
			if got := l.phases("executor-1"); got != "inject seen heal healed" {
				t.Errorf("the log says %q", got)
			}
		})
	}
}

func TestATakeOverClaimIsNoTriggerForItsNextWriteIsAnother(t *testing.T) {
	e := newListeners()
	e.observe(answered("executor-1", contract.OpClaim, "p", 41, `{"state":"RAIL_ACKED"}`))
	if triggers(plan.ClaimOK, e, delivered("executor-1", contract.OpClaim, "p", 41)) {
		t.Error("a claim that took over RAIL_ACKED triggered")
	}
}

func TestARefusedSubmitDoesNotEndAPause(t *testing.T) {
	fenced := answered("executor-2", contract.OpSubmit, "p", 42, "")
	fenced.Outcome = contract.OutcomeFenced
	if ends(plan.SuccessorAtRail, trigger{payout: "p", token: 41}, fenced) {
		t.Error("the rail refused the higher token, so nothing is stale yet")
	}
}

func TestAPauseEndsByItsTimeWhenNoSuccessorComes(t *testing.T) {
	v, l := startVictims(t, "executor-1"), newLog()
	e, wait, _ := story(t, v, l, long, plan.Step{Fault: plan.Pause, Target: plan.Holder, On: plan.SubmittedOK, Until: plan.SuccessorAtRail, For: plan.Duration(20 * time.Millisecond)})
	listening(t, e, l, delivered("executor-1", contract.OpSubmitted, "p", 41))
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if heal := l.await(t, PhaseHeal, "executor-1"); !strings.Contains(heal.Msg, "did not come within") {
		t.Errorf("it was healed because: %s", heal.Msg)
	}
	if v.stopped(t, "executor-1") {
		t.Error("it is still stopped")
	}
}

func TestWhenTheRunIsInterruptedEverythingIsResumed(t *testing.T) {
	v, l := startVictims(t, "executor-1", "executor-2"), newLog()
	step := func(target plan.Target) plan.Step {
		return plan.Step{Fault: plan.Pause, Target: target, For: plan.Duration(long)}
	}
	_, wait, cancel := story(t, v, l, long, step("executor-1"), step("executor-2"))
	l.await(t, PhaseSeen, "executor-1")
	l.await(t, PhaseSeen, "executor-2")
	cancel()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if v.stopped(t, "executor-1") || v.stopped(t, "executor-2") {
		t.Error("something is still stopped")
	}
}

func TestAnInjectionWhoseEffectIsNotSeenCountsAsFailedAndIsInTheLog(t *testing.T) {
	v, l := startVictims(t, "executor-1"), newLog()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := process.Kill(ctx, v["executor-1"]); err != nil {
		t.Fatal(err)
	}
	e, wait, _ := story(t, v, l, long, plan.Step{Fault: plan.Pause, Target: "executor-1", For: plan.Duration(time.Millisecond)})
	_ = wait() // that a dead process does not go on either is an error
	if s := e.Status(); s.Windows != 0 || s.Failed != 1 {
		t.Errorf("the engine counts %+v", s)
	}
	if got := l.phases("executor-1"); got != "inject failed heal failed" {
		t.Errorf("the log says %q", got)
	}
}

func TestAStepByTimeWaitsForNoOther(t *testing.T) {
	v, l := startVictims(t, "executor-1", "executor-2", "paydb"), newLog()
	busy := plan.Step{Fault: plan.Pause, Target: plan.Holder, On: plan.SubmittedOK, Until: plan.SuccessorAtRail, For: plan.Duration(long)}
	_, wait, cancel := story(t, v, l, long, busy, busy, busy, plan.Step{Fault: plan.Pause, Target: "paydb", For: plan.Duration(long)})
	l.await(t, PhaseSeen, "paydb") // although both workers wait for an event that never comes
	cancel()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if v.stopped(t, "paydb") {
		t.Error("it is still stopped")
	}
}
