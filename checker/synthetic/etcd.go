package synthetic

import (
	"slices"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// etcd is lock-server with etcd behind it. What a key and a session say is in its log, and when their leases run out is
// nobody's business but etcd's: a lapsed grant stands until etcd takes it away, and its holder may keep it until then.
type etcd struct {
	w        *world
	revision int64
	term     int
	sessions []*session
	entries  map[string]*entry
	keys     []string          // of entries, in order of first use
	last     map[string]*entry // the grant of a key that ended last
}

const etcdBackend = "etcd"

const (
	etcdTTL     = 2 * time.Second        // of locks and sessions: etcd grants none below
	expireEvery = 500 * time.Millisecond // how often etcd looks for leases that have run out
)

func newEtcd(w *world) *etcd {
	return &etcd{w: w, revision: 1, term: 2, entries: map[string]*entry{}, last: map[string]*entry{}}
}

func (x *etcd) proc() contract.Process { return "etcd" }

func (x *etcd) unused() int64 {
	x.revision++
	return x.revision
}

func (x *etcd) lapse() time.Duration { return expireEvery + 300*time.Millisecond }

// spare: what has lapsed is gone.
func (x *etcd) spare(string, bool) {}

// commit makes the revision that the changes of a transaction are to have.
func (x *etcd) commit(changes ...history.Change) {
	x.w.see(history.LockDB, history.Event{Type: contract.OK, Proc: x.proc(), Op: history.OpCommit, LSN: dec(x.revision), Changes: changes})
}

func (x *etcd) find(id string) *session {
	for _, s := range x.sessions {
		if s.id == id {
			return s
		}
	}
	return nil
}

func (x *etcd) openSession(c *call) {
	s := &session{id: x.w.id(), owner: c.Owner, expires: x.w.now + int64(x.w.ttl)}
	s.row = row{"session_id": s.id, "owner_id": s.owner, "ttl_ms": dec(x.w.ttl.Milliseconds())}
	x.sessions = append(x.sessions, s)
	x.revision++
	x.commit(inserted("lock_session", s.row))
	x.w.answerSession(c, s)
}

func (x *etcd) heartbeat(c *call) {
	s := x.find(c.Session)
	if s == nil {
		x.w.noSession(c, nil)
		return
	}
	s.expires = x.w.now + int64(x.w.ttl)
	held := 0
	for _, e := range x.entries {
		if e.session == s {
			held++
		}
	}
	x.w.answerBeat(c, s, x.w.now, held)
}

func (x *etcd) closeSession(c *call) {
	s := x.find(c.Session)
	if s == nil {
		x.w.noSession(c, nil)
		return
	}
	x.endSession(s)
	c.answer(204, "")
}

// endSession deletes a session's key: the end of all its grants.
func (x *etcd) endSession(s *session) {
	x.sessions = slices.DeleteFunc(x.sessions, func(o *session) bool { return o == s })
	changes := []history.Change{deleted("lock_session", s.row)}
	for _, k := range x.keys {
		if e := x.entries[k]; e != nil && e.session == s {
			changes = append(changes, x.free(e))
		}
	}
	x.revision++
	x.commit(changes...)
}

func (x *etcd) free(e *entry) history.Change {
	delete(x.entries, e.key)
	x.last[e.key] = e
	return deleted("lock_entry", e.row)
}

func (x *etcd) acquire(c *call) {
	s := x.find(c.Session)
	if s == nil {
		x.w.noSession(c, nil)
		return
	}
	old := x.entries[c.Key]
	if old != nil && old.session != s && c.bug != GrantWhileHeld {
		x.w.contended(c, old)
		return
	}
	x.revision++
	e := &entry{key: c.Key, owner: c.Owner, session: s, token: x.revision, acquired: x.w.now, expires: x.w.now + int64(x.w.ttl)}
	if c.instead != 0 {
		e.token = c.instead
	}
	e.row = row{"lock_key": e.key, "owner_id": e.owner, "session_id": s.id, "fencing_token": dec(e.token), "ttl_ms": dec(x.w.ttl.Milliseconds()),
		"lease": dec(7587870000000000000 + x.w.rng.Int64N(1e15))}
	if c.bug != UnloggedGrant {
		change := inserted("lock_entry", e.row)
		if old != nil {
			change.Kind, change.Old = history.Update, old.row
		} else if !slices.Contains(x.keys, c.Key) {
			x.keys = append(x.keys, c.Key)
		}
		x.entries[c.Key] = e
		x.commit(change)
	}
	x.w.grant(c, e)
}

func (x *etcd) renew(c *call) {
	e := x.entries[c.Key]
	if c.bug == LapsedRenewal {
		e = x.last[c.Key]
	}
	if e == nil || e.token != c.Token {
		x.w.lost(c, e)
		return
	}
	e.expires = x.w.now + int64(x.w.ttl)
	x.w.answerGrant(c, e)
}

func (x *etcd) release(c *call) {
	e := x.entries[c.Key]
	stale := e == nil || e.token != c.Token
	x.w.logRelease(c, stale)
	if stale {
		x.w.lost(c, e)
		return
	}
	x.revision++
	x.commit(x.free(e))
	c.answer(204, "")
}

func (x *etcd) revoke(c *call) {
	e := x.entries[c.Key]
	if e == nil {
		x.w.notHeld(c)
		return
	}
	x.revision++
	x.commit(x.free(e), revocation(e, x.revision, ""))
	x.w.answerRevoke(c, e.token, x.revision)
}

// takeAway ends a grant that nobody asked to end.
func (x *etcd) takeAway(key string) {
	x.revision++
	x.commit(x.free(x.entries[key]))
}

// reap is etcd itself: it deletes what hangs on leases that have run out, one revision each, and now and then it elects
// another leader, who begins every lease anew.
func (x *etcd) reap(t *task) {
	for {
		t.sleep(expireEvery)
		if x.w.chance(3) {
			x.elect()
			continue
		}
		for _, s := range slices.Clone(x.sessions) {
			if s.expires <= x.w.now {
				x.endSession(s)
				x.w.logLost(s)
			}
		}
		for _, k := range x.keys {
			if e := x.entries[k]; e != nil && e.expires <= x.w.now {
				x.revision++
				x.commit(x.free(e))
				x.w.logExpiry(e)
			}
		}
	}
}

func (x *etcd) elect() {
	x.term++
	longer := x.w.now + int64(x.w.ttl+time.Second)
	for _, s := range x.sessions {
		s.expires = longer
	}
	for _, e := range x.entries {
		e.expires = longer
	}
	x.w.see(history.LockDB, history.Event{Type: contract.Info, Proc: x.proc(), Op: history.OpElection, Attrs: map[string]string{"term": dec(int64(x.term))},
		Msg: "etcd is in term " + dec(int64(x.term)) + "; it was " + dec(int64(x.term-1))})
}
