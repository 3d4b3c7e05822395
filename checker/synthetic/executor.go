package synthetic

import (
	"cmp"
	"fmt"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// execute is an executor's main loop: look for open payouts, and work on up to so many accounts at once.
func (x *client) execute(t *task) {
	t.sleep(x.w.between(time.Millisecond, pollEvery))
	for !x.leaving {
		x.list(t, nil)
		for _, a := range x.w.shuffled() {
			if x.working < concurrency && !x.busy[a] {
				x.busy[a] = true
				x.working++
				x.w.spawn(x.proc, func(t *task) {
					x.workOn(t, a)
					delete(x.busy, a)
					x.working--
				})
			}
		}
		t.sleep(pollEvery)
	}
	for x.working > 0 {
		t.sleep(5 * time.Millisecond)
	}
	x.leave(t)
}

// shuffled are the accounts with open payouts, in any order.
func (w *world) shuffled() []*account {
	var out []*account
	seen := map[*account]bool{}
	for _, p := range w.open {
		if p.state != contract.RailAmbiguous && !p.account.plotted && !seen[p.account] {
			seen[p.account] = true
			out = append(out, p.account)
		}
	}
	w.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func (x *client) list(t *task, a *account) {
	e := history.Event{Op: contract.OpListPayouts}
	if a != nil {
		e.Account = a.id
	}
	x.call(t, contract.PaymentResource, e, "", x.w.payments.list)
}

// workOn takes the account's lock and its next payout, until there is none.
func (x *client) workOn(t *task, a *account) {
	for range 4 {
		l := x.acquire(t, a)
		if l == nil {
			return
		}
		x.keep(l)
		x.list(t, a)
		p := x.w.nextOf(a)
		went := p != nil && x.work(t, l, p)
		x.release(t, l)
		if !went || x.w.nextOf(a) == nil {
			return
		}
	}
}

// nextOf is the account's payout in flight, else its oldest pending one.
func (w *world) nextOf(a *account) *payout {
	var pending *payout
	for _, p := range w.open {
		switch {
		case p.account != a:
		case inFlight(p.state):
			return p
		case p.state == contract.Pending && pending == nil:
			pending = p
		}
	}
	return pending
}

// work brings a payout as far as it goes, and tells whether it came to its end.
func (x *client) work(t *task, l *lease, p *payout) bool {
	c := x.step(t, l, contract.OpClaim, p, fmt.Sprintf(`{"expectedState":%q}`, p.state))
	if c == nil || !c.ok() {
		return c != nil && c.Code == contract.InsufficientFunds
	}
	x.w.log(x.name, "payout_claimed", "payout claimed", "accountId", p.account.id, "ownerId", string(x.name), "payoutId", p.id, "state", string(p.state), "token", dec(l.token))
	if p.state == contract.Claimed {
		if c = x.step(t, l, contract.OpSubmitted, p, "{}"); c == nil || !c.ok() {
			return false
		}
	} else {
		x.look(t, p)
	}
	if p.state == contract.RailSubmitted && !x.bringToRail(t, l, p) {
		return false
	}
	if p.state != contract.RailAcked {
		return p.state.Terminal() || p.state == contract.RailAmbiguous
	}
	return x.post(t, l, p)
}

func (x *client) look(t *task, p *payout) {
	x.call(t, contract.PaymentResource, history.Event{Op: contract.OpGetPayout, Payout: p.id}, "", x.w.payments.read)
}

// bringToRail submits where there is no record, and reports what the record says.
func (x *client) bringToRail(t *task, l *lease, p *payout, how ...func(*call)) bool {
	record := p.attempt
	if record == nil {
		c := x.step(t, l, contract.OpSubmit, p, submission(p), how...)
		if c == nil || c.Status == 0 || c.Code == contract.FencedOut {
			return false
		}
		if record = p.attempt; record == nil {
			return false
		}
		x.w.log(x.name, "rail_submitted", "payout submitted", "accountId", p.account.id, "outcome", string(record.outcome), "ownerId", string(x.name),
			"payoutId", p.id, "submissionId", record.id, "token", dec(l.token))
	}
	return x.report(t, l, p, record)
}

func submission(p *payout) string {
	return fmt.Sprintf(`{"accountId":%q,"amountMinor":%d,"beneficiaryRef":"beneficiary-%s","currency":"EUR","payoutId":%q}`, p.account.id, p.amount, p.id, p.id)
}

func (x *client) report(t *task, l *lease, p *payout, record *attempt) bool {
	said := cmp.Or(record.outcome, contract.OutcomeTimeout)
	body := fmt.Sprintf(`{"outcome":%q,"submissionId":%q}`, said, record.id)
	if said == contract.OutcomeAcked {
		body = fmt.Sprintf(`{"outcome":%q,"railReference":%q,"submissionId":%q}`, said, record.reference, record.id)
	}
	c := x.step(t, l, contract.OpOutcome, p, body, func(c *call) { c.reported = said })
	return c != nil && c.ok()
}

func (x *client) post(t *task, l *lease, p *payout, how ...func(*call)) bool {
	reference, id := p.reference, ""
	if p.attempt != nil {
		reference, id = cmp.Or(reference, p.attempt.reference), p.attempt.id
	}
	c := x.step(t, l, contract.OpPost, p, fmt.Sprintf(`{"railOutcome":"ACKED","railReference":%q,"submissionId":%q}`, reference, id), how...)
	if c == nil || !c.ok() {
		return false
	}
	x.w.log(x.name, "payout_posted", "payout posted", "accountId", p.account.id, "ownerId", string(x.name), "payoutId", p.id, "submissionId", id, "token", dec(l.token))
	return true
}

// reconcile resolves what is ambiguous, once the settlement window has passed since it was seen first.
func (x *client) reconcile(t *task) {
	for !x.leaving {
		t.sleep(lookEvery)
		x.list(t, nil)
		var due []*payout
		for _, p := range x.w.open {
			switch {
			case p.state != contract.RailAmbiguous || p.account.plotted:
			case p.seen == 0:
				p.seen = x.w.now
			case x.w.now-p.seen > int64(settlement):
				due = append(due, p)
			}
		}
		for _, p := range due {
			x.lookUp(t, p)
			if l := x.acquire(t, p.account); l != nil {
				if x.covered(l) {
					x.resolve(t, l, p)
				}
				x.release(t, l)
			}
		}
	}
	x.leave(t)
}

func (x *client) lookUp(t *task, p *payout) {
	x.call(t, contract.RailStub, history.Event{Op: contract.OpLookup, Payout: p.id}, "", x.w.payments.list)
}

func (x *client) resolve(t *task, l *lease, p *payout, how ...func(*call)) *call {
	body := fmt.Sprintf(`{"resolution":"ABSENT","lookedUpAt":%q}`, rfc(x.w.now))
	if p.moved {
		body = fmt.Sprintf(`{"resolution":"ACKED","railReference":%q}`, p.transfer)
	}
	return x.protected(t, contract.OpResolve, p, l.token, body, how...)
}
