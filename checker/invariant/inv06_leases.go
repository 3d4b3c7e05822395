// INV-06: a key never has two holders: every grant begins where the one before it has ended.

package invariant

import (
	"fmt"
	"maps"
	"slices"

	"fenceproof/checker/history"
)

// leases follows lockdb's rows in commit order within an epoch. Its times are the database's own: now() of a statement
// is in the rows that it wrote, and the log says when a transaction was committed. A row that is deleted before it has
// expired needs a cause: its session or a revoke in the same commit, or a release under its token on the wiretap.
type leases struct {
	findings
	keys     map[string]*leaseKey
	sessions map[string]*leaseSession
	clock    lockdbClock
	epoch    int
	passed   int64 // the wiretap has recorded everything up to this T
	early    []earlyEnd
	open     bool // at the end: the wiretap is not whole

	granted, renewed, lapsed, takeovers int64
	endsJudged                          int64 // early ends that no wrong clock explains, after there had been one
	danger                              leaseDanger
}

// leaseKey is a key: its row, if there is one, and what the wiretap saw of it.
type leaseKey struct {
	row      *leaseRow
	asked    sayings    // releases that were sent
	answered sayings    // grants that were answered
	unheard  []earlyEnd // before anybody was told of the grant
}

// leaseRow is a row of lock_entry, and the commit that made it what it is.
type leaseRow struct {
	owner, session    string
	token             int64
	acquired, expires instant
	ttl               instant
	carried           bool // the store began its epoch with it
	event             *history.Event
}

// leaseSession is a row of lock_session with the keys granted to it.
type leaseSession struct {
	expires, ttl   instant
	opened, beaten *history.Event
	keys           map[string]struct{}
}

func newLeases(b *book, t *tally) *leases {
	return &leases{
		findings: findings{id: "INV-06", guarantee: "A key never has two holders: a grant begins where the one before it was released, re-entered, revoked or has expired, and a lapsed one stays lapsed.", book: b, tally: t},
		keys:     map[string]*leaseKey{}, sessions: map[string]*leaseSession{}, danger: newLeaseDanger(),
	}
}

func (f *leases) RestsOn() []history.Witness {
	return []history.Witness{history.LockDB, history.Wiretap}
}

func (f *leases) Observe(e *history.Event) {
	f.explain(e)
	if f.book.anew {
		f.begin()
	}
	switch {
	case e.W == history.LockDB && e.Op == history.OpCommit && !f.book.lost[history.LockDB]:
		f.commit(e)
	case e.W == history.Wiretap:
		f.hear(e)
	}
	f.danger.hear(e)
}

func (f *leases) key(name string) *leaseKey {
	k := f.keys[name]
	if k == nil {
		k = &leaseKey{}
		f.keys[name] = k
	}
	return k
}

// commit takes one transaction: first the sessions that begin, then the rows, then the sessions that end.
func (f *leases) commit(e *history.Event) {
	f.clock.read(e)
	c := &leaseCommit{event: e, judged: e.Msg != snapshot}
	if c.judged && f.spansStep(e) {
		c.judged = false
		f.unresolved++
	}
	for i := range e.Changes {
		c.read(&e.Changes[i])
	}
	for i := range e.Changes {
		if ch := &e.Changes[i]; ch.Table == "lock_session" && ch.New != nil {
			f.session(c, ch)
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

// begin forgets the rows of an older epoch: what a restored or promoted database holds, its snapshot says. What was left to the
// wiretap is decided as far as it has been heard; of the rest nobody can know. What it said stays: a grant may be carried over.
func (f *leases) begin() {
	f.passed = max(f.passed, f.book.heard)
	f.settle()
	f.unresolved += int64(len(f.early))
	f.early = nil
	f.epoch, f.clock = f.book.epoch, lockdbClock{}
	clear(f.sessions)
	for _, k := range f.keys {
		k.row, k.unheard = nil, nil
		k.asked.begin()
		k.answered.begin()
	}
}

// leaseCommit is what a transaction says besides the row in hand.
type leaseCommit struct {
	event   *history.Event
	judged  bool
	ended   map[string]bool // sessions that it deleted
	revoked map[string]int64
}

func (c *leaseCommit) read(ch *history.Change) {
	switch {
	case ch.Table == "lock_session" && ch.Kind == history.Delete:
		if c.ended == nil {
			c.ended = map[string]bool{}
		}
		c.ended[ch.Old["session_id"]] = true
	case ch.Table == "lock_revocation" && ch.New != nil:
		if c.revoked == nil {
			c.revoked = map[string]int64{}
		}
		c.revoked[ch.New["lock_key"]] = history.Int(ch.New["prev_token"])
	}
}

// spansStep tells whether lockdb's clock was put back while the transaction ran: it began at a later time than it ended.
func (f *leases) spansStep(e *history.Event) bool {
	if e.Committed == 0 {
		return false
	}
	for i := range e.Changes {
		if f.startedAt(&e.Changes[i]) > instant(e.Committed) {
			return true
		}
	}
	return false
}

// startedAt is now() of the transaction as a change shows it, 0 where it does not.
func (f *leases) startedAt(ch *history.Change) instant {
	switch {
	case ch.New == nil:
		return 0
	case ch.Table == "lock_entry" && (ch.Kind == history.Insert || !renewal(ch)):
		return moment(ch.New["acquired_at"])
	case ch.Table == "lock_session" && ch.Kind == history.Insert:
		return moment(ch.New["created_at"])
	case ch.Table == "lock_entry":
		if r := f.key(ch.New["lock_key"]).row; r != nil {
			return moment(ch.New["expires_at"]) - r.ttl
		}
	case ch.Table == "lock_session":
		if s := f.sessions[ch.New["session_id"]]; s != nil {
			return moment(ch.New["expires_at"]) - s.ttl
		}
	}
	return 0
}

// session takes a session that was opened or has beaten.
func (f *leases) session(c *leaseCommit, ch *history.Change) {
	id, expires := ch.New["session_id"], moment(ch.New["expires_at"])
	s := f.sessions[id]
	if ch.Kind == history.Insert || s == nil {
		kept := f.book.keep(c.event)
		s = &leaseSession{expires: expires, ttl: ttlOf(ch.New), opened: kept, beaten: kept, keys: map[string]struct{}{}}
		if s.ttl == 0 && ch.Kind == history.Insert {
			s.ttl = expires - moment(ch.New["created_at"])
		}
		f.sessions[id] = s
		return
	}
	if c.judged && s.ttl > 0 {
		f.checked++
		if now := expires - s.ttl; now >= s.expires {
			f.report(fmt.Sprintf("session %s beat at %s, after it had expired at %s", id, now, s.expires), want{}, s.opened, s.beaten, f.book.keep(c.event))
		}
	}
	s.expires, s.beaten = expires, f.book.keep(c.event)
}

// entry takes one change of a key's row. The log has every commit, so a row changes from what it was last seen to hold.
func (f *leases) entry(c *leaseCommit, ch *history.Change) {
	if seen := f.key(rowID(ch, "lock_key")).row; seen != nil && ch.Old != nil && !seen.is(ch.Old) {
		f.book.hole(history.LockDB, "key %s was last seen with token %d until %s and then changed from token %s: commits between are missing",
			rowID(ch, "lock_key"), seen.token, seen.expires, ch.Old["fencing_token"])
		c.judged = false
	}
	if ch.New == nil {
		f.deleted(c, ch)
		return
	}
	k := f.key(ch.New["lock_key"])
	before := k.row
	if before == nil && ch.Old != nil {
		before = rowOf(ch.Old, nil)
	}
	row := rowOf(ch.New, f.book.keep(c.event))
	if ch.Kind == history.Update && before == nil {
		f.book.hole(history.LockDB, "key %s was changed to token %d, and what it was before was never seen: commits before are missing", ch.New["lock_key"], row.token)
		c.judged = false
	}
	if ch.Kind == history.Update && before != nil && renewal(ch) {
		row.ttl, row.carried = before.ttl, before.carried
		f.extended(c, ch.New["lock_key"], before, row)
		k.row = row
		return
	}
	row.carried = c.event.Msg == snapshot && f.epoch > 0
	f.began(c, ch.New["lock_key"], before, row)
	f.let(before, ch.New["lock_key"])
	if s := f.sessions[row.session]; s != nil {
		s.keys[ch.New["lock_key"]] = struct{}{}
	}
	k.row = row
}

// let takes a key from the session that had it.
func (f *leases) let(row *leaseRow, key string) {
	if row == nil {
		return
	}
	if s := f.sessions[row.session]; s != nil {
		delete(s.keys, key)
	}
}

func rowOf(columns map[string]string, e *history.Event) *leaseRow {
	r := &leaseRow{owner: columns["owner_id"], session: columns["session_id"], token: history.Int(columns["fencing_token"]),
		acquired: moment(columns["acquired_at"]), expires: moment(columns["expires_at"]), event: e}
	if r.ttl = ttlOf(columns); r.ttl == 0 {
		r.ttl = r.expires - r.acquired
	}
	return r
}

// ttlOf is the TTL that a row says of itself, 0 where it says none: then a new one's is the time until its expiry.
func ttlOf(columns map[string]string) instant {
	return instant(history.Int(columns["ttl_ms"]) * 1000)
}

// is tells whether columns are those of r.
func (r *leaseRow) is(columns map[string]string) bool {
	return r.token == history.Int(columns["fencing_token"]) && r.expires == moment(columns["expires_at"])
}

// began judges a new grant against the row that it replaces.
func (f *leases) began(c *leaseCommit, key string, before, row *leaseRow) {
	if !c.judged {
		return
	}
	f.granted++
	w := want{key: key, tokens: [2]int64{row.token}}
	if s := f.sessions[row.session]; s != nil && s.expires != 0 && row.acquired >= s.expires { // both by the store's clock
		f.report(fmt.Sprintf("%s was granted key %s with token %d at %s in session %s, which had expired at %s", row.owner, key, row.token, row.acquired, row.session, s.expires),
			w, s.beaten, f.book.key(key).ever.granted.event, row.event)
	} else if len(f.sessions) > 0 && s == nil {
		f.report(fmt.Sprintf("%s was granted key %s with token %d in session %s, which had ended", row.owner, key, row.token, row.session), w, f.book.key(key).ever.granted.event, row.event)
	}
	if before == nil {
		f.checked++
		return
	}
	if before.session == row.session && before.owner == row.owner {
		f.checked++
		return
	}
	if before.expires == 0 || row.acquired == 0 {
		f.unresolved++
		return
	}
	f.checked++
	if before.expires <= row.acquired {
		f.lapsed++
		f.takeovers++
		return
	}
	w.tokens[1] = before.token
	f.report(fmt.Sprintf("%s was granted key %s with token %d at %s, while %s held it with token %d until %s",
		row.owner, key, row.token, row.acquired, before.owner, before.token, before.expires), w, before.event, row.event)
}

// extended judges a renewal: now() is the new expiry less the grant's TTL.
func (f *leases) extended(c *leaseCommit, key string, before, row *leaseRow) {
	switch {
	case !c.judged:
		return
	case before.ttl <= 0 || before.expires == 0 || row.expires == 0:
		f.unresolved++
		return
	}
	f.checked++
	f.renewed++
	if now := row.expires - before.ttl; now >= before.expires {
		f.report(fmt.Sprintf("%s renewed key %s with token %d at %s, after it had expired at %s", row.owner, key, row.token, now, before.expires),
			want{key: key, tokens: [2]int64{row.token}}, before.event, row.event)
	}
}

// deleted judges the end of a grant.
func (f *leases) deleted(c *leaseCommit, ch *history.Change) {
	key := ch.Old["lock_key"]
	k := f.key(key)
	row := rowOf(ch.Old, nil)
	if k.row != nil {
		row.event, row.carried = k.row.event, k.row.carried
	}
	f.let(row, key)
	k.row = nil
	switch {
	case !c.judged:
	case c.ended[row.session]:
		f.checked++
		f.lapsed++
		f.danger.ended(row.session)
	case c.revoked[key] == row.token:
		f.checked++
	case c.event.Committed == 0 || row.expires == 0:
		f.unresolved++
	case row.expires <= instant(c.event.Committed):
		f.checked++
		f.lapsed++
	default:
		f.early = append(f.early, earlyEnd{key, row, f.book.keep(c.event), f.clock.mayHavePassed(row, c.event, &f.book.clocks)})
		f.settle()
	}
}

// endSession: the grants of a session end with it, in the same commit.
func (f *leases) endSession(c *leaseCommit, id string) {
	s := f.sessions[id]
	if s == nil {
		return
	}
	delete(f.sessions, id)
	defer delete(f.danger.closing, id)
	if !c.judged {
		return
	}
	f.checked++
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		row := f.keys[key].row
		if row == nil || row.session != id {
			continue
		}
		f.report(fmt.Sprintf("session %s ended, but its grant of key %s with token %d did not end in the same commit", id, key, row.token),
			want{key: key, tokens: [2]int64{row.token}}, row.event, s.beaten, f.book.keep(c.event))
	}
}
