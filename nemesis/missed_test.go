package nemesis

import (
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/nemesis/plan"
)

func TestAStepWhoseProcessIsHeldByAnotherSaysThatItWasNotDone(t *testing.T) {
	v := startVictims(t, contract.Executor(1))
	l := newLog()
	e := NewEngine(plan.Plan{Together: 1, Drive: plan.Duration(time.Minute)}, v, l)
	e.patience = 20 * time.Millisecond
	if !e.take(contract.Executor(1)) {
		t.Fatal("the process is held already")
	}
	if err := e.step(t.Context(), time.Now(), plan.Step{Fault: plan.Pause, Target: plan.Target(contract.Executor(1)), For: plan.Duration(time.Second)}); err != nil {
		t.Fatal(err)
	}
	if got := l.await(t, PhaseFailed, contract.Executor(1)); got.Window != 1 || !strings.Contains(got.Msg, "another step holds executor-1") {
		t.Errorf("the log says %+v", got)
	}
	if s := e.Status(); s.Failed != 1 || s.Windows != 0 || len(s.Active) != 0 {
		t.Errorf("status %+v", s)
	}
}

func TestEveryStepWhoseTimeOrEventNeverCameIsToldOfWhenTheDriveEnds(t *testing.T) {
	request := &plan.Message{Side: plan.Request, Op: contract.OpSubmit}
	for name, c := range map[string]struct {
		step plan.Step
		why  string
	}{
		"a stop at an event":      {plan.Step{Fault: plan.Pause, Target: "holder", On: plan.SubmittedOK}, "no submitted.ok"},
		"a kill at a time":        {plan.Step{Fault: plan.Kill, Target: "holder", At: plan.Duration(time.Hour)}, "planned at 1h0m0s and not done: the drive has ended"},
		"a cut at an event":       {plan.Step{Fault: plan.Cut, Target: "holder", On: plan.SubmittedOK}, "no submitted.ok"},
		"a message from an event": {plan.Step{Fault: plan.Delay, Target: "holder", On: plan.SubmittedOK, Message: request}, "no submitted.ok"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.step.Fault.OnLink() || c.step.Fault.OnMessage() {
				c.step.Target = "holder→rail-proxy"
			}
			l := newLog()
			e, done, cancel := story(t, victims{}, l, 2*time.Hour, c.step)
			if c.step.On != "" {
				e.settle(t, 1)
			}
			cancel()
			if err := done(); err != nil {
				t.Fatal(err)
			}
			target := contract.Process(c.step.Target)
			if c.step.Fault.OnMessage() {
				target = "holder" // whose message it was to be is not known
			}
			if got := l.phases(target); got != PhaseFailed {
				t.Fatalf("the log says %q", got)
			}
			if got := l.await(t, PhaseFailed, target).Msg; !strings.Contains(got, c.why) {
				t.Errorf("the log says %q", got)
			}
			if s := e.Status(); s.Failed != 1 || s.Windows != 0 || len(s.Active) != 0 {
				t.Errorf("status %+v", s)
			}
		})
	}
}

func TestStepsWhoseTurnNeverCameAreToldOfOneByOne(t *testing.T) {
	l := newLog()
	s := plan.Step{Fault: plan.Pause, Target: "holder", On: plan.SubmittedOK}
	e, done, cancel := story(t, victims{}, l, time.Hour, s, s, s, s)
	e.settle(t, 2) // two at once
	cancel()
	if err := done(); err != nil {
		t.Fatal(err)
	}
	if got := l.phases("holder"); got != "failed failed failed failed" || e.Status().Failed != 4 {
		t.Errorf("the log says %q, the engine counts %d", got, e.Status().Failed)
	}
}

// How long it takes to put a store in another's place is the machine's business: a step that a plan counts on is late then, and
// not left out.
func TestAStepWaitsForWhatIsTakenForLongBeyondItsPatience(t *testing.T) {
	v := startVictims(t, contract.LockDB)
	l := newLog()
	e := NewEngine(plan.Plan{Together: 1, Drive: plan.Duration(time.Minute)}, v, l)
	e.patience = 20 * time.Millisecond
	letGo, err := e.takeAll(t.Context(), plan.HeldByFailover())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- e.step(t.Context(), time.Now(), plan.Step{Fault: plan.Pause, Target: plan.Target(contract.LockDB), For: plan.Duration(time.Millisecond)})
	}()
	select {
	case <-done:
		t.Fatalf("it has not waited: %q", l.phases(contract.LockDB))
	case <-time.After(5 * e.patience):
	}
	letGo()
	if err := <-done; err != nil || l.phases(contract.LockDB) != "inject seen heal healed" {
		t.Errorf("%v; the log says %q", err, l.phases(contract.LockDB))
	}
}
