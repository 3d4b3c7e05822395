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
func shutOut(b *Books) Answer { return Answer{Code: FencedOut, Highest: b.Fence} }

// floor is where a claim or a resolve under token t leaves the fence.
func (p *Protocol) floor(b *Books, t Token) Token {
	if !p.on(ClaimFloor) {
		return b.Fence
	}
	return t - 1
}

// claim is P2 (1.3, 1.4): fence, claim token, state, what is in flight, funds.
func (p *Protocol) claim(b *Books, at *Payout, q Request) (a Answer, v Violations) {
	if p.on(ClaimFence) && b.Fence >= q.Token {
		return shutOut(b), 0
	}
	if (p.on(TakeOver) && at.Claim >= q.Token) || at.State != q.Expected || !claimable(at.State) {
		return Answer{Code: NotClaimable}, 0
	}
	if at.State == Pending && p.on(OneInFlight) && b.anotherInFlight(at) {
		return Answer{Code: Blocked}, 0
	}
	v = b.mutate(q.Token)
	fence := p.floor(b, q.Token)
	if p.Mistakes.Has(ClaimRaisesToToken) && p.on(ClaimFloor) {
		fence = q.Token
	}
	v.addIf(fence < b.Fence, StaleAtAccount)
	if at.State == Pending {
		at.State = Claimed
		if !p.funded(b, at, p.Amounts[q.Payout]) {
			at.State, a.Code = Failed, NoFunds
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

// funded tells whether the available funds cover amount: the balance less what the account's other payouts have a claim to.
func (p *Protocol) funded(b *Books, at *Payout, amount Money) bool {
	need := int(amount)
	for i := range b.Payouts {
		o := &b.Payouts[i]
		if o != at && ((o.State.inFlight() && p.on(ReserveInFlight)) || (o.State == RailAmbiguous && p.on(ReserveAmbiguous))) {
			need += int(p.Amounts[i])
		}
	}
	return int(b.Balance) >= need
}

// move is P6 and P7: fence, claim token, state. It leaves fence and claim alone.
func (p *Protocol) move(b *Books, at *Payout, q Request) (a Answer, v Violations) {
	if p.on(MoveFence) && b.Fence >= q.Token {
		return shutOut(b), 0
	}
	from, to := Claimed, RailSubmitted
	if q.Op == Outcome {
		from, to = RailSubmitted, p.found(q.Finding)
	}
	if (p.on(ClaimToken) && at.Claim != q.Token) || (p.on(MoveState) && at.State != from) {
		return Answer{Code: NotClaimable}, 0
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
	shut := b.Fence >= q.Token
	if p.Mistakes.Has(PostAtFence) {
		shut = b.Fence > q.Token
	}
	if p.on(PostFence) && shut {
		return shutOut(b), 0
	}
	amount := p.Amounts[q.Payout]
	v.addIf(at.State == RailAcked && b.Balance < amount, Overdrawn)
	switch {
	case at.State == Posted && p.on(PostState) && !p.PaymentOff:
		return Answer{Code: AlreadyPosted}, v
	case p.on(PostClaim) && at.Claim > q.Token, !p.postable(at.State):
		return Answer{Code: NotClaimable}, v
	case b.Balance < amount:
		return Answer{Code: NoFunds}, v
	case at.Debited > 0 && p.on(LedgerLeg) && !p.PaymentOff: // off: legs that are there already are passed over
		return Answer{Code: LegExists}, v
	}
	v |= b.mutate(q.Token)
	v.addIf(q.Token <= b.Fence, StaleAtAccount)
	v.addIf(at.Debited > 0, PostedTwice)
	v.addIf(at.State == Failed, FailedPosted)
	at.State, at.Debited = Posted, at.Debited+1
	b.Balance, b.Fence = b.Balance-amount, q.Token
	return a, v
}

// postable are the states that a post can find a payout in.
func (p *Protocol) postable(s PayoutState) bool {
	return s == RailAcked || (s == Posted && p.PaymentOff) || !p.on(PostState)
}

// resolve is P8: fence, state. It claims and resolves in one step.
func (p *Protocol) resolve(b *Books, at *Payout, q Request) (a Answer, v Violations) {
	if p.on(ClaimFence) && b.Fence >= q.Token {
		return shutOut(b), 0
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
