package linear

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"fenceproof/checker/contract"
)

// LockHeld is the code of an acquire that was refused because somebody holds the key, and be it the asking session itself.
// The contract has no such answer; other locks have.
const LockHeld contract.Code = "LOCK_HELD"

// alone makes operations of the calls of a key where there is no log of the lock store. What somebody was told took place
// between its forwarding and its answer; what nobody was told may have taken place from its forwarding on, or never. A
// grant may end by itself when its lease, or its session, can have run out; where nobody knows how long leases are, only
// when somebody was told that it is gone.
//
// Its operations lie by their place in the order of the history, as spot has it, and not by time: a recorder's clock may be
// as coarse as it pleases.
type alone struct {
	*resolver
	grants   []lone             // that somebody was told of, in the order of their requests
	told     map[int64]int64    // by token of these: by when the key had certainly been granted anew
	mine     map[string][]int   // by holder: its grants
	byHolder map[string][]*call // in the order of sending
	unheard  []*call            // the first acquire without an answer of each holder, in the order of sending
	marks    []Mark             // of the key's calls, in their order
}

// lone is a grant as the answers alone tell of it.
type lone struct {
	call *call
	id   int64 // its token; below 0 where nobody knows it
	next int64 // by when the key had certainly been granted anew, forever for never
}

// spot is where the event i lies. There is room between two events.
func spot(i int64) int64 { return 2 * i }

// after is where the time t lies: behind every event that was earlier.
func (a *alone) after(t int64) int64 {
	if t == forever {
		return forever
	}
	i := sort.Search(len(a.marks), func(i int) bool { return a.marks[i].T >= t })
	if i == len(a.marks) {
		if i == 0 {
			return 0
		}
		return spot(a.marks[i-1].I) + 1
	}
	return spot(a.marks[i].I) - 1
}

// lasts is when what began at t and lasts for millis ends. Some leases are for ever.
func lasts(t, millis int64) int64 {
	if millis > (math.MaxInt64-max(t, 0))/int64(time.Millisecond) {
		return forever
	}
	return t + millis*int64(time.Millisecond)
}

// answersAlone makes the operations of the epoch.
func (r *resolver) answersAlone() {
	a := &alone{resolver: r, told: map[int64]int64{}, mine: map[string][]int{}, byHolder: map[string][]*call{}}
	a.sort()
	for _, c := range a.calls {
		if c.unknown() {
			a.counts.Ambiguous++
			a.perhaps(c)
		} else {
			a.definite(c)
		}
	}
	for i := range a.grants {
		a.fades(&a.grants[i])
	}
}

// holder is whose a grant is: its session's, or where there are no sessions its client's.
func (c *call) holder() string { return cmp.Or(c.Session, c.Owner, string(c.Proc)) }

// granted tells whether c is an acquire that somebody was told to have got the key.
func (c *call) granted() bool {
	return c.Op == contract.OpAcquire && c.Type == contract.OK && c.Back.I != 0
}

// sort looks through the calls.
func (a *alone) sort() {
	asked := map[string]bool{}
	for _, c := range a.calls {
		who := c.holder()
		a.byHolder[who] = append(a.byHolder[who], c)
		if c.Op == contract.OpAcquire && c.unknown() && !asked[who] {
			asked[who] = true
			a.unheard = append(a.unheard, c)
		}
		a.marks = append(a.marks, c.Sent)
		if c.Back.I != 0 {
			a.marks = append(a.marks, c.Back)
		}
		if c.granted() {
			id := c.Granted
			if id <= 0 {
				id = -int64(len(a.grants)) - 1
			}
			a.mine[who] = append(a.mine[who], len(a.grants))
			a.grants = append(a.grants, lone{call: c, id: id, next: forever})
		}
	}
	slices.SortFunc(a.marks, func(x, y Mark) int { return cmp.Compare(x.I, y.I) })
	// The next grant that was asked for after this one had been answered; grants are in the order of asking.
	first := make([]int64, len(a.grants)+1) // by place: the first answer to any from there on
	first[len(a.grants)] = forever
	for i := range slices.Backward(a.grants) {
		first[i] = min(first[i+1], spot(a.grants[i].call.Back.I))
	}
	for i := range a.grants {
		g := &a.grants[i]
		g.next = first[a.from(g.call.Back.I)]
		a.told[g.id] = max(a.told[g.id], g.next)
	}
}

// from is the first of the grants that was asked for after event i.
func (a *alone) from(i int64) int {
	return sort.Search(len(a.grants), func(n int) bool { return a.grants[n].call.Sent.I > i })
}

// unheardBy tells whether an acquire without an answer had been sent before event i by whom is right.
func (a *alone) unheardBy(i int64, right func(who string) bool) bool {
	return slices.ContainsFunc(a.unheard, func(u *call) bool { return u.Sent.I < i && right(u.holder()) })
}

// own tells whether a grant that nobody was told of may be the one that c, which is a release or a renewal, is about.
func (a *alone) own(c *call) bool {
	return a.unheardBy(c.until(), func(who string) bool { return who == c.holder() || who == Anybody || c.holder() == Anybody })
}

// until is the event by which c had its effect, if any.
func (c *call) until() int64 {
	if c.unknown() {
		return math.MaxInt64
	}
	return c.Back.I
}

// definite makes an operation of a call whose answer is definite.
func (a *alone) definite(c *call) {
	o := Op{Lo: spot(c.Sent.I), Hi: spot(c.Back.I), Who: c.Proc, Owner: c.Owner, Refs: []int64{c.Sent.I, c.Back.I}}
	o.In = Input{Session: c.holder(), After: Unordered}
	switch c.Op {
	case contract.OpAcquire:
		a.acquireAlone(c, o)
	case contract.OpRenew, contract.OpRelease:
		a.used(c, o)
	case contract.OpRevoke:
		o.In = Input{Verb: Revoke, After: Unordered}
		token := c.Revoked
		if c.Code == contract.FencedOut {
			token = c.Stored
		}
		if _, told := a.told[token]; !told {
			o.In.Unheard = a.unheardBy(c.Back.I, func(string) bool { return true })
		}
		if c.Type == contract.OK && c.Revoked <= 0 {
			o.Out.Floor = c.Floor
			a.counts.Revokes++
			a.add(o)
			return
		}
		a.revoke(c, o)
	}
}

func (a *alone) acquireAlone(c *call, o Op) {
	o.In.Verb = Acquire
	switch {
	case c.Type == contract.OK:
		o.In.Exclusive = !a.frame.Reentrant
		o.Out.Token = a.grantAt(c).id
	case (c.Code == contract.LockContended || c.Code == LockHeld) && !c.mayHaveDied():
		o.Out.Result, o.In.Exclusive = Contended, c.Code == LockHeld
		o.In.Unheard = a.unheardBy(c.Back.I, func(who string) bool { return who != c.holder() || who == Anybody || o.In.Exclusive })
		a.counts.Contended++
	default:
		return // refused for another reason, which says nothing about the key
	}
	a.add(o)
}

// grantAt is the grant that c was answered.
func (a *alone) grantAt(c *call) *lone { return &a.grants[a.from(c.Sent.I-1)] }

// mayHaveDied tells whether a request waited for so long that it may have been granted the key and lost it again before it
// was answered: then it is contended by its own grant.
func (c *call) mayHaveDied() bool { return c.TTL > 0 && c.Back.T >= lasts(c.Sent.T, c.TTL) }

// grantOf is the token of the grant that a request is about which names none: the latest that its holder was told of; 0
// where it may be another. none says that the holder cannot have had any.
func (a *alone) grantOf(c *call) (token int64, none bool) {
	if c.holder() == Anybody || a.own(c) {
		return 0, false
	}
	mine := a.mine[c.holder()]
	before := sort.Search(len(mine), func(i int) bool { return a.grants[mine[i]].call.Sent.I > c.Sent.I })
	for _, i := range slices.Backward(mine[:before]) {
		if g := &a.grants[i]; g.call.Back.I < c.Sent.I {
			return g.id, false
		}
	}
	return 0, true
}

// gone tells whether c was answered that its grant is over.
func (c *call) gone() bool {
	switch c.Code {
	case contract.LockLost, contract.SessionExpired, contract.SessionUnknown:
		return c.Back.I != 0 && c.Op != contract.OpAcquire
	}
	return false
}

// used makes an operation of a renewal or a release. That a holder who never had the key has lost it needs no search, and that
// somebody has lost it of whom nobody knows who it is says nothing.
func (a *alone) used(c *call, o Op) {
	o.In.Verb, o.In.Token = map[contract.Op]Verb{contract.OpRenew: Renew, contract.OpRelease: Release}[c.Op], c.Token
	none := false
	if c.Token == 0 {
		o.In.Token, none = a.grantOf(c)
	}
	_, told := a.told[c.Token]
	switch {
	case c.Type == contract.OK:
		o.In.Unheard = !told && a.own(c)
	case !c.gone():
		return
	case c.holder() == Anybody && c.Token == 0:
		a.counts.Unresolved++
		return
	case none:
		a.counts.Operations++
		a.counts.Settled++
		return
	default:
		o.Out.Result = Lost
	}
	a.add(o)
}

// maybe adds an operation that nobody knows to have taken place. It is none that was checked.
func (a *alone) maybe(o Op) {
	o.In.Maybe = true
	if o.Lo <= o.Hi {
		a.ops = append(a.ops, o)
	}
}

// fades lets a grant end by itself, from when it can on and until the key has certainly been granted anew.
func (a *alone) fades(g *lone) {
	lo := a.fadesFrom(g)
	if lo == forever {
		return
	}
	a.maybe(Op{In: Input{Verb: Expire, Token: g.id}, Lo: lo, Hi: max(lo, g.next), Who: g.call.Proc, Owner: g.call.Owner, Refs: []int64{g.call.Back.I}})
}

// fadesFrom is when g can have ended by itself at the earliest: a lease after it was last asked for, or with its session. Where
// neither is known, its end is known only by somebody being told of it.
func (a *alone) fadesFrom(g *lone) int64 {
	at := int64(forever)
	calls, again := a.abouts(g)
	if ttl := g.call.TTL; ttl > 0 {
		at = lasts(g.call.Sent.T, ttl)
		for _, c := range calls {
			if c.Op == contract.OpRenew && c.Type == contract.OK && c.Back.I != 0 && (c.Token > 0 || c.Sent.I < again) {
				at = max(at, lasts(c.Sent.T, cmp.Or(c.TTL, ttl)))
			}
		}
	}
	s := a.frame.Sessions[g.call.Session]
	lo := a.after(min(at, s.runsOut()))
	if s.Closed.I > 0 {
		lo = min(lo, spot(s.Closed.I))
	}
	if lo == forever && toldGone(calls) {
		lo = 0
	}
	return max(lo, spot(g.call.Sent.I))
}

// abouts are the calls that are about g: those that name its token, and those of its holder that name none, until the holder was
// granted the key again, which it had asked for with event again. A holder of which one call has no answer may have gone on as
// somebody of whom nobody knows who it is.
func (a *alone) abouts(g *lone) (calls []*call, again int64) {
	if g.id > 0 {
		for _, c := range a.about[g.id] {
			if c.Op != contract.OpAcquire {
				calls = append(calls, c)
			}
		}
	}
	again, until := int64(math.MaxInt64), int64(math.MaxInt64)
	mine := a.mine[g.call.holder()]
	if i := sort.Search(len(mine), func(i int) bool { return a.grants[mine[i]].call.Sent.I > g.call.Sent.I }); i < len(mine) {
		next := a.grants[mine[i]].call
		again, until = next.Sent.I, next.Back.I
	}
	crashed := int64(math.MaxInt64) // from when on another client may be the same one
	of := a.byHolder[g.call.holder()]
	for _, c := range of[sort.Search(len(of), func(i int) bool { return of[i].Sent.I > g.call.Back.I }):] {
		if c.Sent.I >= until {
			break
		}
		if c.unknown() {
			crashed = min(crashed, c.Sent.I)
		}
		if c.Op != contract.OpAcquire && (c.Token == 0 || g.id < 0) {
			calls = append(calls, c)
		}
	}
	of = a.byHolder[Anybody]
	for _, c := range of[sort.Search(len(of), func(i int) bool { return of[i].Sent.I > crashed }):] {
		if c.Sent.I < until && c.Token == 0 && c.gone() {
			calls = append(calls, c)
		}
	}
	return calls, again
}

// toldGone tells whether somebody was told by one of calls that the grant is over, who had not given it back before.
func toldGone(calls []*call) bool {
	given := int64(math.MaxInt64)
	for _, c := range calls {
		if c.Op == contract.OpRelease && c.Type == contract.OK && c.Back.I != 0 {
			given = min(given, c.Back.I)
		}
	}
	return slices.ContainsFunc(calls, func(c *call) bool { return c.gone() && c.Sent.I < given })
}

// perhaps adds what a call may have done of which nobody knows how it ended. An acquire is none of these: what it may have
// granted is there wherever an answer asks for it, as Input.Unheard says.
func (a *alone) perhaps(c *call) {
	o := Op{Lo: spot(c.Sent.I), Hi: forever, Who: c.Proc, Owner: c.Owner, Refs: []int64{c.Sent.I}}
	switch c.Op {
	case contract.OpRelease:
		if o.In = (Input{Verb: Drop, Token: c.Token, Session: c.holder()}); a.bounds(c, &o) {
			a.maybe(o)
		}
	case contract.OpRevoke:
		o.In = Input{Verb: Revoke}
		a.maybe(o)
	}
}

// bounds says which grant an unanswered release may have ended, and by when; false where none that somebody was told of. Where
// grants have tokens it is about one; without them it may come late and end a later grant of the same holder.
func (a *alone) bounds(c *call, o *Op) bool {
	mine := a.mine[c.holder()]
	switch next, told := a.told[c.Token]; {
	case c.Token > 0 && told:
		o.Hi = max(o.Lo, next)
		return true
	case c.holder() == Anybody:
		return len(a.grants) > 0
	case len(mine) == 0:
		return false
	}
	if c.Token == 0 {
		o.In.Token, _ = a.grantOf(c)
	}
	if o.In.Token < 0 {
		o.In.Token = 0
	}
	if o.In.Token > 0 && c.Token == 0 {
		o.Hi = max(o.Lo, a.told[o.In.Token])
		return true
	}
	last := int64(0)
	for _, i := range mine {
		last = max(last, a.grants[i].next)
	}
	o.Hi = max(o.Lo, last)
	return true
}
