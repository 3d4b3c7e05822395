package invariant

import (
	"strings"
	"testing"

	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// restIDs are the other invariants that a world without a harness exercises.
var restIDs = []string{"INV-06", "INV-07", "INV-08", "DUR-01"}

// fallen lists all invariants that were violated.
func fallen(verdicts map[string]verdict.Invariant) string {
	var ids []string
	for _, id := range verdict.IDs() {
		if verdicts[id].Status == verdict.Violated {
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, " ")
}

// tell judges stories that begin with a bank, whichever store the lock has, and looks at all invariants.
func tell(t *testing.T, stories []wrong) {
	t.Helper()
	tellOf(t, bank, stories)
	t.Run("on etcd", func(t *testing.T) { tellOf(t, bankOnEtcd, stories) })
}

func tellOf(t *testing.T, begin func() *world, stories []wrong) {
	t.Helper()
	for _, c := range stories {
		t.Run(c.name, func(t *testing.T) {
			w := begin()
			c.story(w)
			w.watermarks()
			proven(t, c, w.judgement())
		})
	}
}

// proven checks which invariants fell, in which words, and that each violation is proved by three to six events in order.
func proven(t *testing.T, c wrong, got map[string]verdict.Invariant) {
	t.Helper()
	if v := fallen(got); v != c.falls {
		t.Errorf("violated: %q, want %q", v, c.falls)
		for id, inv := range got {
			if inv.Found > 0 {
				t.Logf("%s: %s", id, inv.Reason)
			}
		}
	}
	for _, inv := range got {
		for _, v := range inv.Violations {
			if n := len(v.Events); n < 3 || n > maxEvidence {
				t.Errorf("%s: %q is proved by %d events, want 3 to %d", inv.ID, v.Sentence, n, maxEvidence)
			}
		}
	}
	for id, words := range c.words {
		if vs := got[id].Violations; len(vs) == 0 || !strings.Contains(vs[0].Sentence, words) {
			t.Errorf("%s says %+v, want a sentence with %q", id, vs, words)
		}
	}
}

// sound checks that nothing fell, and how much the invariant left open.
func sound(t *testing.T, id string, events []history.Event, unresolved int64) {
	t.Helper()
	got := judged(events, nil)
	if v := fallen(got); v != "" {
		t.Errorf("violated: %s", v)
	}
	for _, inv := range got {
		if inv.Found > 0 {
			t.Errorf("%s: %s", inv.ID, inv.Reason)
		}
	}
	if n := got[id].Unresolved; n != unresolved {
		t.Errorf("%s left %d open, want %d", id, n, unresolved)
	}
}

func TestTheFoldsOfTheRestPassAHealthyHistoryWithNothingLeftOpen(t *testing.T) {
	got := judged(healthy().events, nil)
	for _, id := range restIDs {
		if inv := got[id]; inv.Status != verdict.Pass || inv.Checked == 0 || inv.Unresolved != 0 {
			t.Errorf("%s is %s (%s), checked %d, unresolved %d; want a pass with nothing left open", id, inv.Status, inv.Reason, inv.Checked, inv.Unresolved)
		}
	}
	for id, counter := range map[string]string{"INV-06": "takeovers", "INV-07": "superseded", "INV-08": "takeovers", "DUR-01": "replays"} {
		if got[id].Danger[counter] == 0 {
			t.Errorf("%s met no danger %s", id, counter)
		}
	}
}
