package invariant

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// payment is payment-resource's judgement in the order of the contract: replay, fence, claim token, state, funds.
func (w *world) payment(r *request) answer {
	p := w.payouts[r.Payout]
	a := w.accounts[p.account]
	replayKey := fmt.Sprint(r.Op, r.Payout, r.Token)
	if stored, ok := w.stored[replayKey]; ok {
		return stored
	}
	if !w.paymentOff && a.fence >= r.Token {
		return w.fenced(r, a.fence, "account")
	}
	ans := w.transition(r, p, a)
	if ans.status == 200 || r.Op == contract.OpClaim && ans.code == contract.InsufficientFunds {
		w.stored[replayKey] = ans
	}
	return ans
}

func (w *world) fenced(r *request, highest int64, resource string) answer {
	return answer{status: 409, code: contract.FencedOut, highest: highest,
		res: fmt.Sprintf(`{"code":"FENCED_OUT","details":{"presentedToken":%d,"highestToken":%d,"resourceType":%q}}`, r.Token, highest, resource)}
}

func (w *world) transition(r *request, p *worldPayout, a *worldAccount) answer {
	refuse := answer{status: 409, code: contract.PayoutNotClaimable, res: `{"code":"PAYOUT_NOT_CLAIMABLE"}`}
	ok := answer{status: 200, res: "{}"}
	before, beforeAccount := w.payoutRow(p), w.accountRow(a)
	update := func() {
		w.commit(history.Change{Table: "payout", Kind: history.Update, Old: before, New: w.payoutRow(p)})
	}
	claimed := func(evidence ...history.Change) { // claims and resolves raise the fence and stamp the payout
		a.fence, p.token, p.by = r.Token-1, r.Token, string(r.Proc)
		w.commit(append(evidence, history.Change{Table: "account", Kind: history.Update, Old: beforeAccount, New: w.accountRow(a)},
			history.Change{Table: "payout", Kind: history.Update, Old: before, New: w.payoutRow(p)})...)
	}
	mine := w.paymentOff || p.token == r.Token
	switch {
	case r.Op == contract.OpClaim && p.state == contract.Pending:
		if w.inFlight(p) {
			return refuse
		}
		p.attempts++
		if p.state = contract.Claimed; w.available(a) < 0 {
			p.state, ok = contract.Failed, answer{status: 422, code: contract.InsufficientFunds}
		}
		claimed()
	case r.Op == contract.OpClaim && (p.state == contract.Claimed || p.state == contract.RailSubmitted || p.state == contract.RailAcked):
		p.attempts++
		claimed()
	case r.Op == contract.OpResolve && p.state == contract.RailAmbiguous:
		found := "ABSENT"
		if p.state = contract.Failed; w.attempts[p.id] != nil && w.attempts[p.id].moved {
			p.state, found = contract.RailAcked, "ACKED"
		}
		claimed(history.Change{Table: "payout_resolution", Kind: history.Insert, New: row{"payout_id": p.id, "outcome": found, "token": itoa(r.Token)}})
	case r.Op == contract.OpSubmitted && mine && p.state == contract.Claimed:
		p.state = contract.RailSubmitted
		update()
	case r.Op == contract.OpOutcome && mine && p.state == contract.RailSubmitted:
		p.state = map[contract.Outcome]contract.State{"": contract.RailAcked, contract.OutcomeAcked: contract.RailAcked, contract.OutcomeRejected: contract.Failed, contract.OutcomeTimeout: contract.RailAmbiguous}[r.reports]
		update()
	case r.Op == contract.OpPost && !w.paymentOff && p.state == contract.Posted:
		ok.res = w.entries(p)
	case r.Op == contract.OpPost && (p.state == contract.RailAcked && (mine || p.token < r.Token) || p.state == contract.Posted && w.paymentOff):
		w.post(r, p, a)
		ok.res = w.entries(p)
	default:
		return refuse
	}
	return ok
}

// post writes the double entry. With fencing off it is written again, but for the legs, which are there already.
func (w *world) post(r *request, p *worldPayout, a *worldAccount) {
	clearing, debit, credit := w.accounts[cmp.Or(w.payee, "clearing")], "DEBIT", "CREDIT"
	sign := int64(1)
	if w.swapped {
		debit, credit, sign = credit, debit, -1
	}
	var cs []history.Change
	change := func(x *worldAccount, amount, fence int64) {
		old := w.accountRow(x)
		x.balance, x.fence = x.balance+amount, fence
		cs = append(cs, history.Change{Table: "account", Kind: history.Update, Old: old, New: w.accountRow(x)})
	}
	leg := func(account, direction string) {
		cs = append(cs, history.Change{Table: "ledger_entry", Kind: history.Insert, New: row{"entry_id": account + p.id, "payout_id": p.id, "account_id": account,
			"direction": direction, "amount_minor": itoa(p.amount), "fence": itoa(r.Token)}})
	}
	if !w.bookless {
		change(a, -sign*p.amount, r.Token)
		if !p.posted {
			leg(a.id, debit)
			leg(clearing.id, credit)
		}
		change(clearing, sign*p.amount, 0)
	}
	if !p.posted {
		p.postedFence = r.Token
	}
	old := w.payoutRow(p)
	p.state, p.posted = contract.Posted, true
	w.commit(append(cs, history.Change{Table: "payout", Kind: history.Update, Old: old, New: w.payoutRow(p)})...)
}

func (w *world) entries(p *worldPayout) string {
	type entry struct {
		Fence int64 `json:"fence"`
	}
	text, _ := json.Marshal(map[string][]entry{"entries": {{p.postedFence}, {p.postedFence}}})
	return string(text)
}

func (w *world) ofAccount(account string, states ...contract.State) (n int, sum int64) {
	for _, p := range w.payouts {
		if p.account == account && slices.Contains(states, p.state) {
			n, sum = n+1, sum+p.amount
		}
	}
	return n, sum
}

func (w *world) inFlight(p *worldPayout) bool {
	n, _ := w.ofAccount(p.account, contract.Claimed, contract.RailSubmitted, contract.RailAcked)
	return n > 0
}

func (w *world) available(a *worldAccount) int64 {
	_, reserved := w.ofAccount(a.id, contract.Claimed, contract.RailSubmitted, contract.RailAcked, contract.RailAmbiguous)
	return a.balance - reserved
}

// submitIntent is rail-proxy's first transaction (C1 1.6 d): raise the mark, then insert the attempt.
func (w *world) submitIntent(r *request) {
	a := w.accounts[r.Account]
	if !w.railOff && a.mark >= r.Token {
		w.commit(w.attemptInsert(&attempt{id: "refused" + itoa(r.Call), payout: r.Payout, token: r.Token, outcome: contract.OutcomeFenced}))
		r.answer = w.fenced(r, a.mark, "rail")
		return
	}
	mark := history.Change{Table: "rail_high_water", Kind: history.Insert, New: row{"account_id": a.id, "highest_token": itoa(r.Token)}}
	if a.mark > 0 {
		mark.Kind, mark.Old = history.Update, row{"account_id": a.id, "highest_token": itoa(a.mark)}
	}
	a.mark = r.Token
	there := w.attempts[r.Payout]
	if there != nil && !w.railOff {
		w.commit(mark)
		r.answer = answer{status: 409, code: contract.DuplicateSubmission, outcome: there.outcome}
		return
	}
	r.intent = &attempt{id: "submission" + itoa(r.Call), payout: r.Payout, token: r.Token}
	if there != nil { // with fencing off the index does not let a second one in, and it is forwarded all the same
		w.commit(mark)
		return
	}
	w.attempts[r.Payout] = r.intent
	w.commit(mark, w.attemptInsert(r.intent))
}

// forwardToRail forwards what was recorded: the rail moves money or not, and the proxy learns the outcome.
func (w *world) forwardToRail(r *request, outcome contract.Outcome, moves bool) {
	if r.intent == nil {
		return
	}
	if moves {
		w.move(r.Payout, w.payouts[r.Payout].amount)
	}
	if w.attempts[r.Payout] == r.intent {
		old := w.attemptRow(r.intent)
		r.intent.outcome, r.intent.moved = outcome, moves
		w.commit(history.Change{Table: "rail_submission", Kind: history.Update, Old: old, New: w.attemptRow(r.intent)})
	}
	switch outcome {
	case contract.OutcomeAcked:
		r.answer = answer{status: 200, outcome: outcome}
	case contract.OutcomeRejected:
		r.answer = answer{status: 422, code: contract.Rejected, outcome: outcome}
	default:
		r.answer = answer{status: 409, code: contract.CodeRailAmbiguous}
	}
	r.intent = nil
}

func (w *world) move(payout string, amount int64) {
	w.money++
	w.record(history.Event{W: history.Journal, Type: contract.Info, Proc: contract.RailStub, Op: history.OpMoney, Payout: payout,
		Amount: amount, Currency: "EUR", RailRef: fmt.Sprintf("rail-%d", w.money)})
}

func (w *world) attemptRow(a *attempt) row {
	r := row{"submission_id": a.id, "payout_id": a.payout, "presented_token": itoa(a.token)}
	if a.outcome != "" {
		r["outcome"] = string(a.outcome)
	}
	return r
}

func (w *world) attemptInsert(a *attempt) history.Change {
	return history.Change{Table: "rail_submission", Kind: history.Insert, New: w.attemptRow(a)}
}
