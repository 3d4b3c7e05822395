package synthetic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// locks is lock-server and lockdb.
type locks struct {
	w        *world
	sessions []*session // the live ones, in order of opening
	entries  map[string]*entry
	keys     []string // of entries, in order of first use
	token    int64    // the last value of the sequence
	commits  commits
	forget   map[string]bool // keys that the reaper leaves alone
	epoch    int
}

// commits numbers the transactions of a database.
type commits struct {
	xid uint32
	lsn int64
}

func (c *commits) event(rng *rand.Rand, now int64, proc contract.Process, changes []history.Change) history.Event {
	c.xid += 1 + uint32(rng.IntN(2))
	c.lsn += 200 + rng.Int64N(1500)
	return history.Event{Type: contract.OK, Proc: proc, Op: history.OpCommit, XID: c.xid, LSN: fmt.Sprintf("0/%X", c.lsn),
		Committed: micros(now).UnixMicro(), Changes: changes}
}

func newLocks(w *world) *locks {
	return &locks{w: w, entries: map[string]*entry{}, forget: map[string]bool{}, commits: commits{740, 0x1922000}}
}

func (l *locks) commit(changes ...history.Change) {
	e := l.commits.event(l.w.rng, l.w.now, contract.LockDB, changes)
	e.Epoch = l.epoch
	l.w.see(history.LockDB, e)
}

func (l *locks) proc() contract.Process { return contract.LockDB }

func (l *locks) unused() int64 {
	l.token++
	return l.token
}

func (l *locks) lapse() time.Duration { return 100 * time.Millisecond }

func (l *locks) spare(key string, y bool) { l.forget[key] = y }

// takeAway ends a grant that nobody asked to end.
func (l *locks) takeAway(key string) { l.commit(l.free(l.entries[key])) }

// clock is the database's: whole microseconds.
func (l *locks) clock() int64 { return l.w.now - l.w.now%1000 }

func (l *locks) find(id string) *session {
	for _, s := range l.sessions {
		if s.id == id {
			return s
		}
	}
	return nil
}

func (l *locks) openSession(c *call) {
	now := l.clock()
	s := &session{id: l.w.id(), owner: c.Owner, expires: now + int64(l.w.ttl)}
	s.row = row{"session_id": s.id, "owner_id": s.owner, "created_at": stamp(now), "expires_at": stamp(s.expires), "ttl_ms": dec(l.w.ttl.Milliseconds())}
	l.sessions = append(l.sessions, s)
	l.commit(history.Change{Table: "lock_session", Kind: history.Insert, New: s.row})
	l.w.answerSession(c, s)
}

func (l *locks) heartbeat(c *call) {
	now := l.clock()
	s := l.find(c.Session)
	if s == nil || s.expires <= now {
		l.w.noSession(c, s)
		return
	}
	old := s.row
	s.expires = now + int64(l.w.ttl)
	s.row = with(old, "expires_at", stamp(s.expires))
	l.commit(history.Change{Table: "lock_session", Kind: history.Update, Old: old, New: s.row})
	held := 0
	for _, e := range l.entries {
		if e.session == s && e.expires > now {
			held++
		}
	}
	l.w.answerBeat(c, s, now, held)
}

func (l *locks) closeSession(c *call) {
	s := l.find(c.Session)
	if s == nil {
		l.w.noSession(c, nil)
		return
	}
	l.commit(l.end(nil, s)...)
	c.answer(204, "")
}

// end deletes a session and all its grants.
func (l *locks) end(changes []history.Change, s *session) []history.Change {
	l.sessions = slices.DeleteFunc(l.sessions, func(x *session) bool { return x == s })
	changes = append(changes, history.Change{Table: "lock_session", Kind: history.Delete, Old: s.row})
	for _, k := range l.keys {
		if e := l.entries[k]; e != nil && e.session == s {
			changes = append(changes, l.free(e))
		}
	}
	return changes
}

func (l *locks) free(e *entry) history.Change {
	delete(l.entries, e.key)
	return history.Change{Table: "lock_entry", Kind: history.Delete, Old: e.row}
}

// acquire is C1's statement: it burns a token in VALUES, and another where it takes over a row.
func (l *locks) acquire(c *call) {
	now := l.clock()
	s := l.find(c.Session)
	if s == nil || s.expires <= now {
		l.w.noSession(c, s)
		return
	}
	old := l.entries[c.Key]
	l.token++
	if old != nil && old.expires > now && old.session != s && c.bug != GrantWhileHeld {
		l.w.contended(c, old)
		return
	}
	e := &entry{key: c.Key, owner: c.Owner, session: s, token: l.token, acquired: now, expires: now + int64(l.w.ttl)}
	change := history.Change{Table: "lock_entry", Kind: history.Insert}
	if old != nil {
		l.token++
		e.token, change.Kind, change.Old = l.token, history.Update, old.row
	} else if !slices.Contains(l.keys, c.Key) {
		l.keys = append(l.keys, c.Key)
	}
	if c.instead != 0 {
		e.token = c.instead
	}
	e.row = row{"lock_key": e.key, "owner_id": e.owner, "session_id": s.id, "fencing_token": dec(e.token), "acquired_at": stamp(now),
		"expires_at": stamp(e.expires), "ttl_ms": dec(l.w.ttl.Milliseconds())}
	l.entries[c.Key] = e
	if change.New = e.row; c.bug != UnloggedGrant {
		l.commit(change)
	} else {
		delete(l.entries, c.Key)
	}
	l.w.grant(c, e)
}

func (l *locks) renew(c *call) {
	now := l.clock()
	e := l.entries[c.Key]
	if e == nil || e.token != c.Token || e.expires <= now && c.bug != LapsedRenewal {
		l.w.lost(c, e)
		return
	}
	renewed := *e
	renewed.expires = now + int64(l.w.ttl)
	renewed.row = with(e.row, "expires_at", stamp(renewed.expires))
	if c.bug != UnloggedRenewal {
		l.commit(history.Change{Table: "lock_entry", Kind: history.Update, Old: e.row, New: renewed.row})
		*e = renewed
	}
	l.w.answerGrant(c, &renewed)
}

func (l *locks) release(c *call) {
	e := l.entries[c.Key]
	stale := e == nil || e.token != c.Token
	l.w.logRelease(c, stale)
	if stale {
		l.w.lost(c, e)
		return
	}
	l.commit(l.free(e))
	c.answer(204, "")
}

func (l *locks) revoke(c *call) {
	now := l.clock()
	e := l.entries[c.Key]
	if e == nil || e.expires <= now {
		l.w.notHeld(c)
		return
	}
	l.token++
	l.commit(l.free(e), revocation(e, l.token, stamp(now)))
	l.w.answerRevoke(c, e.token, l.token)
}

// reap ends what has expired: sessions with all that they hold, then grants.
func (l *locks) reap(t *task) {
	for {
		t.sleep(reapEvery)
		now := l.clock()
		var changes []history.Change
		for _, s := range slices.Clone(l.sessions) {
			if s.expires <= now {
				changes = l.end(changes, s)
				l.w.logLost(s)
			}
		}
		if changes != nil {
			l.commit(changes...)
		}
		changes = nil
		for _, k := range l.keys {
			if e := l.entries[k]; e != nil && e.expires <= now && !l.forget[k] {
				changes = append(changes, l.free(e))
				l.w.logExpiry(e)
			}
		}
		if changes != nil {
			l.commit(changes...)
		}
	}
}
