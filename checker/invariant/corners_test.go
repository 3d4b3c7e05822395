package invariant

import (
	"fmt"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// fine checks that nothing is violated, and how many things each named invariant left open.
func fine(t *testing.T, events []history.Event, unresolved map[string]int64) {
	t.Helper()
	got := judged(events, nil)
	for _, id := range judgedIDs {
		if inv := got[id]; inv.Found != 0 || inv.Unresolved != unresolved[id] {
			t.Errorf("%s: found %d, unresolved %d, want 0 and %d: %s", id, inv.Found, inv.Unresolved, unresolved[id], inv.Reason)
		}
	}
}

func TestATransitionMadeTwiceHasNoKnownAuthor(t *testing.T) {
	w := bank()
	t1 := w.acquire("executor-1", "alice")
	w.do("executor-1", contract.OpClaim, "p2", t1)
	w.do("executor-1", contract.OpSubmitted, "p2", t1)
	p := w.payouts["p2"]
	old := w.payoutRow(p)
	old["state"] = string(contract.Claimed)
	w.commit(history.Change{Table: "payout", Kind: history.Update, Old: old, New: w.payoutRow(p)})
	fine(t, w.events, map[string]int64{"INV-01": 1})
}

// The write in the middle has two possible authors, so its neighbours are compared with each other.
func TestAnUnknownWriteHidesNoStepDownAroundIt(t *testing.T) {
	w := bank()
	t1, t2 := w.acquire("executor-1", "alice"), w.acquire("executor-2", "alice")
	w.do("executor-2", contract.OpClaim, "p2", t2)
	w.loseAnswer(w.ask("executor-1", contract.OpSubmitted, "p2", t1))
	mine := w.ask("executor-2", contract.OpSubmitted, "p2", t2)
	w.execute(mine)
	w.loseAnswer(mine)
	w.paymentOff = true
	late := w.ask("executor-1", contract.OpClaim, "p2", t1)
	w.execute(late)
	w.loseAnswer(late)
	if got := judged(w.events, nil)["INV-01"]; got.Found != 1 || got.Unresolved != 1 {
		t.Errorf("INV-01 found %d and left %d open, want 1 and 1", got.Found, got.Unresolved)
	}
}

func TestARequestThatWasNeverAnsweredMayBeTheAuthor(t *testing.T) {
	w := bank()
	t1 := w.acquire("executor-1", "alice")
	w.do("executor-1", contract.OpClaim, "p2", t1)
	open := w.ask("executor-1", contract.OpSubmitted, "p2", t1)
	t2 := w.acquire("executor-2", "alice")
	w.do("executor-2", contract.OpClaim, "p2", t2)
	w.paymentOff = true
	w.execute(open)
	if got := judged(w.events, nil); violated(got) != "INV-01" {
		t.Errorf("violated: %q, want INV-01", violated(got))
	}
}

func TestAMalformedRequestIsJudgedBeforeTheFence(t *testing.T) {
	for _, a := range []answer{{status: 400, code: contract.InvalidRequest}, {status: 404, code: contract.NotFound}, {status: 503, code: contract.StoreUnavailable}, {}} {
		w := bank()
		t1 := stall(w, contract.OpSubmitted)
		r := w.ask("executor-1", contract.OpSubmitted, "p2", t1)
		r.answer = a
		w.reply(r)
		s := w.ask("executor-1", contract.OpSubmit, "p2", t1)
		if s.answer = a; a.status == 503 {
			s.answer.code = contract.RailUnavailable
		}
		w.reply(s)
		fine(t, w.events, nil)
	}
}

// Only the first of two equal requests can have an effect, so the second is aside; a first one that was refused is none.
func TestARefusedRequestIsNotWhatALaterOneReplays(t *testing.T) {
	w := bank()
	t1, t2 := w.acquire("executor-1", "alice"), w.acquire("executor-2", "alice")
	w.do("executor-2", contract.OpClaim, "p2", t2)
	w.do("executor-1", contract.OpClaim, "p2", t1)
	w.paymentOff = true
	w.do("executor-1", contract.OpClaim, "p2", t1)
	if v := violated(judged(w.events, nil)); v != "INV-01 INV-05" {
		t.Errorf("violated: %q, want INV-01 INV-05", v)
	}
	w.do("executor-1", contract.OpClaim, "p2", t1)
	if got := judged(w.events, nil)["INV-01"].Found; got != 2 {
		t.Errorf("%d violations of INV-01, want 2: one commit, one answer, and a replay aside", got)
	}
}

func TestWhatMovesOnAClearingAccountIsNobodysWrite(t *testing.T) {
	w := bank()
	a := w.accounts["clearing"]
	old := w.accountRow(a)
	a.balance -= 10
	w.commit(history.Change{Table: "account", Kind: history.Update, Old: old, New: w.accountRow(a)})
	got := judged(w.events, nil)
	if v := violated(got); v != "INV-03" || got["INV-01"].Unresolved != 0 {
		t.Errorf("violated: %q with %d writes unresolved, want INV-03 and none", v, got["INV-01"].Unresolved)
	}
}

func TestAnAccountThatWasThereBeforeTheWitnessOpensWithWhatItHeld(t *testing.T) {
	w := bank()
	stall(w, contract.OpPost)
	events := w.events[:0:0]
	for _, e := range w.events {
		if len(e.Changes) == 0 || e.Changes[0].Table != "account" || e.Changes[0].Kind != history.Insert {
			events = append(events, e)
		}
	}
	fine(t, events, nil)
}

// The log lost the second post of alice's account; what follows cannot be added up any more.
func TestSumsBehindAHoleInTheLogAreNotJudged(t *testing.T) {
	w := bank()
	n := len(w.events)
	w.pay("executor-1", "p2")
	var events []history.Event
	for i, e := range w.events {
		if i == n {
			events = append(events, history.Event{I: e.I, W: history.PayDB, Op: history.OpLostPlace, Msg: "the slot is gone"})
		}
		if i < n || e.W != history.PayDB {
			events = append(events, e)
		}
	}
	rest := len(w.events)
	w.pay("executor-1", "p3")
	got := judged(append(events, w.events[rest:]...), nil)
	if v := violated(got); v != "" {
		t.Errorf("violated: %s: %s", v, got["INV-03"].Reason)
	}
}

func TestAReplayOfARequestInAHoleIsNoViolation(t *testing.T) {
	w := bank()
	n := len(w.events)
	t1 := w.acquire("executor-1", "alice")
	w.do("executor-1", contract.OpClaim, "p2", t1)
	rest := len(w.events)
	t2 := w.acquire("executor-2", "alice")
	w.do("executor-2", contract.OpClaim, "p2", t2)
	w.do("executor-1", contract.OpClaim, "p2", t1)
	events := append([]history.Event{}, w.events[:n]...)
	events = append(events, history.Event{W: history.Wiretap, Op: history.OpLostPlace, Msg: "broken"})
	for i := n; i < len(w.events); i++ {
		if i >= rest || w.events[i].W != history.Wiretap {
			events = append(events, w.events[i])
		}
	}
	if v := violated(judged(events, nil)); v != "" {
		t.Errorf("violated: %s", v)
	}
}

// One payout is claimed under more tokens than are remembered of it; then the first claim is sent again.
func TestAReplayOlderThanTheMemoryOfItsPayoutIsLeftOpen(t *testing.T) {
	w := bank()
	first := w.acquire("executor-1", "alice")
	w.do("executor-1", contract.OpClaim, "p2", first)
	for range maxPrior {
		w.do("executor-2", contract.OpClaim, "p2", w.acquire("executor-2", "alice"))
	}
	w.do("executor-1", contract.OpClaim, "p2", first)
	fine(t, w.events, map[string]int64{"INV-01": 1, "INV-05": 1})
}

func TestRenewalsAreNoGrants(t *testing.T) {
	w := bank()
	w.acquire("executor-1", "alice")
	w.renew("alice")
	fine(t, w.events, nil)
}

func TestMissingGrantsAreToldWhenTheLogHasPassedThem(t *testing.T) {
	w := bank()
	w.answerAcquire(w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice"}), 50)
	late := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:bob"})
	w.grant(0, "executor-1", "bob", 51)
	w.watermarks()
	w.answerAcquire(late, 51)
	w.answerAcquire(w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-2", Key: "payout:bob"}), 53)
	j := NewJudge(verdict.Settings{})
	for i := range w.events {
		j.Observe(&w.events[i])
	}
	if n := j.folds[3].Verdict().Found; n != 1 {
		t.Errorf("%d violations while the run goes on, want 1: the log has not passed the last answer", n)
	}
	if id, v, ok := j.First(); !ok || id != "INV-04" || v.Key != "payout:alice" {
		t.Errorf("the first violation is %s of %+v", id, v)
	}
	if got := j.Conclude(nil)[3]; got.Found != 2 {
		t.Errorf("%d violations at the end, want 2", got.Found)
	}
}

// Grants whose answers nobody saw are remembered up to a bound; an answer to an older one proves nothing.
func TestAnAnswerOlderThanTheMemoryOfItsKeyIsLeftOpen(t *testing.T) {
	w := bank()
	r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice"})
	for token := range int64(maxLogged + 1) {
		w.grant(0, fmt.Sprintf("executor-%d", token%6+1), "alice", 100+token)
	}
	w.answerAcquire(r, 100)
	w.watermarks()
	fine(t, w.events, map[string]int64{"INV-04": 1})
}

func TestCallsDoNotWaitForAMutePaydbForEver(t *testing.T) {
	w := bank()
	j := NewJudge(verdict.Settings{})
	for range maxHeld {
		w.do("executor-1", contract.OpClaim, "p1", 41)
	}
	for i := range w.events {
		if e := &w.events[i]; e.W == history.Wiretap {
			j.Observe(e)
		}
	}
	if n := len(j.held); n > maxHeld {
		t.Errorf("%d events wait for a paydb that says nothing", n)
	}
	if v := j.Conclude(map[history.Witness]string{history.PayDB: "the file is missing"})[0]; v.Status != verdict.Inconclusive || v.Unresolved == 0 {
		t.Errorf("INV-01 is %s with %d unresolved, want inconclusive with some", v.Status, v.Unresolved)
	}
}
