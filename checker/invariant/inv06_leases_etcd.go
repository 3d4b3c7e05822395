// INV-06 on etcd: a key never has two holders, and a lapsed grant stays lapsed.

package invariant

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// etcdLeases follows the grants in the order of etcd's revisions. etcd's log bears no times and no renewals: when a lease
// runs out is etcd's own affair, on its monotonic clock, and all that is ever seen of it is that the key goes. So the
// wiretap has to say how long a grant must have lived at least: a lease that was made or renewed on behalf of a request
// cannot run out before the request's forwarding + TTL. Two conclusions cross from one witness to the other, and both
// stand whichever event arrives first, because an event is recorded after what it reports and a forwarding before it:
//
//   - a grant whose end was recorded earlier than that, and that nobody asked to end, ended early;
//   - a renewal that was forwarded after the end of its grant had been recorded, and succeeded, revived a lapsed grant.
//
// The rules of the log alone are those of the other store: see leases.
type etcdLeases struct {
	findings
	keys     map[string]*etcdKey
	sessions map[string]*etcdSession
	dead     recentSessions    // the ended ones
	beats    map[int64]sending // open heartbeats, by call
	passed   int64             // the wiretap has recorded everything up to this T
	early    []*etcdEnd        // ended without a cause in the log, in order; the wiretap has not passed them
	open     bool              // at the end: the wiretap is not whole
	danger   leaseDanger

	granted, renewed, lapsed, takeovers int64
}

// etcdKey is one key: the grant that lives by the log, those that ended, and what the wiretap saw of them.
type etcdKey struct {
	grant     *etcdGrant
	ends      []*etcdEnd
	lives     []life
	forgotten int64 // the highest token dropped from lives
	asks      []ask // the latest acquires, in order of their forwardings
	unasked   int64 // T of the latest forwarding that was dropped from asks
}

// etcdGrant is a grant in the log.
type etcdGrant struct {
	owner, session string
	token          int64
	ttl            int64 // nanoseconds
	carried        bool  // the store began its epoch with it
	event          *history.Event
}

// etcdEnd is the end of a grant in the log.
type etcdEnd struct {
	etcdGrant
	key      string
	event    *history.Event
	cause    endCause
	reentry  bool // its session was granted the key again
	followed bool // the next grant of the key was another session's
	counted  bool // as a take-over
	told     bool // a violation has been reported of it; one is enough
}

type endCause uint8

const (
	causeNone     endCause = iota // nobody asked for it, and nobody was told of the grant, as far as is known
	causeReentry                  // its session was granted the key again
	causeRelease                  // or a revoke
	causeSession                  // the end of its session
	causeLapse                    // its lease ran out
	causeReported                 // none, and that has been said; or nobody can know
)

// life is what the wiretap says of one grant.
type life struct {
	token    int64
	sign     *history.Event // the last forwarding of an acquire or renewal that was answered as a success
	renewal  *exchange      // the last renewal that was
	granted  *history.Event // the forwarding of the acquire that was answered the token
	released int64          // T of the first release's forwarding, 0 without one
}

type etcdSession struct {
	opened *history.Event
	keys   map[string]struct{}
}

// recentSessions are the latest sessions to which something happened, with the event of that.
type recentSessions struct {
	events map[string]*history.Event
	order  []string
}

// How many ended grants of a key and how many sessions are remembered, so that what comes after them is seen.
const (
	maxEnds   = 64
	maxRecent = 512
)

func newEtcdLeases(b *book, t *tally) *etcdLeases {
	return &etcdLeases{
		findings: newLeases(b, t).findings,
		keys:     map[string]*etcdKey{}, sessions: map[string]*etcdSession{}, beats: map[int64]sending{},
		dead: newRecentSessions(), danger: newLeaseDanger(),
	}
}

func (f *etcdLeases) RestsOn() []history.Witness {
	return []history.Witness{history.LockDB, history.Wiretap}
}

func (f *etcdLeases) Observe(e *history.Event) {
	f.explain(e)
	f.danger.hear(e)
	if f.book.anew {
		f.begin()
	}
	switch {
	case e.W == history.LockDB && e.Op == history.OpCommit && !f.book.lost[history.LockDB]:
		f.commit(e)
	case e.W == history.Wiretap:
		f.hear(e)
	}
}

func (f *etcdLeases) key(name string) *etcdKey {
	k := f.keys[name]
	if k == nil {
		k = &etcdKey{}
		f.keys[name] = k
	}
	return k
}

// begin forgets all of an older epoch, in which the same tokens were other grants'. What was left to the wiretap is decided
// as far as it has been heard; of the rest nobody can know. What has ended stays ended, unless the snapshot knows better. Of a heartbeat
// that is under way nobody knows which store will answer it.
func (f *etcdLeases) begin() {
	f.passed = max(f.passed, f.book.heard)
	f.settle()
	for _, x := range f.early {
		if x.cause == causeNone {
			f.unresolved++
		}
	}
	f.early = nil
	clear(f.sessions)
	clear(f.keys)
	clear(f.beats)
}

// commit takes one revision: first the sessions that begin, then the grants, then the sessions that end.
func (f *etcdLeases) commit(e *history.Event) {
	c := &leaseCommit{event: e, judged: e.Msg != snapshot}
	for i := range e.Changes {
		c.read(&e.Changes[i])
		if ch := &e.Changes[i]; ch.Table == "lock_session" && ch.Kind == history.Insert {
			f.sessions[ch.New["session_id"]] = &etcdSession{opened: f.book.keep(e), keys: map[string]struct{}{}}
			f.dead.remove(ch.New["session_id"])
		}
	}
	for i := range e.Changes {
		if ch := &e.Changes[i]; ch.Table == "lock_entry" {
			f.entry(c, ch)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.ended)) {
		f.endSession(c, id)
	}
}

// entry takes one change of a key's row. Every row changes from what it was last seen to hold.
func (f *etcdLeases) entry(c *leaseCommit, ch *history.Change) {
	name := rowID(ch, "lock_key")
	k := f.key(name)
	var seen int64
	if k.grant != nil {
		seen = k.grant.token
	}
	if before := history.Int(ch.Old["fencing_token"]); before != seen || ch.New == nil && k.grant == nil {
		f.book.hole(history.LockDB, "key %s was last seen with token %d and then changed from token %d: revisions between are missing", name, seen, before)
		return
	}
	kept := f.book.keep(c.event)
	if ch.New == nil {
		f.ended(c, f.end(k, name, kept))
		return
	}
	g := &etcdGrant{owner: ch.New["owner_id"], session: ch.New["session_id"], token: history.Int(ch.New["fencing_token"]),
		ttl: history.Int(ch.New["ttl_ms"]) * int64(time.Millisecond), carried: !c.judged && f.book.epoch > 0, event: kept}
	if c.judged {
		f.began(k, name, g)
	}
	if k.grant != nil {
		x := f.end(k, name, kept)
		if x.reentry = x.session == g.session; !x.reentry || !c.judged {
			x.cause = causeReported
		}
		f.await(x)
	}
	k.ends = slices.DeleteFunc(k.ends, func(x *etcdEnd) bool { return x.token == g.token })
	k.grant = g
	if s := f.sessions[g.session]; s != nil {
		s.keys[name] = struct{}{}
	}
}

// began judges a new grant against what stands there.
func (f *etcdLeases) began(k *etcdKey, name string, g *etcdGrant) {
	f.granted++
	f.checked++
	w := want{key: name, tokens: [2]int64{g.token}}
	if f.sessions[g.session] == nil {
		what := "which was never opened"
		gone := f.dead.events[g.session]
		if gone != nil {
			what = "which had ended"
		}
		f.report(fmt.Sprintf("%s was granted key %s with token %d in session %s, %s", g.owner, name, g.token, g.session, what),
			w, gone, f.book.key(name).ever.granted.event, g.event)
	}
	if was := k.grant; was != nil && (was.session != g.session || was.owner != g.owner) {
		w.tokens[1] = was.token
		f.report(fmt.Sprintf("%s was granted key %s with token %d, while %s held it with token %d", g.owner, name, g.token, was.owner, was.token), w, was.event, g.event)
	}
	if n := len(k.ends); k.grant == nil && n > 0 && k.ends[n-1].session != g.session {
		k.ends[n-1].followed = true
		f.takenOver(k.ends[n-1])
	}
}

// ranOut notes that x ended because its lease or its session did.
func (f *etcdLeases) ranOut(x *etcdEnd, cause endCause) {
	x.cause = cause
	f.lapsed++
	f.takenOver(x)
}

// takenOver counts a take-over behind a lapsed grant, once both are known.
func (f *etcdLeases) takenOver(x *etcdEnd) {
	if x.followed && !x.counted && (x.cause == causeSession || x.cause == causeLapse) {
		x.counted = true
		f.takeovers++
	}
}

// end takes the living grant from the key and its session.
func (f *etcdLeases) end(k *etcdKey, name string, at *history.Event) *etcdEnd {
	x := &etcdEnd{etcdGrant: *k.grant, key: name, event: at}
	if s := f.sessions[x.session]; s != nil {
		delete(s.keys, name)
	}
	if len(k.ends) == maxEnds {
		k.ends = slices.Delete(k.ends, 0, 1)
	}
	k.grant, k.ends = nil, append(k.ends, x)
	if l := k.life(x.token); l != nil && l.renewal != nil {
		f.revived(x, l.renewal)
	}
	return x
}

// ended looks for the cause of a grant's end in its commit, and else leaves it to the wiretap.
func (f *etcdLeases) ended(c *leaseCommit, x *etcdEnd) {
	switch {
	case x.cause != causeNone:
	case !c.judged:
		x.cause = causeReported
	case c.ended[x.session]:
		f.danger.ended(x.session)
		f.checked++
		f.ranOut(x, causeSession)
	case c.revoked[x.key] == x.token:
		x.cause = causeRelease
		f.checked++
	default:
		f.await(x)
	}
}

// await leaves it to the wiretap to explain x.
func (f *etcdLeases) await(x *etcdEnd) {
	if x.cause == causeNone {
		f.early = append(f.early, x)
		f.settle()
	}
}

// endSession: the grants of a session end with it, in the same commit.
func (f *etcdLeases) endSession(c *leaseCommit, id string) {
	s := f.sessions[id]
	if s == nil {
		f.book.hole(history.LockDB, "session %s ended and was never seen to begin: revisions before are missing", id)
		return
	}
	delete(f.sessions, id)
	delete(f.danger.closing, id)
	f.dead.add(id, f.book.keep(c.event))
	if !c.judged {
		return
	}
	f.checked++
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		if g := f.keys[key].grant; g != nil && g.session == id {
			f.report(fmt.Sprintf("session %s ended, but its grant of key %s with token %d did not end in the same commit", id, key, g.token),
				want{key: key, tokens: [2]int64{g.token}}, s.opened, g.event, f.book.keep(c.event))
		}
	}
}

func newRecentSessions() recentSessions {
	return recentSessions{events: map[string]*history.Event{}}
}

func (s *recentSessions) add(id string, e *history.Event) {
	if !s.has(id) {
		if len(s.order) == maxRecent {
			delete(s.events, s.order[0])
			s.order = slices.Delete(s.order, 0, 1)
		}
		s.order = append(s.order, id)
	}
	s.events[id] = e
}

func (s *recentSessions) remove(id string) {
	if s.has(id) {
		delete(s.events, id)
		s.order = slices.DeleteFunc(s.order, func(x string) bool { return x == id })
	}
}

func (s *recentSessions) has(id string) bool {
	_, there := s.events[id]
	return there
}

func (f *etcdLeases) Verdict() verdict.Invariant {
	return f.verdict(among(f.danger.counts(map[string]int64{"grants": f.granted, "renewals": f.renewed, "lapsed": f.lapsed, "takeovers": f.takeovers}), map[string]int64{"kills_holding": f.book.kills.holding}, f.book.messages.order(), f.book.injections.late(), f.book.clocks.ofStores()))
}

// life is what the wiretap says of the key's grant with token; nil where it says nothing.
func (k *etcdKey) life(token int64) *life {
	for i := range k.lives {
		if k.lives[i].token == token {
			return &k.lives[i]
		}
	}
	return nil
}

func (k *etcdKey) ended(token int64) *etcdEnd {
	for _, x := range k.ends {
		if x.token == token {
			return x
		}
	}
	return nil
}

// lifeOf is life, begun where there was none.
func (k *etcdKey) lifeOf(token int64) *life {
	if l := k.life(token); l != nil {
		return l
	}
	if len(k.lives) == maxTokens {
		k.forgotten = max(k.forgotten, k.lives[0].token)
		k.lives = slices.Delete(k.lives, 0, 1)
	}
	k.lives = append(k.lives, life{token: token})
	return &k.lives[len(k.lives)-1]
}

// atLeast is until when the grant must have lived, unless somebody ended it.
func (l *life) atLeast(ttl int64) int64 { return l.sign.T + ttl }
