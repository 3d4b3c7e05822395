package invariant

import (
	"slices"
	"strings"
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
		}, "INV-01 INV-03 INV-05", map[string]string{"INV-03": "payout p2 of 100 minor units is POSTED, and its legs take 200 from its account"}},
		{"a payout is posted and nothing is booked", func(w *world) {
			w.bookless = true
			w.pay("executor-1", "p2")
		}, "INV-03", map[string]string{"INV-03": "payout p2 of 100 minor units is POSTED, and its legs take 0 from its account"}},
		{"a payout pays another customer", func(w *world) {
			w.payee = "bob"
			w.pay("executor-1", "p2")
		}, "INV-03 INV-05", map[string]string{"INV-03": "the legs of payout p2 pay customer's account bob"}},
		{"a payout pays him who is to be taken from", func(w *world) {
			w.swapped = true
			w.pay("executor-1", "p2")
		}, "INV-03", map[string]string{"INV-03": "payout p2 of 100 minor units is POSTED, and its legs take 0 from its account"}},
		{"a payout is booked before it is posted", func(w *world) {
			token := w.acquire("executor-1", "alice")
			for _, op := range []contract.Op{contract.OpClaim, contract.OpSubmitted, contract.OpSubmit, contract.OpOutcome} {
				w.do("executor-1", op, "p2", token)
			}
			a, c := w.accounts["alice"], w.accounts["clearing"]
			was, wasClearing := w.accountRow(a), w.accountRow(c)
			a.balance, a.fence, c.balance = a.balance-100, token, c.balance+100
			leg := func(account, direction string) history.Change {
				return history.Change{Table: "ledger_entry", Kind: history.Insert, New: row{"payout_id": "p2", "account_id": account, "direction": direction, "amount_minor": "100", "fence": itoa(a.fence)}}
			}
			w.commit(history.Change{Table: "account", Kind: history.Update, Old: was, New: w.accountRow(a)}, leg("alice", "DEBIT"), leg("clearing", "CREDIT"),
				history.Change{Table: "account", Kind: history.Update, Old: wasClearing, New: w.accountRow(c)})
		}, "INV-03", map[string]string{"INV-03": "payout p2 of 100 minor units is RAIL_ACKED, and its legs take 100 from its account"}},
		{"the rail moves money for nobody's payout", func(w *world) {
			w.move("5f0c", 7)
		}, "INV-03", map[string]string{"INV-03": "the rail moved 7 minor units of EUR for client reference 5f0c (rail-3), which is no payout's"}},
		{"a payout failed and the rail moved another amount for it", func(w *world) {
			t1 := w.acquire("executor-1", "alice")
			w.do("executor-1", contract.OpClaim, "p2", t1)
			w.do("executor-1", contract.OpSubmitted, "p2", t1)
			w.move("p2", 99)
			r := w.ask("executor-1", contract.OpOutcome, "p2", t1)
			r.reports = contract.OutcomeRejected
			w.complete(r)
		}, "INV-03", map[string]string{"INV-03": "payout p2 is FAILED, but the rail moved 99 minor units of EUR for it (rail-3)"}},
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
		}, "INV-03", map[string]string{"INV-03": "payout p2 is FAILED, but the rail moved 100 minor units of EUR for it (rail-3)"}},
	})
}

// A leg that is taken away pays nobody.
func TestWhoseLegsPayACustomerIsToldByThoseThatAreThere(t *testing.T) {
	w := bank()
	leg := func(payout string) row {
		return row{"entry_id": "shop" + payout, "payout_id": payout, "account_id": "shop", "direction": "CREDIT", "amount_minor": "5", "fence": "44"}
	}
	w.commit(history.Change{Table: "ledger_entry", Kind: history.Insert, New: leg("p2")})
	w.commit(history.Change{Table: "ledger_entry", Kind: history.Insert, New: leg("p3")})
	w.commit(history.Change{Table: "ledger_entry", Kind: history.Delete, Old: leg("p2")})
	w.openAccount("shop", 5)
	w.order("s1", "shop", 5)
	var paid []string
	for _, v := range judged(w.events, nil)["INV-03"].Violations {
		if strings.HasSuffix(v.Sentence, "pay customer's account shop") {
			paid = append(paid, v.Sentence)
		}
	}
	if !slices.Equal(paid, []string{"the legs of payout p3 pay customer's account shop"}) {
		t.Errorf("it is told that %q", paid)
	}
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
