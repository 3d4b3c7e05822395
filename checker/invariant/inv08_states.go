// INV-08: payouts only ever make the transitions of the contract, and unknown money is never made known without evidence.

package invariant

import (
	"fmt"
	"slices"
	"strconv"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// states judges every committed change of a payout's row by the contract's table. All of it stands in one database's
// log, so that order is the order of commits: what a transition needs (a recorded REJECTED, the funds, the row of
// evidence) must stand before it or in the same commit.
type states struct {
	findings
	payouts  map[*payout]*payoutState
	accounts map[*account]*reserve

	takeovers, refused, resolved, declined, unfunded int64
}

// payoutState is where a payout stands, and the commits that prove it.
type payoutState struct {
	state    contract.State
	token    int64      // claim token
	last     commitMark // of its last change
	rejected commitMark // of its recorded REJECTED
}

// reserve is what an account's payouts have a claim to.
type reserve struct {
	currency string
	amount   int64                // of payouts CLAIMED, RAIL_SUBMITTED, RAIL_ACKED and RAIL_AMBIGUOUS
	inFlight map[*payout]struct{} // payouts CLAIMED, RAIL_SUBMITTED and RAIL_ACKED
}

func newStates(b *book, t *tally) *states {
	return &states{
		findings: findings{id: "INV-08", guarantee: "Payouts only make the transitions of the contract: terminal states stay, RAIL_AMBIGUOUS is left only with a row of evidence, and a submitted payout fails only when the rail's REJECTED is on record.", book: b, tally: t},
		payouts:  map[*payout]*payoutState{}, accounts: map[*account]*reserve{},
	}
}

func (f *states) RestsOn() []history.Witness { return []history.Witness{history.PayDB} }

func (f *states) Observe(e *history.Event) {
	f.explain(e)
	switch {
	case e.W == history.PayDB && e.Op == history.OpCommit && !f.book.lost[history.PayDB]:
		f.commit(&f.book.txn, e)
	case e.W == history.Wiretap && e.Stage == history.Answered && e.Code == contract.PayoutNotClaimable:
		f.refused++
	}
}

func (f *states) commit(t *txn, e *history.Event) {
	for i := range t.attempts {
		if a := &t.attempts[i]; a.now == contract.OutcomeRejected {
			f.of(a.payout).rejected = markOf(e)
		}
	}
	for i := range e.Changes {
		switch c := &e.Changes[i]; {
		case c.Table == "account" && c.New != nil:
			f.account(f.book.account(c.New["account_id"])).currency = c.New["currency"]
		case c.Table == "payout" && c.Kind == history.Delete:
			f.deleted(f.book.payout(c.Old["payout_id"]), e)
		}
	}
	for i := range t.payouts {
		c := &t.payouts[i]
		s := f.of(c.payout)
		if s.state == "" && !c.insert {
			s.state = c.from // it was there before the witness came
			f.reserve(c.payout, "", c.from)
		}
		if e.Msg != snapshot {
			f.checked++
			f.judge(c, s, e)
		}
		f.reserve(c.payout, s.state, c.to)
		s.state, s.token, s.last = c.to, c.token1, markOf(e)
	}
}

func (f *states) of(p *payout) *payoutState {
	s := f.payouts[p]
	if s == nil {
		s = &payoutState{}
		f.payouts[p] = s
	}
	return s
}

func (f *states) account(a *account) *reserve {
	r := f.accounts[a]
	if r == nil {
		r = &reserve{inFlight: map[*payout]struct{}{}}
		f.accounts[a] = r
	}
	return r
}

// first is the lowest id of the payouts in flight, "" without any.
func (r *reserve) first() (id string) {
	for p := range r.inFlight {
		if id == "" || p.id < id {
			id = p.id
		}
	}
	return id
}

// holds tells what a payout in state s has of its account: a claim to its amount, and the place of the one in flight.
func holds(s contract.State) (amount, place bool) {
	switch s {
	case contract.Claimed, contract.RailSubmitted, contract.RailAcked:
		return true, true
	case contract.RailAmbiguous:
		return true, false
	}
	return false, false
}

func (f *states) reserve(p *payout, from, to contract.State) {
	r := f.account(p.account)
	had, was := holds(from)
	has, is := holds(to)
	switch {
	case has && !had:
		r.amount += p.amount
	case had && !has:
		r.amount -= p.amount
	}
	switch {
	case is && !was:
		r.inFlight[p] = struct{}{}
	case was && !is:
		delete(r.inFlight, p)
	}
}

// judge holds one change against the contract's table.
func (f *states) judge(c *payoutChange, s *payoutState, e *history.Event) {
	from, to := s.state, c.to
	switch {
	case c.insert && from == "":
		f.must(to == contract.Pending, c, s, e, "began in state %s", to)
	case from == to:
		f.stays(c, s, e)
	case from == contract.Pending && (to == contract.Claimed || to == contract.Failed):
		f.claim(c, s, e)
	case from == contract.Claimed && to == contract.RailSubmitted,
		from == contract.RailSubmitted && (to == contract.RailAcked || to == contract.RailAmbiguous),
		from == contract.RailAcked && to == contract.Posted:
	case from == contract.RailSubmitted && to == contract.Failed:
		f.declined++
		f.must(s.rejected != (commitMark{}), c, s, e, "went from RAIL_SUBMITTED to FAILED, although no REJECTED of the rail is on record")
	case from == contract.RailAmbiguous && to == contract.RailAcked:
		f.evidence(c, s, e, "ACKED")
	case from == contract.RailAmbiguous && to == contract.Failed:
		f.evidence(c, s, e, "ABSENT")
	case to == contract.Abandoned && (from == contract.Pending || from == contract.RailAmbiguous):
		f.evidence(c, s, e, "ABANDONED")
	case from.Terminal():
		f.must(false, c, s, e, "went from %s to %s, although %s is an end", from, to, from)
	default:
		f.must(false, c, s, e, "went from %s to %s, which is no transition of the contract", from, to)
	}
}

// stays: a state that stays is no transition, but a take-over of what is in flight is the only claim that leaves it so.
func (f *states) stays(c *payoutChange, s *payoutState, e *history.Event) {
	if c.token0 == c.token1 {
		return
	}
	_, inFlight := holds(c.to)
	f.must(inFlight, c, s, e, "was claimed under token %d in state %s", c.token1, c.to)
	f.takeovers++
}

// claim: CLAIMED where the available funds suffice and no other payout of the account is in flight, FAILED where they
// do not suffice.
func (f *states) claim(c *payoutChange, s *payoutState, e *history.Event) {
	a := c.payout.account
	r := f.account(a)
	if other := r.first(); other != "" {
		f.must(false, c, s, e, "was claimed while payout %s of the same account was in flight", other)
	}
	if !a.known || a.rebased {
		f.unresolved++
		return
	}
	available := a.balance - r.amount
	covered := available >= c.payout.amount && r.currency == c.payout.currency
	if c.to == contract.Failed {
		f.unfunded++
		f.must(!covered, c, s, e, "of %d FAILED for want of funds, although %d were available", c.payout.amount, available)
		return
	}
	f.must(covered, c, s, e, "of %d %s was claimed, although %d %s were available", c.payout.amount, c.payout.currency, available, r.currency)
}

// evidence: what was unknown, or given up, is known only by a row of payout_resolution in the same commit.
func (f *states) evidence(c *payoutChange, s *payoutState, e *history.Event, outcome string) {
	f.resolved++
	there := slices.ContainsFunc(e.Changes, func(ch history.Change) bool {
		return ch.Table == "payout_resolution" && ch.Kind == history.Insert && ch.New["payout_id"] == c.payout.id && ch.New["outcome"] == outcome
	})
	f.must(there, c, s, e, "went from %s to %s without a row of evidence %s in the same commit", s.state, c.to, outcome)
}

// must reports the change c unless ok.
func (f *states) must(ok bool, c *payoutChange, s *payoutState, e *history.Event, format string, args ...any) {
	if ok {
		return
	}
	before := s.show(c.payout)
	if before == nil {
		before = c.payout.account.payment.event // it has no past of its own
	}
	f.report(fmt.Sprintf("payout %s %s", c.payout.id, fmt.Sprintf(format, args...)),
		want{account: c.payout.account.id, payout: c.payout.id, tokens: [2]int64{c.token1, s.token}}, before, f.book.keep(e))
}

func (f *states) deleted(p *payout, e *history.Event) {
	s := f.of(p)
	f.checked++
	w := want{payout: p.id, tokens: [2]int64{s.token}}
	if p.account != nil {
		w.account = p.account.id
		f.reserve(p, s.state, "")
	}
	f.report(fmt.Sprintf("payout %s was deleted in state %s", p.id, s.state), w, s.show(p), f.book.keep(e))
	s.state = ""
}

func (f *states) Finish(func(history.Witness) bool) {}

func (f *states) Verdict() verdict.Invariant {
	return f.verdict(map[string]int64{"takeovers": f.takeovers, "transitions_refused": f.refused, "resolved": f.resolved, "declined": f.declined, "unfunded": f.unfunded})
}

// show is the commit that brought the payout to where it stands.
func (s *payoutState) show(p *payout) *history.Event {
	columns := map[string]string{"payout_id": p.id, "state": string(s.state)}
	if s.token != 0 {
		columns["claim_token"] = strconv.FormatInt(s.token, 10)
	}
	return s.last.show("payout", columns)
}
