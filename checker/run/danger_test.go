package run

import (
	"slices"
	"testing"
	"time"

	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"
)

// loads are the counters that a load may feed alone, with nothing broken: its clients contend for keys, let leases and
// sessions run out, come back to what is over, and give calls up, and an operator of its own revokes grants.
var loads = []string{"regrants", "reentries", "takeovers", "lapsed", "contended", "stale_releases", "stale_renewals", "died_with_session",
	"revocations", "revokes", "expiries", "dead_holders", "ambiguous", "answers_lost", "replays", "superseded"}

// A nemesis none of whose steps does anything leaves the load, and that must not be enough.
func TestNoRunPassesByWhatItsLoadAloneMeets(t *testing.T) {
	for _, stack := range stacks() {
		for _, name := range plan.Names() {
			if name == plan.None {
				continue
			}
			for _, drive := range []time.Duration{10 * time.Second, DefaultDrive} {
				s := verdict.Settings{Workload: stack.Workload, Backend: stack.Backend, Nemesis: name, Fencing: string(FencingOn), Drive: drive}
				if !slices.ContainsFunc(verdict.Needs(s), func(n verdict.Need) bool { return !slices.Contains(loads, n.Counter) }) {
					t.Errorf("nemesis %s, %s on %s for %s: a pass needs nothing of the nemesis", name, s.Workload, s.Backend, drive)
				}
			}
		}
	}
}
