package synthetic

import (
	"fmt"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// forgetAfter is how long an ended payout is remembered for late requests.
const forgetAfter = 30 * time.Second

// fate is what the rail does with a transfer.
type fate int

const (
	accepts  fate = iota
	declines      // 402
	silent        // money moves, and no answer comes
	deaf          // nothing happens, and no answer comes
)

func (w *world) drawFate() fate {
	switch n := w.rng.IntN(1000); {
	case n < 12:
		return declines
	case n < 18:
		return silent
	case n < 24:
		return deaf
	}
	return accepts
}

// submit is R1. One transaction raises the mark and inserts the attempt; then it is forwarded once; then the outcome is
// recorded and answered.
func (s *payments) submit(c *call) {
	p := s.byID[c.Payout]
	if p == nil {
		c.refuse(400, contract.InvalidRequest, "no such payout", "")
		return
	}
	a := p.account
	if a.mark >= c.Token {
		id := s.w.id()
		at := stamp(s.w.now)
		s.commit(history.Change{Table: "rail_submission", Kind: history.Insert, New: row{"submission_id": id, "payout_id": p.id, "idempotency_key": "payout-" + p.id,
			"presented_token": dec(c.Token), "outcome": "FENCED", "submitted_at": at, "resolved_at": at}})
		s.w.count.RefusedRail++
		s.w.log(contract.RailProxy, "fenced_out", "stale token refused at the rail", "highestToken", dec(a.mark), "ownerId", c.Owner, "payoutId", p.id,
			"presentedToken", dec(c.Token), "resource", "rail", "resourceId", a.id)
		c.fencedOut(a.mark, "rail", a.id, fmt.Sprintf("token %d is not above %d, which has submitted for this account", c.Token, a.mark))
		return
	}
	mark := history.Change{Table: "rail_high_water", Kind: history.Insert}
	if a.markRow != nil {
		mark.Kind, mark.Old = history.Update, a.markRow
	}
	if a.mark = c.Token; c.instead != 0 {
		a.mark = c.instead
	}
	a.markRow = row{"account_id": a.id, "highest_token": dec(a.mark), "updated_at": stamp(s.w.now)}
	mark.New = a.markRow
	if there := p.attempt; there != nil && c.bug != SubmittedAgain {
		s.commit(mark)
		c.Outcome = contract.OutcomeDuplicate
		s.w.log(contract.RailProxy, "duplicate_rail_submission_attempted", "a submission that must not be forwarded", "accountId", a.id, "guard", "record",
			"ownerId", c.Owner, "payoutId", p.id, "presentedToken", dec(c.Token), "submissionId", there.id)
		c.refuse(409, contract.DuplicateSubmission, "the payout has been submitted already", there.details())
		return
	}
	try := &attempt{id: s.w.id(), token: c.Token}
	try.row = row{"submission_id": try.id, "payout_id": p.id, "idempotency_key": "payout-" + p.id, "presented_token": dec(c.Token), "submitted_at": stamp(s.w.now)}
	p.attempt = try
	s.commit(mark, history.Change{Table: "rail_submission", Kind: history.Insert, New: try.row})
	s.w.spawn(nil, func(t *task) { s.forward(t, c, p, try) })
}

func (a *attempt) details() string {
	d := fmt.Sprintf(`{"submissionId":%q,"presentedToken":%d`, a.id, a.token)
	if a.outcome != "" {
		d += fmt.Sprintf(`,"outcome":%q`, a.outcome)
	}
	if a.reference != "" {
		d += fmt.Sprintf(`,"railReference":%q`, a.reference)
	}
	return d + "}"
}

// forward is the rest of R1, on its own time.
func (s *payments) forward(t *task, c *call, p *payout, try *attempt) {
	w := s.w
	t.sleep(w.between(100*time.Microsecond, 600*time.Microsecond))
	switch {
	case c.bug == PostedUnpaid:
		try.outcome, try.reference = contract.OutcomeAcked, "rail-"+w.id()
	default:
		s.ask(t, p, try, c.bug)
	}
	old := try.row
	try.row = with(old, "outcome", string(try.outcome), "rail_reference", try.reference, "resolved_at", stamp(w.now))
	s.commit(history.Change{Table: "rail_submission", Kind: history.Update, Old: old, New: try.row})
	w.log(contract.RailProxy, "rail_submitted", "submission ended", "accountId", p.account.id, "outcome", string(try.outcome), "ownerId", c.Owner,
		"payoutId", p.id, "submissionId", try.id, "token", dec(c.Token), "railReference", try.reference)
	switch try.outcome {
	case contract.OutcomeAcked:
		c.answer(200, fmt.Sprintf(`{"submissionId":%q,"outcome":"ACKED","railReference":%q}`, try.id, try.reference))
	case contract.OutcomeRejected:
		c.refuse(422, contract.Rejected, "the rail has declined", try.details())
	default:
		c.refuse(409, contract.CodeRailAmbiguous, "the rail did not answer; whether money has moved is not known", try.details())
	}
}

// ask sends the transfer to the rail, once, and takes its answer.
func (s *payments) ask(t *task, p *payout, try *attempt, bug Violation) {
	w := s.w
	what := w.drawFate()
	if p.account.plotted {
		what = bug.fate()
	}
	x := w.send(history.Event{Proc: contract.RailProxy, Op: contract.OpTransfer, Link: link(contract.RailProxy, contract.RailStub), Payout: p.id},
		fmt.Sprintf(`{"clientRef":%q,"amountMinor":%d,"currency":"EUR"}`, p.id, p.amount), func(x *call) { s.transfer(x, p, what, bug) })
	x.wait(t)
	t.sleep(w.between(200*time.Microsecond, time.Millisecond))
	switch {
	case x.ok():
		try.outcome, try.reference = contract.OutcomeAcked, p.transfer
	case x.Status == 402:
		try.outcome = contract.OutcomeRejected
	default:
		try.outcome = contract.OutcomeTimeout
	}
}

// transfer is S1: every accepted call moves money.
func (s *payments) transfer(x *call, p *payout, what fate, bug Violation) {
	w := s.w
	w.after(railLatency+w.between(0, 2*time.Millisecond), func() {
		if what == accepts || what == silent || bug == FailedPaid {
			s.pay(p)
		}
		if bug == PaidTwice {
			s.pay(p)
		}
		switch what {
		case accepts:
			x.answer(200, fmt.Sprintf(`{"railReference":%q,"acceptedAt":%q}`, p.transfer, rfc(w.now)))
		case declines:
			x.Code = "DECLINED"
			x.answer(402, fmt.Sprintf(`{"code":"DECLINED","message":"declined","retrySafe":false,"traceId":%q}`, w.id()))
		default:
			w.after(railTimeout-railLatency-10*time.Millisecond, func() {
				x.cut = true
				x.answer(0, "")
			})
		}
	})
}

// pay moves the money: a line in the journal.
func (s *payments) pay(p *payout) {
	p.transfer, p.moved = "rail-"+s.w.id(), true
	s.w.see(history.Journal, history.Event{Type: contract.OK, Proc: contract.RailStub, Op: history.OpMoney, Payout: p.id, Amount: p.amount, Currency: "EUR", RailRef: p.transfer})
}

// read is P4.
func (s *payments) read(c *call) {
	p := s.byID[c.Payout]
	if p == nil {
		c.refuse(404, contract.NotFound, "no such payout", "")
		return
	}
	c.Account = p.account.id
	submissions := ""
	if p.attempt != nil {
		submissions = p.attempt.details()
	}
	c.answer(200, fmt.Sprintf(`{"payoutId":%q,"accountId":%q,"amountMinor":%d,"currency":"EUR","state":%q,"claimedBy":%q,"claimToken":%d,"attemptCount":%d,"createdAt":%q,"idempotencyKey":%q,"submissions":[%s]}`,
		p.id, p.account.id, p.amount, p.state, p.by, p.token, p.attempts, rfc(p.created), "payout-"+p.id, submissions))
}

// list is P1 and S2: what they answer is not in the history.
func (s *payments) list(c *call) { c.answer(200, "") }

func link(from, to contract.Process) string { return contract.Link{From: from, To: to}.String() }
