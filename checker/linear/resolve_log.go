package linear

import (
	"math"

	"fenceproof/checker/contract"
)

// log makes operations of what the log shows and no answer told: grants and ends that nobody heard of, sessions that
// ended, and leases that ran out.
func (r *resolver) log() {
	for _, g := range r.grants {
		if g.next != nil && g.next.Session != g.Session {
			r.counts.Takeovers++
		}
		if !r.heard[g.Token] {
			r.unheard(g)
		}
		r.ended(g)
	}
}

// shown is an operation that the log alone shows: it took place after everything that had been recorded before, and it
// was there, settling aside, when it was recorded.
func (r *resolver) shown(c *change, in Input, sent int64) Op {
	hi := r.frame.settled(c.T)
	return Op{In: in, Lo: min(max(c.Since, sent, r.from), hi), Hi: hi, Who: c.Proc, Owner: c.Owner, Refs: []int64{c.I}}
}

// unheard: a grant without an answer took place between the first request that can have asked for it and its commit.
func (r *resolver) unheard(g *grantLog) {
	sent := int64(math.MaxInt64)
	for _, c := range r.calls {
		if c.Op == contract.OpAcquire && c.Session == g.Session && c.Sent.T <= g.T && !(c.Type == contract.OK && c.Back.I != 0) {
			sent = min(sent, c.Sent.T)
		}
	}
	if sent == math.MaxInt64 {
		sent = 0
	} else {
		r.counts.Unheard++
	}
	o := r.shown(&g.change, Input{Verb: Acquire, Session: g.Session, After: Unordered}, sent)
	o.Out.Token = g.Token
	r.add(o)
}

// ended makes operations of the end of a grant, and of the end of its lease.
func (r *resolver) ended(g *grantLog) {
	byClock := g.expires > 0
	if byClock {
		r.lapse(g)
	}
	for _, at := range g.lapses {
		lo, hi := r.clock.reaches(at)
		lo = max(lo, g.Since, r.from)
		r.add(Op{In: Input{Verb: Expire, Token: g.Token}, Lo: lo, Hi: max(lo, hi), Who: g.Proc, Owner: g.Owner, Refs: []int64{g.I}})
	}
	c := g.end
	if c == nil {
		return
	}
	lapsed := byClock && c.Committed > 0 && g.expires <= c.Committed
	switch {
	case c.Kind == swept:
		r.counts.Sweeps++
		r.add(r.shown(c, Input{Verb: Sweep, Token: g.Token}, 0))
	case r.gone[g.Token] > 0: // its release or revoke was answered
	case c.Kind == revoked:
		r.counts.Unheard++
		o := r.shown(c, Input{Verb: Drop, Token: g.Token}, r.asked(g, contract.OpRevoke))
		o.Out.Floor = c.Floor
		r.add(o)
	case lapsed:
		r.add(r.shown(c, Input{Verb: Reap, Token: g.Token}, 0))
	case r.asked(g, contract.OpRelease) > 0:
		r.counts.Unheard++
		r.add(r.shown(c, Input{Verb: Drop, Token: g.Token}, r.asked(g, contract.OpRelease)))
	case !r.heard[g.Token], byClock && c.Committed == 0:
		// Nobody was told of the grant: the server may take it back, and its lease may have begun long before it was
		// written down. Or nobody can say whether it had expired.
		r.add(r.shown(c, Input{Verb: Drop, Token: g.Token}, 0))
	case !byClock && c.T >= lasts(r.alive(g), g.TTL):
		// The store's clock is nobody's but its own; but a lease lives for its TTL from when it was last asked for.
		r.counts.Expiries++
		r.add(r.shown(c, Input{Verb: Drop, Token: g.Token}, lasts(r.alive(g), g.TTL)))
	}
}

// asked is when the end of g was first asked for by a call of which nobody knows how it ended, 0 for never.
func (r *resolver) asked(g *grantLog, op contract.Op) int64 {
	calls := r.about[g.Token]
	if op == contract.OpRevoke {
		calls = r.opened
	}
	for _, c := range calls {
		if c.Op == op && c.unknown() && c.Sent.T <= g.end.T {
			return c.Sent.T
		}
	}
	return 0
}

// alive is when g, of which somebody was told, was last asked for with success: its lease ends a TTL after that at the
// earliest. It began when the lease was made, which is after the grant was asked for and may be long before it was written
// down.
func (r *resolver) alive(g *grantLog) int64 {
	at := r.from
	for _, c := range r.about[g.Token] {
		if c.Type == contract.OK && c.Back.I != 0 && c.Sent.T <= g.end.T && c.Op != contract.OpRelease {
			at = max(at, c.Sent.T)
		}
	}
	return at
}

// lapse: the lease of g runs out when the database's clock comes to its last expiry. What happens to a grant that has
// ended before then is nothing.
func (r *resolver) lapse(g *grantLog) {
	lo, hi := r.clock.reaches(g.expires)
	lo = max(lo, g.Since, r.from)
	if c := g.end; c != nil {
		switch {
		case max(r.frame.settled(c.T), r.gone[g.Token]) < lo:
			return
		case c.Committed >= g.expires:
			hi = min(hi, c.T)
		}
		if c.Committed >= g.expires && c.Kind == released && r.gone[g.Token] == 0 {
			r.counts.Expiries++
		}
	} else if g.next != nil && g.next.Acquired >= g.expires {
		hi = min(hi, g.next.T)
		r.counts.Expiries++
	}
	if lo > r.to || lo > r.frame.End {
		return // not before the epoch, or the history, ended
	}
	r.add(Op{In: Input{Verb: Expire, Token: g.Token}, Lo: lo, Hi: max(lo, hi), Who: g.Proc, Owner: g.Owner, Refs: []int64{g.last}})
}
