package invariant

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

func TestBalance(t *testing.T) {
	check(t, []wrong{
		{"an account is debited twice for one pair of legs", func(w *world) {
			w.paymentOff = true
			w.do("executor-1", contract.OpPost, "p2", stall(w, contract.OpPost))
		}, "INV-01 INV-03 INV-05", map[string]string{"INV-03": "account alice holds 700 minor units, but it was opened with 1000 and its entries sum up to -200"}},
		{"a payout is posted twice, legs and all, so that the books balance", func(w *world) {
			w.paymentOff = true
			token := stall(w, contract.OpPost)
			w.payouts["p2"].posted = false // nothing says that the legs are there
			w.do("executor-1", contract.OpPost, "p2", token)
		}, "INV-01 INV-03 INV-05", map[string]string{"INV-03": "the legs of payout p2 take 200 minor units, and its amount is 100"}},
		{"the legs of a payout do not cancel out", func(w *world) {
			stall(w, contract.OpPost)
			w.commit(history.Change{Table: "ledger_entry", Kind: history.Insert, New: row{"payout_id": "p2", "account_id": "nobody", "direction": "CREDIT", "amount_minor": "5", "fence": "46"}})
		}, "INV-03", map[string]string{"INV-03": "the legs of payout p2 sum up to 5, not to 0"}},
		{"a payout is posted and the rail never moved its money", func(w *world) {
			postUnpaid(w, 0)
		}, "INV-03", map[string]string{"INV-03": "payout p2 is POSTED, but the rail never moved its 100 minor units of EUR"}},
		{"a payout is posted and the rail moved another amount", func(w *world) {
			postUnpaid(w, 99)
		}, "INV-03", map[string]string{"INV-03": "payout p2 is POSTED, but the rail never moved its 100 minor units of EUR"}},
		{"a payout failed and the rail moved its money", func(w *world) {
			t1 := w.acquire("executor-1", "alice")
			w.do("executor-1", contract.OpClaim, "p2", t1)
			w.do("executor-1", contract.OpSubmitted, "p2", t1)
			w.do("executor-1", contract.OpSubmit, "p2", t1)
			r := w.ask("executor-1", contract.OpOutcome, "p2", t1)
			r.reports = contract.OutcomeRejected
			w.complete(r)
		}, "INV-03", map[string]string{"INV-03": "payout p2 is FAILED, but the rail moved its 100 minor units of EUR (rail-3)"}},
	})
}

// postUnpaid posts p2 although the rail was never asked; it moves another amount instead, or nothing.
func postUnpaid(w *world, moved int64) {
	t1 := w.acquire("executor-1", "alice")
	w.do("executor-1", contract.OpClaim, "p2", t1)
	w.do("executor-1", contract.OpSubmitted, "p2", t1)
	if moved > 0 {
		w.move("p2", moved)
	}
	w.do("executor-1", contract.OpOutcome, "p2", t1)
	w.do("executor-1", contract.OpPost, "p2", t1)
}
