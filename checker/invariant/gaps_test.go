package invariant

import (
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

func TestWhatAWitnessWithAGapCoversIsInconclusive(t *testing.T) {
	for _, c := range []struct {
		witness history.Witness
		open    string // the invariants that rest on it
	}{
		{history.PayDB, "INV-01 INV-02 INV-03 INV-05"},
		{history.LockDB, "INV-04"},
		{history.Journal, "INV-02 INV-03"},
		{history.Wiretap, "INV-01 INV-04 INV-05"},
		{history.Logs, ""},
		{history.Nemesis, ""},
	} {
		t.Run(string(c.witness), func(t *testing.T) {
			w := healthy()
			offline := judged(w.events, map[history.Witness]string{c.witness: "the file has no trailer"})
			lost := history.Event{W: c.witness, Type: contract.Info, Op: history.OpLostPlace, Msg: "the slot is gone"}
			for place, got := range map[string]map[string]verdict.Invariant{
				"the slot is gone": judged(append([]history.Event{lost}, w.events...), nil), "the file has no trailer": offline,
			} {
				for _, id := range judgedIDs {
					want := verdict.Pass
					if strings.Contains(c.open, id) {
						want = verdict.Inconclusive
					}
					if got[id].Status != want {
						t.Errorf("%s: %s is %s (%s), want %s", place, id, got[id].Status, got[id].Reason, want)
					}
					if want == verdict.Inconclusive && !strings.Contains(got[id].Reason, place) {
						t.Errorf("%s is inconclusive because %q, want a reason with %q", id, got[id].Reason, place)
					}
				}
			}
		})
	}
}

func TestAViolationStaysViolatedWhateverIsMissing(t *testing.T) {
	w := bank()
	w.railOff = true
	w.do("executor-1", contract.OpSubmit, "p2", stall(w, contract.OpSubmit))
	got := judged(w.events, map[history.Witness]string{history.PayDB: "torn", history.Journal: "torn", history.Wiretap: "torn"})
	if v := violated(got); v != "INV-02 INV-05" {
		t.Errorf("violated: %q", v)
	}
	if s := got["INV-01"].Status; s != verdict.Inconclusive {
		t.Errorf("INV-01 is %s", s)
	}
}

// A file that is not there shows nothing. What it would have shown must not count as absent.
func TestAMissingFileIsNoEvidenceOfAbsence(t *testing.T) {
	all := healthy().events
	for _, w := range []history.Witness{history.PayDB, history.LockDB, history.Journal, history.Wiretap} {
		var rest []history.Event
		for _, e := range all {
			if e.W != w {
				rest = append(rest, e)
			}
		}
		if v := violated(judged(rest, map[history.Witness]string{w: "the file is missing"})); v != "" {
			t.Errorf("without %s: %s violated", w, v)
		}
	}
}

// A history that breaks off anywhere raises no alarm either: its tail is missing in every file.
func TestATornHistoryRaisesNoAlarm(t *testing.T) {
	all := healthy().events
	gaps := map[history.Witness]string{}
	for _, w := range history.Witnesses() {
		gaps[w] = "the last line is torn"
	}
	for n := range all {
		if got := judged(all[:n], gaps); violated(got) != "" {
			t.Fatalf("cut behind event %d: %s violated", n, violated(got))
		}
	}
}

func TestCallsWaitForPaydbOnlyAsLongAsItSpeaks(t *testing.T) {
	w := bank()
	j := NewJudge(verdict.Settings{})
	for i := range w.events {
		if e := &w.events[i]; e.W == history.Wiretap {
			j.Observe(e)
		}
	}
	if n := j.Counts().Operations[string(contract.OpClaim)]; n != 0 {
		t.Errorf("%d claims were judged before anybody could know whose payouts they were about", n)
	}
	j.Observe(&history.Event{W: history.PayDB, Op: history.OpWatermark, Covers: w.clock})
	if n := j.Counts().Operations[string(contract.OpClaim)]; n != 2 {
		t.Errorf("%d claims were judged after paydb had passed them, want 2", n)
	}
}
