package run

import (
	"slices"
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

func TestKeysAreManyAndDifferentAndTheFirstOfThemAlike(t *testing.T) {
	for _, n := range []int{1, 4, 20} {
		keys := lockKeys(n)
		distinct := slices.Compact(slices.Sorted(slices.Values(keys)))
		if len(keys) != n || len(distinct) != n {
			t.Errorf("%d keys: %q", n, keys)
		}
	}
	k := lockKeys(4)
	if !strings.HasPrefix(k[1], k[0]) || !strings.EqualFold(k[2], k[0]) {
		t.Errorf("they are %q", k)
	}
}

func TestTheDefaultLoadOfTheLockIsAPlanThatMayBeRun(t *testing.T) {
	l := DefaultLocks()
	p, err := plan.Generate(plan.Plan{Workload: "lock", Backend: "pg", Nemesis: "pause", Seed: 1, Locks: &l, Drive: plan.Duration(DefaultDrive)})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Plan: p, Fencing: FencingOn}
	s := c.settings()
	if s.Clients != l.Clients || s.Sessions != l.Sessions || s.Keys != l.Keys || s.Rate != l.Rate || s.Fencing != "" || s.Executors != 0 {
		t.Errorf("the verdict would say %+v", s)
	}
	if env := environment(c); len(env) != 1 || env["lock-server"] == nil {
		t.Errorf("variables for %v", env)
	}
}

func TestWhatLockClientsWereAnsweredIsCountedOnceAndNobodyElses(t *testing.T) {
	var c lockCounts
	for _, e := range []history.Event{
		{Proc: contract.LockClient(1), Op: contract.OpAcquire, Type: contract.OK, Granted: 7},
		{Proc: contract.LockClient(2), Op: contract.OpAcquire, Type: contract.Fail, Code: contract.LockContended},
		{Proc: contract.LockClient(1), Op: contract.OpRenew, Type: contract.OK, Granted: 7},
		{Proc: contract.LockClient(1), Op: contract.OpRelease, Type: contract.Fail, Code: contract.LockLost},
		{Proc: contract.LockOperator, Op: contract.OpRevoke, Type: contract.OK},
		{Proc: contract.LockOperator, Op: contract.OpRevoke, Type: contract.Fail, Code: contract.FencedOut},
		{Proc: contract.Executor(1), Op: contract.OpAcquire, Type: contract.OK, Granted: 8},
	} {
		for _, stage := range []history.Stage{history.Answered, history.Delivered} {
			e.W, e.Stage = history.Wiretap, stage
			c.observe(&e)
		}
	}
	if got, want := c.read(), (lockCount{granted: 1, contended: 1, lost: 1, revoked: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}
