package invariant

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

func TestARefusalCountsForAFullDiskOnlyWhereItsServerRestsOnOne(t *testing.T) {
	window := func(phase, target string) *history.Event {
		return &history.Event{W: history.Nemesis, Op: "disk-full", Window: 1, Phase: phase, Target: target}
	}
	answer := func(to contract.Process, status int) *history.Event {
		return &history.Event{W: history.Wiretap, Stage: history.Answered, Status: status, Link: contract.Link{From: "executor-1", To: to}.String()}
	}
	for name, c := range map[string]struct {
		events        []*history.Event
		seen, refused int64
	}{
		"refused while it is full": {[]*history.Event{window("inject", "paydb"), window("seen", "paydb"), answer(contract.PaymentResource, 503),
			answer(contract.RailProxy, 503), window("heal", "paydb"), answer(contract.PaymentResource, 503)}, 1, 3},
		"refused by somebody else":     {[]*history.Event{window("seen", "paydb"), answer(contract.LockServer, 503)}, 1, 0},
		"the lock server's own":        {[]*history.Event{window("seen", "lockdb"), answer(contract.LockServer, 503), answer(contract.RailProxy, 503)}, 1, 1},
		"answered with something else": {[]*history.Event{window("seen", "paydb"), answer(contract.PaymentResource, 500), answer(contract.PaymentResource, 200)}, 1, 0},
		"before and afterwards": {[]*history.Event{window("inject", "paydb"), answer(contract.PaymentResource, 503), window("seen", "paydb"),
			window("healed", "paydb"), answer(contract.PaymentResource, 503)}, 1, 0},
		"never seen to be full": {[]*history.Event{window("inject", "paydb"), window("failed", "paydb"), answer(contract.PaymentResource, 503)}, 0, 0},
		"killed":                {[]*history.Event{{W: history.Nemesis, Op: "kill", Window: 1, Phase: "seen", Target: "paydb"}, answer(contract.PaymentResource, 503)}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFullDisks()
			for _, e := range c.events {
				f.hear(e)
			}
			if all := f.seen[contract.LockDB] + f.seen[contract.PayDB]; all != c.seen || f.refused != c.refused {
				t.Errorf("%d full disks and %d refusals, want %d and %d", all, f.refused, c.seen, c.refused)
			}
		})
	}
}

// One database's full disk is no danger to what another one keeps.
func TestAFullDiskCountsForWhatIsKeptThere(t *testing.T) {
	w := bank()
	for n, e := range []history.Event{{Target: "paydb"}, {Target: "paydb", Attrs: map[string]string{"log": "used up"}}, {Target: "lockdb"}} {
		e.W, e.Op, e.Window, e.Phase = history.Nemesis, "disk-full", n+1, "seen"
		w.record(e)
	}
	got := judged(w.events, nil)
	for id, want := range map[string]map[string]int64{
		"INV-03": {"full_paydb": 2, "full_lockdb": 0}, "INV-04": {"full_lockdb": 1, "full_paydb": 0},
		"DUR-01": {"full_lockdb": 1, "full_paydb": 2, "logs_exhausted": 1},
	} {
		for counter, n := range want {
			if got[id].Danger[counter] != n {
				t.Errorf("%s: %s is %d, want %d", id, counter, got[id].Danger[counter], n)
			}
		}
	}
}
