package invariant

import (
	"fmt"
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// Nobody wrote for a payout, so there is no more to show than the row before and after.
func TestMoneyThatNobodyPostedIsSeen(t *testing.T) {
	for _, gain := range []int64{7, -7} {
		w := bank()
		a := w.accounts["clearing"]
		old := w.accountRow(a)
		a.balance += gain
		w.commit(history.Change{Table: "account", Kind: history.Update, Old: old, New: w.accountRow(a)})
		if got := judged(w.events, nil)["INV-03"]; got.Found != 1 || !strings.Contains(got.Reason, fmt.Sprintf("account clearing holds %d", a.balance)) {
			t.Errorf("a gain of %d: %d found, %s", gain, got.Found, got.Reason)
		}
	}
}

// Whoever answers 500 has not said that nothing happened, whatever code it adds.
func TestARefusalThatIsNotDefiniteIsNoDangerMet(t *testing.T) {
	events := healthy().events
	for i := range events {
		if e := &events[i]; e.Code == contract.FencedOut {
			e.Status = 500
			e.Type, e.Outcome = contract.Completion(e.Op, e.Status, "")
		}
	}
	for counter, n := range judged(events, nil)["INV-05"].Danger {
		if strings.HasPrefix(counter, "stale_refused") && n != 0 {
			t.Errorf("%s is %d", counter, n)
		}
	}
}

func TestMoneyInAnotherCurrencyIsNotThePayouts(t *testing.T) {
	events := bank().events
	for i := range events {
		if e := &events[i]; e.W == history.Journal && e.Payout == "p1" {
			e.Currency = "JPY"
		}
	}
	if got := judged(events, nil)["INV-03"]; !strings.Contains(got.Reason, "payout p1 is POSTED, but the rail never moved its 100 minor units of EUR") {
		t.Errorf("INV-03 is %s: %s", got.Status, got.Reason)
	}
}

// The log may end before it says whose payout a request was about. What stands behind that request is judged all the same.
func TestWhatWaitsAtTheEndIsJudged(t *testing.T) {
	w := bank()
	w.record(history.Event{W: history.Wiretap, Type: contract.Invoke, Stage: history.Forwarded, Op: contract.OpClaim, Proc: "executor-1", Call: 9000, Payout: "unheard-of", Token: 40})
	token := w.acquire("executor-1", "alice")
	renewal := w.send(history.Event{Op: contract.OpRenew, Proc: "executor-1", Key: "payout:alice", Token: token})
	w.answerAcquire(renewal, token+1)
	if got := judged(w.events, nil)["INV-04"]; got.Status != verdict.Violated {
		t.Errorf("INV-04 is %s: %s", got.Status, got.Reason)
	}
}
