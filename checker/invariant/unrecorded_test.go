package invariant

import (
	"slices"
	"strings"
	"testing"

	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// A witness that nobody had is no gap, and no proof of absence either: what rests on it is not judged, the rest is as ever.
func TestWhatRestsOnAWitnessThatNobodyRecordedIsNotExercised(t *testing.T) {
	all := healthy().events
	whole := judged(all, nil)
	for _, w := range []history.Witness{history.PayDB, history.LockDB, history.Journal, history.Wiretap} {
		j := NewJudge(verdict.Settings{})
		j.NotRecorded(w)
		for i := range all {
			if all[i].W != w {
				j.Observe(&all[i])
			}
		}
		for i, inv := range j.Conclude(nil) {
			want, rests := whole[inv.ID].Status, slices.Contains(j.folds[i].RestsOn(), w)
			if rests {
				want = verdict.NotExercised
				if !strings.Contains(inv.Reason, "not recorded: the history has no witness "+string(w)) {
					t.Errorf("without %s: %s because of %q", w, inv.ID, inv.Reason)
				}
			}
			if inv.Status != want && (rests || w != history.PayDB) { // without paydb nobody knows whose payouts the others are about
				t.Errorf("without %s: %s is %s, want %s", w, inv.ID, inv.Status, want)
			}
			if inv.Status == verdict.Violated {
				t.Errorf("without %s: %s is violated: %s", w, inv.ID, inv.Reason)
			}
		}
		if gaps := j.Gaps(); len(gaps) > 0 {
			t.Errorf("without %s there are gaps %v", w, gaps)
		}
	}
}

// What the others prove of an invariant that does rest on it is seen to stay violated in checker/golden.
func TestWhatDoesNotRestOnAWitnessIsViolatedThoughNobodyRecordedIt(t *testing.T) {
	w := bank()
	w.railOff = true
	w.do("executor-1", "submit", "p2", stall(w, "submit"))
	j := NewJudge(verdict.Settings{})
	j.NotRecorded(history.LockDB)
	for i := range w.events {
		if w.events[i].W != history.LockDB {
			j.Observe(&w.events[i])
		}
	}
	seen := false
	for _, inv := range j.Conclude(nil) {
		if seen = seen || inv.ID == "INV-02"; inv.ID == "INV-02" && inv.Status != verdict.Violated {
			t.Errorf("INV-02 is %s: %s", inv.Status, inv.Reason)
		}
	}
	if !seen {
		t.Error("INV-02 is not judged")
	}
}
