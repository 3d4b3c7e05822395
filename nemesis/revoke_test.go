package nemesis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// office is a stack with an operator, who is answered as answers say.
type office struct {
	victims
	mu      sync.Mutex
	answers []error
	asked   []string
}

func (o *office) Revoke(_ context.Context, key string, token int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, fmt.Sprintf("%s %d", key, token))
	answer := o.answers[0]
	o.answers = o.answers[1:]
	return answer
}

func TestAnOperatorRevokesTheGrantOfItsTriggerAndTriesAnotherWhereThatIsOver(t *testing.T) {
	o, l := &office{answers: []error{ErrNotHeld, errors.New("no answer"), nil}}, newLog()
	e := NewEngine(plan.Plan{Together: 2, Drive: plan.Duration(long), Steps: []plan.Step{{Fault: plan.Revoke, Target: plan.Holder, On: plan.AcquireOK}}}, o, l)
	done := make(chan error, 1)
	go func() { done <- e.Run(t.Context()) }()
	listening(t, e, l, granted("reconciler", "k", 4, history.Delivered), granted("executor-2", "k", 5, history.Delivered))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.asked, ", "); got != "k 5, k 5, k 5" {
		t.Errorf("the operator asked for %s", got)
	}
	if seen := l.await(t, PhaseSeen, "executor-2"); l.phases("executor-2") != "inject seen healed" || seen.Key != "k" || seen.Token != 5 {
		t.Errorf("the log says %q of key %s under token %d", l.phases("executor-2"), seen.Key, seen.Token)
	}
	if s := e.Status(); s.Windows != 1 || s.Failed != 0 || len(s.Active) != 0 {
		t.Errorf("the engine counts %+v", s)
	}
}

func TestADriveThatEndsBeforeAnythingWasRevokedSaysSo(t *testing.T) {
	o, l := &office{}, newLog()
	e := NewEngine(plan.Plan{Together: 1, Drive: plan.Duration(time.Millisecond), Steps: []plan.Step{{Fault: plan.Revoke, Target: plan.Holder, On: plan.AcquireOK}}}, o, l)
	if err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if failed := l.await(t, PhaseFailed, "holder"); !strings.Contains(failed.Msg, "nothing was granted") || e.Status().Failed != 1 {
		t.Errorf("the log says %q, the engine counts %+v", failed.Msg, e.Status())
	}
}

func TestAStackWithoutAnOperatorCannotRevoke(t *testing.T) {
	_, end, _ := story(t, victims{}, newLog(), long, plan.Step{Fault: plan.Revoke, Target: plan.Holder, On: plan.AcquireOK})
	if err := end(); err == nil || !strings.Contains(err.Error(), "nobody in this stack may") {
		t.Errorf("got %v", err)
	}
}
