package invariant

import (
	"slices"
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// A witness that says that it saw everything may be wrong. What is left of its evidence often shows it.

func TestACommitThatTheLogLacksIsAGapAndNoViolation(t *testing.T) {
	all := healthy().events
	seen := 0
	for n := range all {
		if all[n].W != history.PayDB || all[n].Op != history.OpCommit {
			continue
		}
		got := judged(slices.Delete(slices.Clone(all), n, n+1), nil)
		if v := violated(got); v != "" {
			t.Errorf("without the commit %d: %s violated: %s", n, v, got[v[:6]].Reason)
		}
		if got["INV-03"].Status == verdict.Inconclusive {
			seen++
		}
	}
	if seen < 10 {
		t.Errorf("only %d missing commits were missed", seen)
	}
}

func TestACallThatTheWiretapSawHalfIsAGap(t *testing.T) {
	all := healthy().events
	for n, e := range all {
		half := e.Stage == history.Forwarded || e.Stage == history.Answered
		if !half || !followed(e.Op) {
			continue
		}
		if e.Stage == history.Forwarded && answerTo(all, e.Call).Type != contract.OK {
			continue // without an effect that could be misplaced
		}
		got := judged(slices.Delete(slices.Clone(all), n, n+1), nil)
		for _, id := range []string{"INV-01", "INV-04", "INV-05"} {
			if s := got[id].Status; s != verdict.Inconclusive {
				t.Errorf("without the %s %s of call %d, %s is %s", e.Op, e.Stage, e.Call, id, s)
			}
		}
	}
}

func answerTo(events []history.Event, call int64) history.Event {
	for _, e := range events {
		if e.Call == call && e.Stage == history.Answered {
			return e
		}
	}
	return history.Event{}
}

func TestDeletingARowIsNoWayAroundAFence(t *testing.T) {
	check(t, []wrong{
		{"a rail mark is deleted", func(w *world) {
			stall(w, contract.OpPost)
			w.commit(history.Change{Table: "rail_high_water", Kind: history.Delete, Old: row{"account_id": "alice", "highest_token": "44"}})
		}, "INV-05", map[string]string{"INV-05": "the rail mark of account alice went down from 44 to 0"}},
		{"an account is deleted and made anew", func(w *world) {
			stall(w, contract.OpPost)
			a := w.accounts["alice"]
			gone := history.Change{Table: "account", Kind: history.Delete, Old: w.accountRow(a)}
			a.fence = 0
			w.commit(gone, history.Change{Table: "account", Kind: history.Insert, New: w.accountRow(a)})
		}, "INV-05", map[string]string{"INV-05": "the fence of account alice went down from 46 to 0"}},
	})
}

// That a file is cut off is the cause; that something lacks in it is what follows.
func TestWhereAFileIsCutOffThatIsTheReasonAndNotWhatLacksInIt(t *testing.T) {
	all := healthy().events
	told := 0
	for n := range all {
		if all[n].W != history.PayDB || all[n].Op != history.OpCommit {
			continue
		}
		without := slices.Delete(slices.Clone(all), n, n+1)
		if judged(without, nil)["INV-03"].Status != verdict.Inconclusive {
			continue
		}
		told++
		const why = "the file has no trailer: its recording broke off"
		if got := judged(without, map[history.Witness]string{history.PayDB: why})["INV-03"]; !strings.HasSuffix(got.Reason, why) {
			t.Errorf("without the commit %d: %s", n, got.Reason)
		}
	}
	if told == 0 {
		t.Error("no missing commit was missed")
	}
}
