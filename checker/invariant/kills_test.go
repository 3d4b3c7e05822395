package invariant

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

func TestKillsCountByTheMomentAtWhichTheyCame(t *testing.T) {
	hit := func(target contract.Process, e history.Event) history.Event {
		e.W, e.Type, e.Proc, e.Op, e.Phase, e.Target = history.Nemesis, contract.Info, "nemesis", "kill", "seen", string(target)
		return e
	}
	key, post := history.Event{Key: "payout:alice", Token: 44}, history.Event{Payout: "p1", Token: 44}
	failed := hit("lockdb", key)
	failed.Phase = "failed"
	paused := hit("lockdb", key)
	paused.Op = "pause"
	w := bank()
	for _, e := range []history.Event{
		hit("lockdb", key), hit("etcd-2", key), hit("lock-server", key), hit("lock-server", history.Event{}), hit("lockdb", history.Event{}), hit("paydb", key), failed, paused,
		hit("paydb", post), hit("payment-resource", post), hit("rail-stub", post),
		hit("executor-1", post), hit("lock-client-2", key), hit("executor-1", history.Event{}), hit("reconciler", history.Event{}),
	} {
		w.record(e)
	}
	got := judged(w.events, nil)
	for id, want := range map[string]map[string]int64{
		"INV-04": {"kills_after_grant": 3}, "INV-03": {"kills_in_post": 2}, "DUR-01": {"kills_of_stores": 5}, "INV-06": {"kills_holding": 2},
	} {
		for counter, n := range want {
			if got[id].Danger[counter] != n {
				t.Errorf("%s: %s is %d, want %d", id, counter, got[id].Danger[counter], n)
			}
		}
	}
	if _, there := judged(bank().events, nil)["INV-04"].Danger["kills_after_grant"]; there {
		t.Error("a run without kills counts them")
	}
}
