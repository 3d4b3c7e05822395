package linear

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"fenceproof/checker/contract"
)

// lone is a grant as the answers alone tell of it.
type lone struct {
	call *call
	id   int64 // its token; below 0 where nobody knows it
	who  string
	next int64 // by when the key had certainly been granted anew, forever for never
}

// alone makes operations of the calls of a key where there is no log of the lock store. What somebody was told took place
// between its forwarding and its answer; what nobody was told may have taken place from its forwarding on, or never. A
// grant may end by itself when its lease, or its session, can have run out; where nobody knows how long leases are, only
// when somebody was told that it is gone.
func (r *resolver) alone() {
	grants, next := r.lones(), map[int64]int64{}
	r.byHolder, r.unsure = map[string][]*call{}, map[string]bool{}
	for _, c := range r.calls {
		if c.Op == contract.OpAcquire && c.unknown() {
			r.unsure[c.holder()] = true
		}
		r.byHolder[c.holder()] = append(r.byHolder[c.holder()], c)
	}
	judged := r.definite(grants)
	for _, g := range grants {
		r.fades(g)
		next[g.id] = g.next
	}
	for _, c := range r.calls {
		if c.unknown() {
			r.counts.Ambiguous++
			r.perhaps(c, grants, next, judged)
		}
	}
}

// holder is whose a grant is: its session's, or where there are no sessions its client's.
func (c *call) holder() string { return cmp.Or(c.Session, c.Owner, string(c.Proc)) }

// lones are the grants that somebody was told of, in the order of their requests.
func (r *resolver) lones() []lone {
	var out []lone
	for _, c := range r.calls {
		if c.Op == contract.OpAcquire && c.Type == contract.OK && c.Back.I != 0 {
			id := c.Granted
			if id <= 0 {
				id = -int64(len(out)) - 1
			}
			out = append(out, lone{call: c, id: id, who: c.holder(), next: forever})
		}
	}
	// The next grant that was asked for after this one had been answered; grants are in the order of asking.
	back := make([]int64, len(out)+1) // by place: the first answer to any from there on
	back[len(out)] = forever
	for i := range slices.Backward(out) {
		back[i] = min(back[i+1], out[i].call.Back.T)
	}
	for i := range out {
		at, _ := slices.BinarySearchFunc(out, out[i].call.Back.T, func(g lone, t int64) int {
			if g.call.Sent.T <= t {
				return -1
			}
			return 1
		})
		out[i].next = back[at]
	}
	return out
}

// definite makes operations of the calls whose answer is definite, and tells what of them needs an explanation.
func (r *resolver) definite(grants []lone) (judged needs) {
	n := int64(0)
	for _, c := range r.calls {
		if c.unknown() {
			continue
		}
		o := Op{Lo: c.Sent.T, Hi: c.Back.T, Who: c.Proc, Owner: c.Owner, Refs: []int64{c.Sent.I, c.Back.I}}
		o.In = Input{Token: c.Token, Session: c.holder(), After: Unordered}
		none := false
		if c.Token == 0 && (c.Op == contract.OpRenew || c.Op == contract.OpRelease) {
			o.In.Token, none = r.grantOf(c, grants)
		}
		switch c.Op {
		case contract.OpAcquire:
			o.In.Verb, o.In.Token = Acquire, 0
			if c.Type == contract.OK {
				if n++; c.Granted <= 0 {
					o.Out.Token = -n
				} else {
					o.Out.Token = c.Granted
				}
				r.add(o)
			} else if c.Code == contract.LockContended && !r.mayHaveDied(c) {
				o.Out.Result = Contended
				r.counts.Contended++
				judged.contended = max(judged.contended, c.Back.T)
				r.add(o)
			}
		case contract.OpRenew, contract.OpRelease:
			r.used(c, o, none)
			if c.Type == contract.OK && c.Token == 0 {
				judged.users = append(judged.users, user{o.In.Session, c.Back.T})
			}
		case contract.OpRevoke:
			o.In = Input{Verb: Revoke}
			r.revoke(c, o)
		}
	}
	return judged
}

// needs is what only a grant that nobody was told of may explain.
type needs struct {
	contended int64  // the last answer that another holds the key, 0 for none
	users     []user // who renewed or gave back without naming a token
}

type user struct {
	session string
	at      int64
}

// mayHaveDied tells whether a request waited for so long that it may have been granted the key and lost it again before it
// was answered: then it is contended by its own grant.
func (r *resolver) mayHaveDied(c *call) bool {
	return c.TTL > 0 && c.Back.T-c.Sent.T >= c.TTL*int64(time.Millisecond)
}

// grantOf is the token of the grant that a request is about which names none: the latest that its holder was told of; 0
// where it may be another. none says that the holder cannot have had any.
func (r *resolver) grantOf(c *call, grants []lone) (token int64, none bool) {
	if r.unsure[Anybody] || r.unsure[c.holder()] {
		return 0, false
	}
	at := sort.Search(len(grants), func(i int) bool { return grants[i].call.Sent.I > c.Sent.I })
	for i := range slices.Backward(grants[:at]) {
		if g := &grants[i]; g.who == c.holder() && g.call.Back.I < c.Sent.I {
			return g.id, false
		}
	}
	return 0, true
}

// used makes an operation of a renewal or a release. That a holder who never had the key has lost it needs no search.
func (r *resolver) used(c *call, o Op, none bool) {
	o.In.Verb = map[contract.Op]Verb{contract.OpRenew: Renew, contract.OpRelease: Release}[c.Op]
	switch c.Code {
	case contract.LockLost, contract.SessionExpired, contract.SessionUnknown:
		o.Out.Result = Lost
	default:
		if c.Type != contract.OK {
			return
		}
	}
	if none && o.Out.Result == Lost {
		r.counts.Operations++
		r.counts.Settled++
		return
	}
	r.add(o)
}

// maybe adds an operation that nobody knows to have taken place. It is none that was checked.
func (r *resolver) maybe(o Op) {
	o.In.Maybe = true
	if o.Lo <= o.Hi {
		r.ops = append(r.ops, o)
	}
}

// fades lets a grant end by itself, from when it can on and until the key has certainly been granted anew.
func (r *resolver) fades(g lone) {
	lo := r.fadesFrom(g)
	if lo == forever {
		return
	}
	r.maybe(Op{In: Input{Verb: Expire, Token: g.id}, Lo: lo, Hi: max(lo, g.next), Who: g.call.Proc, Owner: g.call.Owner, Refs: []int64{g.call.Back.I}})
}

// fadesFrom is when g can have ended by itself at the earliest: a lease after it was last asked for, or with its session. Where
// neither is known, its end is known only by somebody being told of it.
func (r *resolver) fadesFrom(g lone) int64 {
	at := int64(forever)
	if ttl := g.call.TTL; ttl > 0 {
		at = g.call.Sent.T + ttl*int64(time.Millisecond)
		for _, c := range r.abouts(g) {
			if c.Op == contract.OpRenew && c.Type == contract.OK && c.Back.I != 0 {
				at = max(at, c.Sent.T+cmp.Or(c.TTL, ttl)*int64(time.Millisecond))
			}
		}
	}
	if s, known := r.frame.Sessions[g.call.Session]; known {
		at = min(at, s.ends())
	}
	at = max(at, g.call.Sent.T)
	if at == forever && r.toldGone(g) {
		return g.call.Sent.T
	}
	return at
}

// abouts are the calls that are about g: those that name its token, and where it has none those of its holder until that one
// was granted the key again.
func (r *resolver) abouts(g lone) []*call {
	if g.id > 0 {
		return r.about[g.id]
	}
	mine := r.byHolder[g.who]
	from := sort.Search(len(mine), func(i int) bool { return mine[i].Sent.I > max(g.call.Sent.I, g.call.Back.I) })
	for i, c := range mine[from:] {
		if c.Op == contract.OpAcquire && c.Type == contract.OK && c.Back.I != 0 {
			return mine[from : from+i]
		}
	}
	return mine[from:]
}

// toldGone tells whether somebody was told that g is over, who had not given it back before.
func (r *resolver) toldGone(g lone) bool {
	given := int64(forever)
	for _, c := range r.abouts(g) {
		if c.Op == contract.OpRelease && c.Type == contract.OK && c.Back.I != 0 {
			given = min(given, c.Back.I)
		}
	}
	for _, c := range r.abouts(g) {
		switch c.Code {
		case contract.LockLost, contract.SessionExpired, contract.SessionUnknown:
			if c.Back.I != 0 && c.Op != contract.OpAcquire && c.Sent.I < given {
				return true
			}
		}
	}
	return false
}

// perhaps adds what a call may have done of which nobody knows how it ended.
func (r *resolver) perhaps(c *call, grants []lone, next map[int64]int64, judged needs) {
	o := Op{Lo: c.Sent.T, Hi: forever, Who: c.Proc, Owner: c.Owner, Refs: []int64{c.Sent.I}}
	switch c.Op {
	case contract.OpRelease:
		o.In = Input{Verb: Drop, Token: c.Token, Session: c.holder()}
		if c.Token == 0 {
			var none bool
			if o.In.Token, none = r.grantOf(c, grants); none {
				return
			}
		}
		if n, told := next[o.In.Token]; told {
			o.Hi = max(o.Lo, n)
		}
		r.maybe(o)
	case contract.OpRevoke:
		o.In = Input{Verb: Revoke}
		r.maybe(o)
	case contract.OpAcquire:
		hi := judged.contended
		for _, u := range judged.users {
			if u.session == c.holder() || c.Session == Anybody {
				hi = max(hi, u.at)
			}
		}
		if hi < c.Sent.T {
			return // whatever it did, nothing that was answered shows it
		}
		id := -c.Sent.I - int64(len(r.calls)) // no other grant's
		o.In, o.Out.Token, o.Hi = Input{Verb: Acquire, Session: c.holder(), After: Unordered}, id, hi
		r.maybe(o)
		r.fades(lone{call: c, id: id, who: c.holder(), next: forever})
	}
}
