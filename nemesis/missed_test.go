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
