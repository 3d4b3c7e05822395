package nemesis

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// granted is an acquire of key that was answered, or whose answer was delivered.
func granted(proc contract.Process, key string, token int64, stage history.Stage) *history.Event {
	return &history.Event{W: history.Wiretap, Type: contract.OK, Proc: proc, Op: contract.OpAcquire, Stage: stage, Status: 200, Key: key, Granted: token, Call: token}
}

func TestAHolderOfAKeyIsStoppedUntilSomebodyElseIsGrantedIt(t *testing.T) {
	client := contract.LockClient(1)
	v, l := startVictims(t, client), newLog()
	e, end, stop := story(t, v, l, long, plan.Step{Fault: plan.Pause, Target: plan.Holder, On: plan.AcquireOK, Until: plan.SuccessorGranted, For: plan.Duration(long / 2)})
	listening(t, e, l, granted("reconciler", "k", 4, history.Delivered), granted(client, "k", 5, history.Delivered))
	seen := l.await(t, PhaseSeen, client)
	if seen.Key != "k" || seen.Token != 5 || !v.stopped(t, client) {
		t.Fatalf("it was stopped for key %s under token %d; stopped: %v", seen.Key, seen.Token, v.stopped(t, client))
	}
	for _, other := range []*history.Event{
		granted(client, "k", 6, history.Answered),                 // its own
		granted(contract.LockClient(2), "K", 7, history.Answered), // of another key
		granted(contract.LockClient(2), "k", 3, history.Answered), // an earlier one, told late
	} {
		e.Observe(other)
	}
	if s := e.Status(); len(s.Active) != 1 {
		t.Errorf("it went on before anybody else had its key: %v", s)
	}
	e.Observe(granted(contract.LockClient(2), "k", 8, history.Answered))
	if healed := l.await(t, PhaseHeal, client); healed.Msg != string(plan.SuccessorGranted) {
		t.Errorf("it went on because of %s", healed.Msg)
	}
	l.await(t, PhaseHealed, client)
	stop()
	if err := end(); err != nil {
		t.Error(err)
	}
}
