package invariant

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

func TestFencePoints(t *testing.T) {
	check(t, []wrong{
		{"an account's fence goes down", func(w *world) {
			stall(w, contract.OpPost)
			a := w.accounts["alice"]
			old := w.accountRow(a)
			a.fence = 12
			w.commit(history.Change{Table: "account", Kind: history.Update, Old: old, New: w.accountRow(a)})
		}, "INV-05", map[string]string{"INV-05": "the fence of account alice went down from 46 to 12"}},
		{"a rail mark goes down", func(w *world) {
			stall(w, contract.OpPost)
			w.commit(history.Change{Table: "rail_high_water", Kind: history.Update, Old: row{"account_id": "alice", "highest_token": "44"}, New: row{"account_id": "alice", "highest_token": "12"}})
		}, "INV-05", map[string]string{"INV-05": "the rail mark of account alice went down from 44 to 12"}},
		{"an attempt is recorded under a token that the mark had reached", func(w *world) {
			stall(w, contract.OpSubmit)
			w.commit(w.attemptInsert(&attempt{id: "late", payout: "p3", token: 46}))
		}, "INV-05", map[string]string{"INV-05": "rail-proxy let a submission of payout p3 pass with token 46, although the mark of account alice stood at 46"}},
		{"a refusal becomes an attempt afterwards", func(w *world) {
			stall(w, contract.OpSubmit)
			late := &attempt{id: "late", payout: "p3", token: 44, outcome: contract.OutcomeFenced}
			w.commit(w.attemptInsert(late))
			refused := w.attemptInsert(late).New
			late.outcome = contract.OutcomeTimeout
			w.commit(history.Change{Table: "rail_submission", Kind: history.Update, Old: refused, New: w.attemptInsert(late).New})
		}, "INV-05", map[string]string{"INV-05": "rail-proxy let a submission of payout p3 pass with token 44, although the mark of account alice stood at 46"}},
		{"a post passes a fence that stands at its own token", func(w *world) {
			stall(w, contract.OpPost)
			p := w.payouts["p3"]
			w.attempts["p3"] = &attempt{moved: true}
			w.move("p3", 100)
			p.state, p.token = contract.RailAcked, 46
			w.post(&request{Event: history.Event{Op: contract.OpPost, Token: 46}}, p, w.accounts["alice"])
		}, "INV-05", map[string]string{"INV-05": "payment-resource let a post pass with token 46, although the fence of account alice stood at 46"}},
		{"a stale request is refused for its state instead of its token", func(w *world) {
			t1 := stall(w, contract.OpSubmitted)
			r := w.ask("executor-1", contract.OpSubmitted, "p2", t1)
			r.answer = answer{status: 409, code: contract.PayoutNotClaimable}
			w.reply(r)
		}, "INV-05", map[string]string{"INV-05": "executor-1's submitted of payout p2 with token 44 was answered 409 PAYOUT_NOT_CLAIMABLE instead of FENCED_OUT, although 46 had been accepted"}},
		{"a stale submission takes effect at the rail", func(w *world) {
			t1 := stall(w, contract.OpSubmit)
			r := w.ask("executor-1", contract.OpSubmit, "p2", t1)
			r.answer = answer{status: 409, code: contract.DuplicateSubmission}
			w.reply(r)
		}, "INV-05", map[string]string{"INV-05": "executor-1's submit of payout p2 with token 44 took effect, although 46 had been accepted there"}},
	})
}

func TestReplaysAndHigherTokensThatFindTheWorkDoneAreNoViolations(t *testing.T) {
	w := bank()
	t1 := w.acquire("executor-1", "alice")
	w.do("executor-1", contract.OpClaim, "p2", t1)
	w.do("executor-1", contract.OpSubmitted, "p2", t1)
	w.do("executor-1", contract.OpSubmit, "p2", t1)
	w.do("executor-1", contract.OpOutcome, "p2", t1)
	t2 := w.acquire("executor-2", "alice")
	w.do("executor-2", contract.OpClaim, "p2", t2)
	w.do("executor-2", contract.OpPost, "p2", t2)
	w.do("executor-1", contract.OpClaim, "p2", t1)   // stored
	w.do("executor-1", contract.OpOutcome, "p2", t1) // stored
	t3, t4 := w.acquire("executor-3", "alice"), w.acquire("executor-4", "alice")
	w.do("executor-4", contract.OpPost, "p2", t4) // posted already: answered, nothing written
	if a := w.do("executor-3", contract.OpClaim, "p3", t3); a.status != 200 {
		t.Fatalf("the claim under a token that nothing shut out was answered %d", a.status)
	}
	if got := judged(w.events, nil); violated(got) != "" {
		t.Errorf("violated: %s: %s", violated(got), got["INV-05"].Reason)
	}
}
