// INV-04: the tokens of a lock key are unique and only ever increase.

package invariant

import (
	"fmt"
	"slices"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// grants judges a key by the lock store's log, in commit order within an epoch, and by the wiretap, between acquires
// that do not overlap, across epochs. The answered token is the logged one, renewing keeps it, and a revoke's floor
// exceeds the revoked token and binds every grant that comes after it in the log, and every acquire sent after its answer.
type grants struct {
	findings
	keys   map[string]*ladder
	issues issues
	blind  bool // the lock store's log has a hole: absence proves nothing any more

	granted, regrants, takeovers, reentries, revocations, across int64
}

// ladder is what the log says about one key.
type ladder struct {
	epoch     int
	last      int64 // the highest token of the epoch
	event     *history.Event
	session   string
	floor     int64 // the highest floor that a revoke of the epoch has left in the log
	raised    *history.Event
	logged    []int64         // granted and not yet seen answered; many are never answered
	forgotten int64           // the highest token dropped from logged
	awaiting  []answeredGrant // not yet seen in the log
}

// answeredGrant is a grant as the wiretap saw it.
type answeredGrant struct{ sent, answer *history.Event }

// maxLogged bounds the memory of one key.
const maxLogged = 1024

func newGrants(b *book, t *tally) *grants {
	return &grants{
		findings: findings{id: "INV-04", guarantee: "The tokens of a lock key are unique and only ever increase, and the answered token is the logged one.", book: b, tally: t},
		keys:     map[string]*ladder{}, issues: newIssues(),
	}
}

func (f *grants) RestsOn() []history.Witness {
	return []history.Witness{history.LockDB, history.Wiretap}
}

func (f *grants) Observe(e *history.Event) {
	f.explain(e)
	f.issues.observe(e)
	if f.book.anew {
		f.begin()
	}
	switch {
	case e.W == history.LockDB:
		f.observeLog(e)
	case e.W == history.Wiretap && e.Stage == history.Answered && e.Type == contract.OK && f.book.call != nil:
		switch e.Op {
		case contract.OpAcquire:
			f.acquired(e, f.book.call)
		case contract.OpRenew:
			f.renewed(e, f.book.call)
		case contract.OpRevoke:
			f.revoked(e, f.book.call)
		}
	}
}

func (f *grants) observeLog(e *history.Event) {
	switch e.Op {
	case history.OpLostPlace:
		f.blind = true
	case history.OpWatermark:
		f.settle(e.Covers)
	case history.OpCommit:
		for i := range f.book.grant {
			f.logged(&f.book.grant[i], e)
		}
		for i := range e.Changes {
			if c := &e.Changes[i]; c.Table == "lock_revocation" && c.New != nil {
				f.raised(c.New["lock_key"], history.Int(c.New["prev_token"]), history.Int(c.New["token_floor"]), e)
			}
		}
	}
}

// begin begins an epoch. The log of the one before was read to its end, and its clients had been cut off before that: what
// it does not hold by now it never held, and no later grant stands for it.
func (f *grants) begin() {
	f.settle(theEnd)
	for _, l := range f.keys {
		l.logged, l.forgotten = nil, 0
	}
}

func (f *grants) ladder(key string) *ladder {
	l := f.keys[key]
	if l == nil {
		l = &ladder{}
		f.keys[key] = l
	}
	return l
}

// raised takes the floor of a revoke in the order of commits. On etcd it is the revision itself.
func (f *grants) raised(key string, revoked, floor int64, e *history.Event) {
	l := f.ladder(key)
	l.enter(e.Epoch)
	if floor != 0 && floor <= revoked {
		f.report(fmt.Sprintf("a revoke of key %s took token %d and set the floor to %d, not above it", key, revoked, floor), want{key: key, tokens: [2]int64{revoked}}, l.event, f.book.keep(e))
	}
	if floor > l.floor {
		l.floor, l.raised = floor, f.book.keep(e)
	}
}

// enter begins an epoch: what an older one has left in the log binds nobody there.
func (l *ladder) enter(epoch int) {
	if epoch > l.epoch {
		l.epoch, l.last, l.floor = epoch, 0, 0
	}
}

// logged judges a grant in the order of commits.
func (f *grants) logged(g *grant, e *history.Event) {
	l := f.ladder(g.key)
	if e.Msg == snapshot { // granted in an earlier epoch, or before the log begins
		l.enter(e.Epoch)
		l.last, l.event, l.session = g.token, f.book.keep(e), g.session
		return
	}
	f.granted++
	f.checked++
	if l.event != nil {
		f.regrants++
		switch {
		case g.session == l.session:
			f.reentries++
		case g.overwrote:
			f.takeovers++
		}
	}
	l.enter(e.Epoch)
	if l.event != nil && l.event.Epoch < e.Epoch || l.event != nil && l.event.Msg == snapshot && e.Epoch > 0 {
		f.across++
	}
	kept := f.book.keep(e)
	w := want{key: g.key, tokens: [2]int64{g.token, l.last}}
	switch {
	case g.token == l.last:
		f.report(fmt.Sprintf("key %s was granted twice with token %d, the second time to %s", g.key, g.token, g.owner), w, l.event, kept)
	case g.token < l.last:
		f.report(fmt.Sprintf("%s was granted key %s with token %d after %d had been granted", g.owner, g.key, g.token, l.last), w, l.event, kept)
	case g.token < l.floor:
		f.report(fmt.Sprintf("%s was granted key %s with token %d after a revoke had raised its floor to %d", g.owner, g.key, g.token, l.floor), w, l.event, l.raised, kept)
	}
	if l.session = g.session; g.token > l.last {
		l.last, l.event = g.token, kept
	}
	l.match(g.token)
}

// match joins a logged token with its answer, whichever came first.
func (l *ladder) match(token int64) {
	for i, a := range l.awaiting {
		if a.answer.Granted == token {
			l.awaiting = slices.Delete(l.awaiting, i, i+1)
			return
		}
	}
	if len(l.logged) == maxLogged {
		l.forgotten = max(l.forgotten, l.logged[0])
		l.logged = slices.Delete(l.logged, 0, 1)
	}
	l.logged = append(l.logged, token)
}

// acquired judges an answered grant against what had been answered before the request was sent, and looks for it in
// the log of the epoch in which both were.
func (f *grants) acquired(e *history.Event, c *call) {
	if e.Granted == 0 {
		f.unresolved++
		return
	}
	f.checked++
	kept := f.book.keep(e)
	f.against(e, c, kept)
	if f.book.spans(c) {
		f.unresolved++
		return
	}
	l := f.ladder(e.Key)
	if i := slices.Index(l.logged, e.Granted); i >= 0 {
		l.logged = slices.Delete(l.logged, i, i+1)
		return
	}
	if e.Granted <= l.forgotten || f.blind {
		f.unresolved++
		return
	}
	if covered(f.book.covers[history.LockDB], e.T) {
		f.missing(l, answeredGrant{c.sent, kept})
		return
	}
	l.awaiting = append(l.awaiting, answeredGrant{c.sent, kept})
}

// against judges an answered grant by what had been answered for its key when it was sent: within its epoch, which nothing
// excuses, and before, which a store may have forgotten.
func (f *grants) against(e *history.Event, c *call, kept *history.Event) {
	if !f.book.spans(c) && f.below(e, c, kept, c.since, f.report) != "" {
		return
	}
	report, forgotten := f.report, false
	if higher := c.ever.above(e.Granted); higher != nil && f.book.forgettable(*higher, e) {
		report, forgotten = f.reportAcross, true
	}
	if told := f.below(e, c, kept, c.ever, report); told != "" && forgotten && e.Granted <= c.ever.granted.token {
		f.issues.forgot(told, f.book.begunBy)
	}
}

// below reports a grant that is below what had been answered, and gives the sentence; "" where it is not.
func (f *grants) below(e *history.Event, c *call, kept *history.Event, a answers, report func(string, want, ...*history.Event)) (told string) {
	switch w := (want{key: e.Key, tokens: [2]int64{e.Granted, a.granted.token}}); a.above(e.Granted) {
	case nil:
	case &a.granted:
		told = fmt.Sprintf("%s was answered token %d for key %s, although %d had been answered before it asked", e.Proc, e.Granted, e.Key, a.granted.token)
		report(told, w, a.granted.event, c.sent, kept)
	default:
		told = fmt.Sprintf("%s was answered token %d for key %s, although a revoke had raised its floor to %d before it asked", e.Proc, e.Granted, e.Key, a.floor.token)
		report(told, w, a.granted.event, a.floor.event, c.sent, kept)
	}
	return told
}

// settle concludes about the answers that the log has passed by: a grant is committed before it is answered.
func (f *grants) settle(covers int64) {
	for _, key := range sortedKeys(f.keys) {
		l := f.keys[key]
		for len(l.awaiting) > 0 && covered(covers, l.awaiting[0].answer.T) {
			f.missing(l, l.awaiting[0])
			l.awaiting = l.awaiting[1:]
		}
	}
}

func (f *grants) missing(l *ladder, a answeredGrant) {
	if f.blind {
		f.unresolved++
		return
	}
	f.report(fmt.Sprintf("%s was answered token %d for key %s, but the lock store's log has no such grant for it", a.answer.Proc, a.answer.Granted, a.answer.Key),
		want{key: a.answer.Key, tokens: [2]int64{a.answer.Granted, l.last}}, a.sent, a.answer, l.event)
}

// renewed: renewing extends a grant and never issues a new one.
func (f *grants) renewed(e *history.Event, c *call) {
	if e.Granted == 0 || e.Granted == e.Token {
		return
	}
	f.report(fmt.Sprintf("%s renewed key %s with token %d and was answered token %d", e.Proc, e.Key, e.Token, e.Granted),
		want{key: e.Key, tokens: [2]int64{e.Token, e.Granted}}, c.sent, f.book.keep(e))
}

func (f *grants) revoked(e *history.Event, c *call) {
	r := readRevocation(e)
	if r.NewTokenFloor == 0 {
		f.unresolved++
		return
	}
	f.revocations++
	f.checked++
	if r.NewTokenFloor > r.RevokedToken {
		return
	}
	f.report(fmt.Sprintf("the revoke of key %s raised the floor to %d, which does not exceed the revoked token %d", e.Key, r.NewTokenFloor, r.RevokedToken),
		want{key: e.Key, tokens: [2]int64{r.RevokedToken, r.NewTokenFloor}}, c.sent, f.book.keep(e))
}

// Finish: at the end, what the log does not have was never there, if the log is whole.
func (f *grants) Finish(whole func(history.Witness) bool) {
	f.blind = f.blind || !whole(history.LockDB)
	f.settle(theEnd)
	f.tellTwice()
}

func (f *grants) Verdict() verdict.Invariant {
	return f.verdict(among(map[string]int64{
		"grants": f.granted, "regrants": f.regrants, "takeovers": f.takeovers, "reentries": f.reentries, "revocations": f.revocations,
	}, map[string]int64{"kills_after_grant": f.book.kills.afterGrant, "rewinds": f.book.rewinds, "regrants_across": f.across, "issued_twice": f.issues.found}, f.book.fullDisks.of(contract.LockDB), f.book.failovers.counts(), f.book.injections.ofGrants()))
}
