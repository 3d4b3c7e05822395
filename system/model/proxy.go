package model

// submit is the first half of R1 (C1 1.6 d): raise the mark, then record the attempt. A second attempt for a payout is a
// duplicate, and the raise stays.
func (p *Protocol) submit(b *Books, at *Payout, q Request) (a Answer, v Violations) {
	var by Guards
	p.judge(&by, Mark, b.Mark >= q.Token && !p.RailOff)
	p.judge(&by, OneAttempt, at.Attempt != NoFinding)
	if by.Has(Mark) {
		return Answer{Code: FencedOut, Highest: b.Mark, Guards: by}, 0
	}
	stale := q.Token <= b.Mark
	b.Mark = max(b.Mark, q.Token)
	if p.RailOff {
		b.Mark = q.Token // it follows whatever comes, so that the record shows what was let through
	}
	known := by.Has(OneAttempt)
	if known && !p.RailOff {
		return Answer{Code: Duplicate, Record: at.Attempt, Guards: by}, 0
	}
	v.addIf(stale, StaleAtRail)
	if !known && !p.Mistakes.Has(AttemptAfterForward) {
		at.Attempt = Open
	}
	a = Answer{Code: Forwarding}
	if known {
		a.Record = at.Attempt // the index keeps this request's own record out
	}
	return a, v
}

// forward is the second half of R1: the rail moves money, or not, and the proxy records what it knows of that.
func (p *Protocol) forward(at *Payout, q Request, fate Fate) (a Answer, v Violations) {
	switch fate {
	case Acknowledged, ReplyLost:
		at.Moved++
		if fate == ReplyLost && p.Mistakes.Has(ProxyRetries) {
			at.Moved++
		}
		v.addIf(at.Moved > 1, PaidTwice)
		v.addIf(at.State == Failed, MovedButFailed)
	}
	a.Code, a.Record = Ambiguous, Timeout
	switch fate {
	case Acknowledged:
		a.Code, a.Record = OK, Acked
	case Declined:
		a.Code, a.Record = Declining, Rejected
	}
	if q.Op == Forward {
		at.Attempt = a.Record
	}
	return a, v
}
