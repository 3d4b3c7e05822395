package model

// Apply is what the resource that q is for does with it: the books afterwards, its answer, and what that violates. fate
// says what becomes of a call to the rail, and matters to that alone.
func (p *Protocol) Apply(b Books, q Request, fate Fate) (Books, Answer, Violations) {
	after := b
	at := &after.Payouts[q.Payout]
	var a Answer
	var v Violations
	switch q.Op {
	case Claim:
		a, v = p.claim(&after, at, q)
		v.addIf(q.Token < b.Highest && a.Code != FencedOut, UnfencedClaim)
	case Submitted, Outcome:
		a, v = p.move(&after, at, q)
		v.addIf(q.Token < b.Highest && a.Code != FencedOut, UnfencedMove)
	case Post:
		a, v = p.post(&after, at, q)
		v.addIf(q.Token < b.Highest && a.Code != FencedOut, UnfencedPost)
	case Resolve:
		a, v = p.resolve(&after, at, q)
		v.addIf(q.Token < b.Highest && a.Code != FencedOut, UnfencedResolve)
	case Submit:
		a, v = p.submit(&after, at, q)
		v.addIf(q.Token <= b.Mark && a.Code != FencedOut, UnfencedSubmit)
	case Forward, ForwardUnrecorded:
		a, v = p.forward(at, q, fate)
	}
	v.addIf(at.State == Failed && b.Payouts[q.Payout].State != Failed && at.Moved > 0, MovedButFailed)
	a.State = at.State
	return after, a, v
}

// mutate notes that a mutation under token t was accepted.
func (b *Books) mutate(t Token) (v Violations) {
	v.addIf(t < b.Highest, TokenWentDown)
	b.Highest = max(b.Highest, t)
	return v
}

// shutOut is the answer to a token at or below the fence.
func shutOut(b *Books, by Guards) Answer {
	return Answer{Code: FencedOut, Highest: b.Fence, Guards: by}
}

// judge adds g to the guards that refuse, if it is in force and has a reason.
func (p *Protocol) judge(by *Guards, g Guard, reason bool) {
	if reason && p.on(g) {
		*by |= GuardSet(g)
	}
}

// floor is where a claim or a resolve under token t leaves the fence.
func (p *Protocol) floor(b *Books, t Token) Token {
	if !p.on(ClaimFloor) {
		return b.Fence
	}
	return t - 1
}

// claim is P2 (1.3, 1.4): fence, claim token, state, what is in flight, funds.
func (p *Protocol) claim(b *Books, at *Payout, q Request) (a Answer, v Violations) {
	var by Guards
	p.judge(&by, ClaimFence, b.Fence >= q.Token)
	p.judge(&by, TakeOver, at.Claim >= q.Token)
	p.judge(&by, OneInFlight, at.State == Pending && b.anotherInFlight(at))
	switch {
	case by.Has(ClaimFence):
		return shutOut(b, by), 0
	case by.Has(TakeOver), at.State != q.Expected, !claimable(at.State):
		return Answer{Code: NotClaimable, Guards: by}, 0
	case by.Has(OneInFlight):
		return Answer{Code: Blocked, Guards: by}, 0
	}
	v = b.mutate(q.Token)
	fence := p.floor(b, q.Token)
	if p.Mistakes.Has(ClaimRaisesToToken) && p.on(ClaimFloor) {
		fence = q.Token
	}
	v.addIf(fence < b.Fence, StaleAtAccount)
	if at.State == Pending {
		at.State = Claimed
		if need, by := p.need(b, at, q.Payout); int(b.Balance) < need {
			at.State, a.Code, a.Guards = Failed, NoFunds, by
		}
	}
	at.Claim, b.Fence = q.Token, fence
	return a, v
}

// claimable are the states that a claim can find a payout in.
func claimable(s PayoutState) bool { return s == Pending || s.inFlight() }

// anotherInFlight tells whether a payout of the account besides at is in flight.
func (b *Books) anotherInFlight(at *Payout) bool {
	for i := range b.Payouts {
		if o := &b.Payouts[i]; o != at && o.State.inFlight() {
			return true
		}
	}
	return false
}

// need is what a claim must find on the account: the payout's amount and what the account's other payouts have a claim
// to, with the guards that count those.
func (p *Protocol) need(b *Books, at *Payout, payout uint8) (need int, by Guards) {
	need = int(p.Amounts[payout])
	for i := range b.Payouts {
		o := &b.Payouts[i]
		if o == at {
			continue
		}
		before := by
		p.judge(&by, ReserveInFlight, o.State.inFlight())
		p.judge(&by, ReserveAmbiguous, o.State == RailAmbiguous)
		if by != before {
			need += int(p.Amounts[i])
		}
	}
	if b.Balance < p.Amounts[payout] {
		by = 0 // the payout alone is too much: nobody else's claim to the money decides
	}
	return need, by
}

// move is P6 and P7: fence, claim token, state. It leaves fence and claim alone.
func (p *Protocol) move(b *Books, at *Payout, q Request) (a Answer, v Violations) {
	from, to := Claimed, RailSubmitted
	if q.Op == Outcome {
		from, to = RailSubmitted, p.found(q.Finding)
	}
	var by Guards
	p.judge(&by, MoveFence, b.Fence >= q.Token)
	p.judge(&by, ClaimToken, at.Claim != q.Token)
	p.judge(&by, MoveState, at.State != from)
	switch {
	case by.Has(MoveFence):
		return shutOut(b, by), 0
	case by != 0:
		return Answer{Code: NotClaimable, Guards: by}, 0
	}
	v = b.mutate(q.Token)
	at.State = to
	return a, v
}

// found is the state that an outcome leads to.
func (p *Protocol) found(f Finding) PayoutState {
	switch {
	case f == Acked:
		return RailAcked
	case f == Rejected || p.Mistakes.Has(UnknownIsFailed):
		return Failed
	}
	return RailAmbiguous
}

// post is P3 (C1 1.6 a to c): fence, posted already, claim token, state, funds.
func (p *Protocol) post(b *Books, at *Payout, q Request) (a Answer, v Violations) {
	amount := p.Amounts[q.Payout]
	var by Guards
	p.judge(&by, PostFence, b.Fence > q.Token || (b.Fence == q.Token && !p.Mistakes.Has(PostAtFence)))
	p.judge(&by, PostClaim, at.Claim > q.Token)
	p.judge(&by, PostState, at.State != RailAcked && (at.State != Posted || !p.PaymentOff))
	p.judge(&by, LedgerLeg, at.Debited > 0 && !p.PaymentOff) // off: legs that are there already are passed over
	if by.Has(PostFence) {
		return shutOut(b, by), 0
	}
	v.addIf(at.State == RailAcked && b.Balance < amount, Overdrawn)
	switch {
	case by.Has(PostState) && at.State == Posted:
		return Answer{Code: AlreadyPosted, Guards: by}, v
	case by.Has(PostClaim), by.Has(PostState):
		return Answer{Code: NotClaimable, Guards: by}, v
	case b.Balance < amount:
		return Answer{Code: NoFunds, Guards: by}, v
	case by.Has(LedgerLeg):
		return Answer{Code: LegExists, Guards: by}, v
	}
	v |= b.mutate(q.Token)
	v.addIf(q.Token <= b.Fence, StaleAtAccount)
	v.addIf(at.Debited > 0, PostedTwice)
	v.addIf(at.State == Failed, FailedPosted)
	at.State, at.Debited = Posted, at.Debited+1
	b.Balance, b.Fence = b.Balance-amount, q.Token
	return a, v
}

// resolve is P8: fence, state. It claims and resolves in one step.
func (p *Protocol) resolve(b *Books, at *Payout, q Request) (a Answer, v Violations) {
	var by Guards
	p.judge(&by, ClaimFence, b.Fence >= q.Token)
	if by != 0 {
		return shutOut(b, by), 0
	}
	if at.State != RailAmbiguous && (at.State != Pending || q.Finding != ByOperator) {
		return Answer{Code: NotClaimable}, 0
	}
	v = b.mutate(q.Token)
	fence := p.floor(b, q.Token)
	v.addIf(fence < b.Fence, StaleAtAccount)
	at.State, at.Claim, b.Fence = resolved(q.Finding), q.Token, fence
	return a, v
}

// resolved is the state that a resolution leads to.
func resolved(f Finding) PayoutState {
	switch f {
	case Acked:
		return RailAcked
	case Absent:
		return Failed
	}
	return Abandoned
}
