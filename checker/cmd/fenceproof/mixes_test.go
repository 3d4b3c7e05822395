package main

import (
	"testing"

	"fenceproof/checker/verdict"
)

// Two nemeses at once are each met as often as a pass of either needs, and nothing breaks.
func TestWhatBreaksTogetherIsMetTogetherAndHolds(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		met  map[string][]string // by invariant
	}{
		"holders stopped while the store is put back": {[]string{"--nemesis", "pause,restore", "--seed", "1", "--duration", "25s"},
			map[string][]string{"INV-04": {"rewinds", "regrants_across"}, "INV-05": {"stale_refused_payment", "stale_refused_rail"}}},
		"wrong clocks and a promoted standby": {[]string{"--nemesis", "clock,failover", "--workload", "lock", "--seed", "1", "--duration", "28s"},
			map[string][]string{"INV-04": {"failovers", "regrants_across"}, "INV-06": {"lockdb_ahead", "lockdb_behind", "refused_behind"}, "DUR-01": {"standbys_behind"}}},
		"a full disk of the database that the procedure reads": {[]string{"--nemesis", "disk-full,restore", "--backend", "etcd", "--seed", "2", "--duration", "28s", "--rate", "8"},
			map[string][]string{"INV-04": {"rewinds", "regrants_across"}, "DUR-01": {"full_paydb", "logs_exhausted", "refused_full"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, c.args...)
			if got := r.wait(); got != 0 {
				t.Fatalf("exit status %d", got)
			}
			awaitNobody(t, r.folder())
			v := r.verdict()
			if v.Overall != verdict.Pass {
				t.Errorf("it is %s: %s", v.Overall, v.Reason)
			}
			for id, counters := range c.met {
				met := danger(v, id)
				for _, counter := range counters {
					if met[counter] == 0 {
						t.Errorf("%s met no %s: %v", id, counter, met)
					}
				}
			}
		})
	}
}
