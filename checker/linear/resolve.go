package linear

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"fenceproof/checker/contract"
)

// settling is how much later than it was recorded a change of the lock store may have become visible, while the store is at
// work. A database writes a commit to its log, where the witness sees it, a moment before it shows it to others, and that
// moment is as long as the machine pleases. An answer tells of its change's visibility itself, however late it comes.
const settling = int64(time.Second)

// settled is by when a change that was recorded at t has become visible. The lock store makes it so in settling, and does
// nothing while it stands still; where its log is silent, nobody knows that it does not.
func (f *frame) settled(t int64) int64 {
	by := t + settling
	i := sort.Search(len(f.Silences), func(i int) bool { return f.Silences[i].To > t })
	for ; i < len(f.Silences) && f.Silences[i].From < by; i++ {
		by += f.Silences[i].To - max(f.Silences[i].From, t)
	}
	return by
}

// Counts says what the operations of a key were made of.
type Counts struct {
	Operations int64 // that were judged
	Settled    int64 // of them: certain without a search, whatever the order of the others
	Contended  int64 // acquires that were refused because of another's grant
	Ambiguous  int64 // calls whose answer says nothing; the lock store's log says what became of them
	Unheard    int64 // of them: those that took place
	Expiries   int64 // grants that ended with their lease
	Takeovers  int64 // grants over what an expired one had left behind
	Revokes    int64
	Sweeps     int64 // grants that ended with their session
	Unresolved int64 // calls that were left out: the evidence does not say in which epoch, or what they were answered
	Late       int64 // answers before the lock store's clock was moved that its log is not known to reach: the calls are taken for unanswered
}

// grantLog is what the lock store's log says about one grant.
type grantLog struct {
	change            // that began it
	last    int64     // the I of its latest renewal, or of its beginning
	late    bool      // a renewal of it was committed after its old expiry
	next    *grantLog // that took its row
	end     *change   // that removed its row
	expires int64     // the last expiry, by the database's own clock; 0 where it has none
	lapses  []int64   // earlier expiries that had passed when a renewal came
}

// resolver makes the operations of one key in one epoch.
type resolver struct {
	frame  *frame
	clock  *clock
	epoch  int
	from   int64 // the epoch by T
	to     int64
	calls  []*call
	grants []*grantLog
	byTok  map[int64]*grantLog
	about  map[int64][]*call // by token: the acquires that were granted it, its renewals and releases
	opened []*call           // revokes of which nobody knows how they ended
	silent []*grantLog       // grants that no answer told of
	heard  map[int64]bool    // tokens that an acquire was answered
	gone   map[int64]int64   // tokens whose release or revoke was answered as done, and when
	counts Counts
	ops    []Op
}

// resolve turns the key's records into operations, by epoch. Where the lock store's clock was put back over a grant,
// nobody can say when it expired; twice is true then, and the key cannot be judged.
func resolve(k *keyLog, f *frame, c *clock) (epochs [][]Op, counts Counts, twice bool) {
	counts.Late = f.forget(k.Calls)
	for n := range f.Epochs {
		r := &resolver{frame: f, clock: c, epoch: n, from: f.Epochs[n], to: forever,
			byTok: map[int64]*grantLog{}, about: map[int64][]*call{}, heard: map[int64]bool{}, gone: map[int64]int64{}}
		if n+1 < len(f.Epochs) {
			r.to = f.Epochs[n+1] - 1
		}
		r.take(k)
		if f.Alone {
			r.answersAlone()
		} else {
			r.answers()
			r.log()
		}
		for _, g := range r.grants {
			if g.expires > 0 && c.twice(g.Acquired, g.expires) {
				twice = true
			}
		}
		slices.SortStableFunc(r.ops, func(a, b Op) int { return cmp.Or(cmp.Compare(a.Lo, b.Lo), cmp.Compare(a.Hi, b.Hi)) })
		epochs = append(epochs, r.ops)
		counts.add(r.counts)
	}
	counts.Unresolved += straddling(k, f)
	return epochs, counts, twice
}

func (c *Counts) add(o Counts) {
	c.Operations += o.Operations
	c.Settled += o.Settled
	c.Contended += o.Contended
	c.Ambiguous += o.Ambiguous
	c.Unheard += o.Unheard
	c.Expiries += o.Expiries
	c.Takeovers += o.Takeovers
	c.Revokes += o.Revokes
	c.Sweeps += o.Sweeps
	c.Unresolved += o.Unresolved
	c.Late += o.Late
}

// inside tells whether c was sent and answered in the epoch. A call that nobody answered belongs to that of its sending.
func (r *resolver) inside(c *call) bool {
	return c.Sent.T >= r.from && c.Sent.T <= r.to && (c.Back.I == 0 || c.Back.T <= r.to)
}

// reaches tells whether the epoch may have served a part of c's time.
func (r *resolver) reaches(c *call) bool {
	return c.Back.I != 0 && c.Sent.T <= r.to && c.Back.T >= r.from
}

// part is c as this epoch knows it: what was answered in another one says nothing about this one's state. A failover may have
// undone what its primary had committed, and a release that was refused by the one may have been carried out by the other.
func (r *resolver) part(c *call) *call {
	p := *c
	p.Sent.T = max(c.Sent.T, r.from)
	p.unanswer()
	return &p
}

// straddling counts the calls that were sent in one epoch and answered in another: nobody knows which of them served it.
func straddling(k *keyLog, f *frame) (n int64) {
	at := func(t int64) int { return sort.Search(len(f.Epochs), func(i int) bool { return f.Epochs[i] > t }) }
	for _, c := range k.Calls {
		if c.Back.I != 0 && at(c.Sent.T) != at(c.Back.T) {
			n++
		}
	}
	return n
}

// take picks what belongs to the epoch: the calls, and the log as the life of each grant.
func (r *resolver) take(k *keyLog) {
	for _, c := range k.Calls {
		switch {
		case r.inside(c):
			r.calls = append(r.calls, c)
		case r.reaches(c):
			r.calls = append(r.calls, r.part(c))
		}
	}
	// They were written down as they were answered.
	slices.SortFunc(r.calls, func(a, b *call) int { return cmp.Compare(a.Sent.I, b.Sent.I) })
	var row *grantLog
	for _, c := range k.Changes {
		if c.Epoch != r.epoch {
			continue
		}
		switch c.Kind {
		case granted:
			g := &grantLog{change: *c, last: c.I, expires: c.Expires}
			if row != nil {
				row.next = g
			}
			r.grants, row = append(r.grants, g), g
			r.byTok[c.Token] = g
		case extended:
			if row != nil && row.Token == c.Token {
				row.late = row.late || c.Committed > 0 && row.expires > 0 && c.Committed >= row.expires
				if row.TTL > 0 && row.expires > 0 && row.TTL <= (c.Expires-row.expires)/1000 {
					row.lapses = append(row.lapses, row.expires) // the renewal came when the lease was over
				}
				row.last, row.expires = c.I, c.Expires
			}
		default:
			if row != nil && row.Token == c.Token {
				row.end, row.expires = c, cmp.Or(c.Expires, row.expires)
			}
			row = nil
		}
	}
	for _, c := range r.calls {
		r.index(c)
	}
	for _, g := range r.grants {
		if !r.heard[g.Token] {
			r.silent = append(r.silent, g)
		}
	}
}

func (r *resolver) index(c *call) {
	done := c.Type == contract.OK && c.Back.I != 0
	switch c.Op {
	case contract.OpAcquire:
		if done {
			r.heard[c.Granted] = true
			r.about[c.Granted] = append(r.about[c.Granted], c)
		}
	case contract.OpRenew, contract.OpRelease:
		r.about[c.Token] = append(r.about[c.Token], c)
		if done && c.Op == contract.OpRelease {
			r.gone[c.Token] = max(r.gone[c.Token], c.Back.T)
		}
	case contract.OpRevoke:
		if done {
			r.gone[c.Revoked] = max(r.gone[c.Revoked], c.Back.T)
		} else if c.unknown() {
			r.opened = append(r.opened, c)
		}
	}
}

func (r *resolver) add(o Op) {
	r.counts.Operations++
	r.ops = append(r.ops, o)
}

// answers makes operations of the calls whose answer is definite. Each took place between its forwarding and its answer,
// and where the log has its effect, not before what was recorded when that was not yet there.
func (r *resolver) answers() {
	for _, c := range r.calls {
		if c.unknown() {
			r.counts.Ambiguous++
			continue
		}
		o := Op{Lo: c.Sent.T, Hi: c.Back.T, Who: c.Proc, Owner: c.Owner, Refs: []int64{c.Sent.I, c.Back.I}}
		switch c.Op {
		case contract.OpAcquire:
			r.acquire(c, o)
		case contract.OpRenew:
			r.renew(c, o)
		case contract.OpRelease:
			r.release(c, o)
		case contract.OpRevoke:
			r.revoke(c, o)
		}
	}
}

func (r *resolver) acquire(c *call, o Op) {
	o.In = Input{Verb: Acquire, Session: c.Session, After: Unordered}
	switch {
	case c.Type == contract.OK && c.Granted > 0:
		o.Out.Token = c.Granted
		if g := r.byTok[c.Granted]; g != nil {
			o = within(o, &g.change)
			o.Refs = append(o.Refs, g.I)
		}
	case c.Code == contract.LockContended && !r.tookBack(c):
		o.Out.Result = Contended
		r.counts.Contended++
	default:
		return // refused for another reason, which says nothing about the key
	}
	r.add(o)
}

// tookBack tells whether the server had granted the key to c's session and taken it back before it answered: what it
// granted had died while the request waited. Such a request is contended by its own grant, which the log has.
func (r *resolver) tookBack(c *call) bool {
	return slices.ContainsFunc(r.silent, func(g *grantLog) bool {
		return g.Session == c.Session && g.Since <= c.Back.T && g.T >= c.Sent.T
	})
}

// within narrows o by the commit that was its effect. It leaves o alone where the two do not meet: that is the business of
// the invariants that compare them.
func within(o Op, c *change) Op {
	if c.Since <= o.Hi {
		o.Lo = max(o.Lo, c.Since)
	}
	return o
}

func (r *resolver) renew(c *call, o Op) {
	o.In = Input{Verb: Renew, Token: c.Token}
	switch c.Code {
	case contract.LockLost, contract.SessionExpired, contract.SessionUnknown:
		o.Out.Result = Lost
		if g := r.byTok[c.Token]; g != nil && g.late {
			r.counts.Unresolved++
			return
		}
	default:
		if c.Type != contract.OK {
			return
		}
	}
	r.add(o)
}

func (r *resolver) release(c *call, o Op) {
	o.In = Input{Verb: Release, Token: c.Token}
	switch {
	case c.Type == contract.OK:
		if g := r.byTok[c.Token]; g != nil && g.end != nil && g.end.Kind == released {
			o = within(o, g.end)
		}
	case c.Code == contract.LockLost:
		o.Out.Result = Lost
	default:
		return
	}
	r.add(o)
}

func (r *resolver) revoke(c *call, o Op) {
	o.In.Verb = Revoke
	switch {
	case c.Type == contract.OK && c.Revoked > 0:
		// It may be committed when the lease has run out that was alive when its statement began, so the log does not
		// say when it took place.
		o.Out = Output{Result: Done, Token: c.Revoked, Floor: c.Floor}
		r.counts.Revokes++
	case c.Code == contract.NotFound:
		o.Out.Result = NotHeld
	case c.Code == contract.FencedOut && c.Stored > 0:
		o.Out = Output{Result: Other, Token: c.Stored}
	default:
		return
	}
	r.add(o)
}
