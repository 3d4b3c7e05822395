package invariant

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

func TestKillsCountByTheMomentAtWhichTheyCame(t *testing.T) {
	w := bank()
	window := 0
	phase := func(target contract.Process, p string, e history.Event) {
		e.W, e.Type, e.Proc, e.Op, e.Phase, e.Target, e.Window = history.Nemesis, contract.Info, "nemesis", "kill", p, string(target), window
		w.record(e)
	}
	hit := func(target contract.Process, e history.Event) {
		window++
		phase(target, "inject", e)
		phase(target, "seen", e)
	}
	key, post := history.Event{Key: "payout:alice", Token: 44}, history.Event{Payout: "p1", Token: 44}
	for _, target := range []contract.Process{"lockdb", "etcd-2", "lock-server"} {
		hit(target, history.Event{Key: "payout:nobody", Token: 44}) // nothing was granted just before
	}
	w.acquire("executor-1", "alice")
	for _, target := range []contract.Process{"lockdb", "etcd-2", "lock-server", "paydb"} {
		hit(target, key)
	}
	hit("lock-server", history.Event{})
	hit("executor-1", post)
	hit("lock-client-2", key)
	hit("executor-1", history.Event{})
	hit("reconciler", history.Event{})
	window++
	phase("lockdb", "inject", key)
	phase("lockdb", "failed", key)
	got := judged(w.events, nil)
	for id, want := range map[string]map[string]int64{
		"INV-04": {"kills_after_grant": 3}, "INV-03": {"kills_in_post": 0}, "DUR-01": {"kills_of_stores": 5}, "INV-06": {"kills_holding": 2},
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

func TestAKillIsInAPostOnlyWhileOneIsOnItsWay(t *testing.T) {
	post := func(stage history.Stage, typ contract.Type) history.Event {
		return history.Event{W: history.Wiretap, Type: typ, Op: contract.OpPost, Stage: stage, Call: 7, Payout: "p1", Token: 44}
	}
	kill := func(phase string) history.Event {
		return history.Event{W: history.Nemesis, Op: "kill", Window: 1, Phase: phase, Target: "paydb", Payout: "p1", Token: 44}
	}
	forwarded, inject, seen := post(history.Forwarded, contract.Invoke), kill("inject"), kill("seen")
	answered, cut := post(history.Answered, contract.OK), post(history.Answered, contract.Info)
	for name, c := range map[string]struct {
		events []history.Event
		want   int64
	}{
		"it is still open":                 {[]history.Event{forwarded, inject, seen}, 1},
		"the kill cut it":                  {[]history.Event{forwarded, inject, cut, seen}, 1},
		"it was answered before the kill":  {[]history.Event{forwarded, answered, inject, seen}, 0},
		"it was answered before the death": {[]history.Event{forwarded, inject, answered, seen}, 1}, // nobody knows what came first
		"it had been cut before":           {[]history.Event{forwarded, cut, inject, seen}, 0},
		"it came afterwards":               {[]history.Event{inject, seen, forwarded}, 0},
		"nothing was killed":               {[]history.Event{forwarded, inject, kill("failed")}, 0},
	} {
		k := newKills()
		for _, e := range c.events {
			k.hear(&e)
		}
		if k.inPost != c.want {
			t.Errorf("%s: %d, want %d", name, k.inPost, c.want)
		}
	}
}
