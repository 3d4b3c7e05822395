package synthetic

import (
	"cmp"
	"fmt"
	"slices"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// payments is payment-resource, rail-proxy and rail-stub, with paydb.
type payments struct {
	w        *world
	accounts []*account
	clearing [16]*account // opened when first needed
	open     []*payout    // not at their end, in order of insertion
	byID     map[string]*payout
	states   map[contract.State]int64
	commits  commits
}

type account struct {
	id       string
	balance  int64
	reserved int64 // amounts of payouts in flight or ambiguous
	fence    int64
	row      row // nil: not opened yet
	mark     int64
	markRow  row
	plotted  bool // only what is planted works on it
}

type payout struct {
	id       string
	account  *account
	amount   int64
	state    contract.State
	token    int64
	by       string
	attempts int64
	created  int64
	row      row

	attempt   *attempt // at the rail; never a refused one
	reference string   // found by a resolution
	seen      int64    // when the reconciler saw it ambiguous first
	entries   string   // as its post was answered
	stored    map[stored]reply
	transfer  string // the rail's reference, where money has moved
	moved     bool
}

// stored is what a replay is known by.
type stored struct {
	op    contract.Op
	token int64
}

// reply is an answer that is given again.
type reply struct {
	status int
	code   contract.Code
	body   string
}

type attempt struct {
	id        string
	token     int64
	outcome   contract.Outcome
	reference string
	row       row
}

func newPayments(w *world) *payments {
	return &payments{w: w, byID: map[string]*payout{}, states: map[contract.State]int64{}, commits: commits{750, 0x1947000}}
}

func (s *payments) commit(changes ...history.Change) {
	s.w.see(history.PayDB, s.commits.event(s.w.rng, s.w.now, contract.PayDB, changes))
}

func (s *payments) openAccount(balance int64) *account {
	a := &account{id: s.w.id(), balance: balance}
	a.row = row{"account_id": a.id, "currency": "EUR", "balance_minor": dec(balance), "fence": "0", "updated_at": stamp(s.w.now)}
	s.commit(history.Change{Table: "account", Kind: history.Insert, New: a.row})
	return a
}

// order is what the workload does.
func (s *payments) order(a *account, amount int64) *payout {
	p := &payout{id: s.w.id(), account: a, amount: amount, state: contract.Pending, created: s.w.now, stored: map[stored]reply{}}
	at := stamp(s.w.now)
	p.row = row{"payout_id": p.id, "account_id": a.id, "amount_minor": dec(amount), "currency": "EUR", "state": string(p.state), "attempt_count": "0",
		"idempotency_key": "payout-" + p.id, "created_at": at, "updated_at": at}
	s.open, s.byID[p.id] = append(s.open, p), p
	s.states[p.state]++
	s.commit(history.Change{Table: "payout", Kind: history.Insert, New: p.row})
	return p
}

// move changes a payout's state and says so in its row.
func (s *payments) move(p *payout, to contract.State, more ...string) history.Change {
	old := p.row
	if reserves(p.state) {
		p.account.reserved -= p.amount
	}
	if reserves(to) {
		p.account.reserved += p.amount
	}
	s.states[p.state]--
	s.states[to]++
	p.state = to
	p.row = with(old, append(more, "state", string(to), "updated_at", stamp(s.w.now))...)
	if to.Terminal() {
		s.open = slices.DeleteFunc(s.open, func(x *payout) bool { return x == p })
		s.w.after(forgetAfter, func() { delete(s.byID, p.id) }) // late requests still find it
	}
	return history.Change{Table: "payout", Kind: history.Update, Old: old, New: p.row}
}

// reserves tells whether a payout in state keeps its amount from others.
func reserves(s contract.State) bool {
	return s != contract.Pending && !s.Terminal()
}

// inFlight tells whether a holder has begun a payout in state and has to end it.
func inFlight(s contract.State) bool {
	return s == contract.Claimed || s == contract.RailSubmitted || s == contract.RailAcked
}

// judge is the order of judgement: replay, fence, claim token, state.
func (s *payments) judge(c *call) {
	p := s.byID[c.Payout]
	if p == nil {
		c.refuse(404, contract.NotFound, "no such payout", "")
		return
	}
	if r, ok := p.stored[stored{c.Op, c.Token}]; ok {
		c.Code = r.code
		c.answer(r.status, c.bug.replay(r.body))
		return
	}
	a := p.account
	if a.fence >= c.Token && !c.bug.ignoresFence() {
		s.w.count.RefusedPayment++
		s.w.log(contract.PaymentResource, "fenced_out", "a stale token was refused", "highestToken", dec(a.fence), "operation", string(c.Op),
			"ownerId", c.Owner, "payoutId", p.id, "presentedToken", dec(c.Token), "resource", "account", "resourceId", a.id)
		c.fencedOut(a.fence, "account", a.id, fmt.Sprintf("token %d is not above %d, the fence of account %s", c.Token, a.fence, a.id))
		return
	}
	switch c.Op {
	case contract.OpClaim:
		s.claim(c, p)
	case contract.OpResolve:
		s.resolve(c, p)
	case contract.OpPost:
		s.post(c, p)
	default:
		s.moveOn(c, p)
	}
}

func (s *payments) notNow(c *call, p *payout) {
	c.refuse(409, contract.PayoutNotClaimable, fmt.Sprintf("payout %s is %s under token %d", p.id, p.state, p.token), "")
}

// raise shuts out everybody older than token.
func (s *payments) raise(a *account, fence int64) history.Change {
	old := a.row
	a.fence = fence
	a.row = with(old, "fence", dec(fence), "updated_at", stamp(s.w.now))
	return history.Change{Table: "account", Kind: history.Update, Old: old, New: a.row}
}

// done stores the answer with what it answers, and gives it.
func (s *payments) done(c *call, p *payout, r reply, changes ...history.Change) {
	p.stored[stored{c.Op, c.Token}] = r
	s.commit(append(changes, history.Change{Table: "payout_response", Kind: history.Insert, New: row{"payout_id": p.id, "operation": string(c.Op),
		"token": dec(c.Token), "request": c.body, "status": dec(int64(r.status)), "body": r.body, "created_at": stamp(s.w.now)}})...)
	c.Code = r.code
	c.answer(r.status, r.body)
}

func (s *payments) claim(c *call, p *payout) {
	a, from := p.account, p.state
	to := from
	switch {
	case from == contract.Pending && s.blocked(p), from != contract.Pending && !inFlight(from):
		s.notNow(c, p)
		return
	case from == contract.Pending && a.balance-a.reserved < p.amount:
		to = contract.Failed
	case from == contract.Pending:
		to = contract.Claimed
	}
	var changes []history.Change
	if fence := c.bug.fence(c.Token-1, a.fence); fence != a.fence {
		changes = append(changes, s.raise(a, fence))
	}
	p.token, p.by = c.Token, c.Owner
	p.attempts++
	changes = append(changes, s.move(p, to, "claimed_by", p.by, "claim_token", dec(p.token), "attempt_count", dec(p.attempts)))
	s.w.log(contract.PaymentResource, "payout_claimed", "payout claimed", "accountFence", dec(a.fence), "accountId", a.id, "attemptCount", dec(p.attempts),
		"fencingToken", dec(c.Token), "from", string(from), "ownerId", c.Owner, "payoutId", p.id, "to", string(to))
	if to == contract.Failed {
		s.done(c, p, reply{422, contract.InsufficientFunds, fmt.Sprintf(`{"code":"INSUFFICIENT_FUNDS","message":"account %s cannot cover %d","retrySafe":false,"traceId":%q}`, a.id, p.amount, s.w.id())}, changes...)
		return
	}
	c.Account = a.id
	s.done(c, p, reply{200, "", fmt.Sprintf(`{"payoutId":%q,"accountId":%q,"state":%q,"claimToken":%d,"accountFence":%d,"attemptCount":%d}`,
		p.id, a.id, to, c.Token, a.fence, p.attempts)}, changes...)
}

// blocked tells whether another payout of the account has to end first.
func (s *payments) blocked(p *payout) bool {
	return slices.ContainsFunc(s.open, func(x *payout) bool { return x != p && x.account == p.account && inFlight(x.state) })
}

// moveOn is submitted and outcome.
func (s *payments) moveOn(c *call, p *payout) {
	to := contract.State("")
	switch {
	case p.token != c.Token && c.bug != LateWrite:
	case c.Op == contract.OpSubmitted && p.state == contract.Claimed:
		to = contract.RailSubmitted
	case c.Op == contract.OpOutcome && p.state == contract.RailSubmitted:
		to = map[contract.Outcome]contract.State{contract.OutcomeAcked: contract.RailAcked, contract.OutcomeRejected: contract.Failed,
			contract.OutcomeTimeout: contract.RailAmbiguous}[c.reported]
	}
	if to == "" {
		s.notNow(c, p)
		return
	}
	s.w.log(contract.PaymentResource, "payout_moved", "payout moved", "accountId", p.account.id, "fencingToken", dec(c.Token), "from", string(p.state),
		"operation", string(c.Op), "ownerId", c.Owner, "payoutId", p.id, "to", string(to))
	s.done(c, p, reply{200, "", fmt.Sprintf(`{"payoutId":%q,"state":%q}`, p.id, to)}, s.move(p, to))
}

func (s *payments) resolve(c *call, p *payout) {
	to, found := contract.Failed, "ABSENT"
	switch {
	case c.bug == LeftTerminal:
		to, found = contract.Abandoned, "ABANDONED"
	case p.state != contract.RailAmbiguous:
		s.notNow(c, p)
		return
	case p.moved:
		to, found = contract.RailAcked, "ACKED"
		p.reference = p.transfer
	}
	changes := []history.Change{s.raise(p.account, c.Token-1)}
	p.token, p.by = c.Token, c.Owner
	changes = append(changes, s.move(p, to, "claimed_by", p.by, "claim_token", dec(p.token)))
	evidence := row{"payout_id": p.id, "outcome": found, "token": dec(c.Token), "created_at": stamp(s.w.now), "evidence": "the rail's look-up of " + rfc(s.w.now) + " shows no transfer after the settlement window"}
	switch found {
	case "ACKED":
		evidence["rail_reference"], evidence["evidence"] = p.transfer, "the rail's look-up shows transfer "+p.transfer
	case "ABANDONED":
		evidence["operator"], evidence["reason"], evidence["evidence"] = "operator", "given up by hand", "given up by operator"
	}
	if c.bug != NoEvidence {
		changes = append(changes, history.Change{Table: "payout_resolution", Kind: history.Insert, New: evidence})
	}
	s.done(c, p, reply{200, "", fmt.Sprintf(`{"payoutId":%q,"state":%q}`, p.id, to)}, changes...)
}

// post writes the double entry.
func (s *payments) post(c *call, p *payout) {
	a := p.account
	switch {
	case p.state == contract.Posted:
		c.answer(200, p.entries)
		return
	case p.state != contract.RailAcked, p.token != c.Token:
		s.notNow(c, p)
		return
	}
	var changes []history.Change
	balance := func(x *account, amount, fence int64) {
		old := x.row
		x.balance, x.fence = x.balance+amount, fence
		x.row = with(old, "balance_minor", dec(x.balance), "fence", dec(x.fence), "updated_at", stamp(s.w.now))
		changes = append(changes, history.Change{Table: "account", Kind: history.Update, Old: old, New: x.row})
	}
	leg := func(x *account, direction string, amount int64) string {
		id := s.w.id()
		changes = append(changes, history.Change{Table: "ledger_entry", Kind: history.Insert, New: row{"entry_id": id, "payout_id": p.id, "account_id": x.id,
			"direction": direction, "amount_minor": dec(amount), "fence": dec(c.Token), "created_at": stamp(s.w.now)}})
		return fmt.Sprintf(`{"entryId":%q,"accountId":%q,"direction":%q,"amountMinor":%d,"fence":%d}`, id, x.id, direction, amount, c.Token)
	}
	balance(a, -c.bug.debit(p.amount), c.Token)
	to := s.clearingOf(a)
	debit := leg(a, "DEBIT", p.amount)
	if to.row == nil {
		to.row = row{"account_id": to.id, "currency": "EUR", "balance_minor": "0", "fence": "0", "updated_at": stamp(s.w.now)}
		changes = append(changes, history.Change{Table: "account", Kind: history.Insert, New: to.row})
	}
	credited := c.bug.credit(p.amount)
	credit := leg(to, "CREDIT", credited)
	balance(to, credited, 0)
	p.entries = fmt.Sprintf(`{"payoutId":%q,"state":"POSTED","entries":[%s,%s],"balanceMinor":%d}`, p.id, debit, credit, a.balance)
	reference := p.reference
	if p.attempt != nil {
		reference = cmp.Or(reference, p.attempt.reference)
	}
	s.w.log(contract.PaymentResource, "payout_posted", "payout posted", "accountId", a.id, "amountMinor", dec(p.amount), "balanceMinor", dec(a.balance), "currency", "EUR",
		"fencingToken", dec(c.Token), "from", "RAIL_ACKED", "ownerId", c.Owner, "payoutId", p.id, "railReference", reference, "to", "POSTED")
	s.done(c, p, reply{200, "", p.entries}, append(changes, s.move(p, contract.Posted))...)
}

// clearingOf is the clearing account of a, chosen by its id.
func (s *payments) clearingOf(a *account) *account {
	i := 0
	for _, b := range []byte(a.id) {
		i = (i*31 + int(b)) % len(s.clearing)
	}
	if s.clearing[i] == nil {
		s.clearing[i] = &account{id: s.w.id()}
	}
	return s.clearing[i]
}
