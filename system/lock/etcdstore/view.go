package etcdstore

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"fenceproof/system/lock"
)

// view is what the watch has told of all locks and sessions, and what this process has done itself and not been told yet.
// It is behind etcd: it says what to ask, wakes waiters and finds what to clean up. It decides nothing.
type view struct {
	mu       sync.Mutex
	synced   bool
	revision int64         // everything up to here has been told
	moved    chan struct{} // closed and replaced when revision or synced changes
	wanted   chan struct{} // somebody waits for a revision that no event may bring

	locks    map[string]*entry
	sessions map[string]*presence
	orphans  map[string]int64 // locks whose session is gone, and their tokens: over, and to be removed
	ends     map[string]int64 // locks whose keys this process has deleted, and when: the watch has yet to tell it
	waiters  map[string]map[chan struct{}]struct{}
	suspects []suspect // what may have ended by expiry since the last Reap
	lastErr  error     // why the watch is not established
	unread   map[string]struct{}
	log      *slog.Logger
}

// entry is a lock's key.
type entry struct {
	held
	deadline time.Time // when the lease runs out by what this process has sent; zero: it sent nothing
	own      bool      // this process has made the grant, and the lease
}

// presence is a session's key.
type presence struct {
	created  int64 // revision
	lease    int64
	ownerID  string
	ttl      time.Duration
	deadline time.Time // as entry's
	keys     map[string]struct{}
}

func newView(log *slog.Logger) *view {
	return &view{log: log, unread: map[string]struct{}{}, moved: make(chan struct{}), wanted: make(chan struct{}, 1), locks: map[string]*entry{},
		sessions: map[string]*presence{}, orphans: map[string]int64{}, ends: map[string]int64{}, waiters: map[string]map[chan struct{}]struct{}{}}
}

// suspect is a grant or a session of which this process knows until when its lease lived unless another process kept it
// alive, and whose key went later than that. It has expired unless the lease is still there.
type suspect struct {
	lease   int64
	heard   time.Time
	grant   *lock.Grant
	session *lock.Session
}

const (
	// suspicions bounds what is remembered for the next Reap.
	suspicions = 4096
	// unreadable bounds the keys that were complained of.
	unreadable = 1024
)

// suspect remembers x. The caller holds mu.
func (v *view) suspect(x suspect) {
	if len(v.suspects) < suspicions {
		x.heard = time.Now()
		v.suspects = append(v.suspects, x)
	}
}

// complain says once that a key's value is not one of this package's. The caller holds mu.
func (v *view) complain(key []byte, err error) {
	if _, known := v.unread[string(key)]; known || len(v.unread) >= unreadable {
		return
	}
	v.unread[string(key)] = struct{}{}
	v.log.Error("a key of etcd cannot be read and is left aside: nobody can acquire that lock or heartbeat that session until it is deleted",
		"key", string(key), "error", err.Error())
}

// advance says that everything up to revision has been told. The caller holds mu.
func (v *view) advance(revision int64, synced bool) {
	v.revision, v.synced = max(v.revision, revision), synced
	close(v.moved)
	v.moved = make(chan struct{})
}

// reach waits until everything up to revision has been told, and tells whether it was.
func (v *view) reach(ctx context.Context, revision int64) bool {
	for {
		v.mu.Lock()
		there, moved := v.synced && v.revision >= revision, v.moved
		v.mu.Unlock()
		if there {
			return true
		}
		select {
		case v.wanted <- struct{}{}:
		default:
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// put notes a grant that this process has made or renewed.
func (v *view) put(key string, e entry) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.locks[key]
	if old != nil && old.token == e.token {
		old.own = old.own || e.own
		if e.deadline.After(old.deadline) {
			old.deadline = e.deadline
		}
		return
	}
	if old != nil && old.token > e.token || e.token < v.ends[key] || v.synced && e.token <= v.revision || v.sessions[e.sessionID] == nil {
		return // over already, or of a session that the watch has not told of yet
	}
	v.set(key, e)
}

// set replaces what is known of a lock. The caller holds mu.
func (v *view) set(key string, e entry) {
	v.unset(key)
	v.locks[key] = &e
	if x := v.sessions[e.sessionID]; x != nil {
		x.keys[key] = struct{}{}
	} else {
		v.orphans[key] = e.token
	}
}

// unset forgets a lock. The caller holds mu.
func (v *view) unset(key string) {
	old := v.locks[key]
	if old == nil {
		return
	}
	delete(v.locks, key)
	delete(v.orphans, key)
	if x := v.sessions[old.sessionID]; x != nil {
		delete(x.keys, key)
	}
}

// forget forgets a grant whose key this process has deleted at revision.
func (v *view) forget(key string, token, revision int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.revision < revision {
		v.ends[key] = revision
	}
	if e := v.locks[key]; e != nil && e.token == token {
		v.unset(key)
	}
}

// putSession notes a session that this process has opened.
func (v *view) putSession(id string, x presence) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if old := v.sessions[id]; old != nil {
		old.deadline = x.deadline
		return
	}
	if v.synced && x.created <= v.revision {
		return // it has come and gone
	}
	x.keys = map[string]struct{}{}
	v.sessions[id] = &x
}

// beaten notes until when a session lives by what this process has sent.
func (v *view) beaten(id string, deadline time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if x := v.sessions[id]; x != nil && deadline.After(x.deadline) {
		x.deadline = deadline
	}
}

// forgetSession ends a session, and all its grants in the same step. The caller holds mu.
func (v *view) forgetSession(id string) {
	x := v.sessions[id]
	if x == nil {
		return
	}
	delete(v.sessions, id)
	for key := range x.keys {
		v.orphans[key] = v.locks[key].token
		v.locks[key].deadline = time.Time{} // the session ended it, not its lease
		v.wake(key)
	}
}

// closed forgets a session that this process has closed.
func (v *view) closed(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forgetSession(id)
}

// guess is what the lock's key probably carries; live tells whether the session probably lives.
func (v *view) guess(key string) (h held, live bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.locks[key]
	if e == nil {
		return held{}, false
	}
	_, over := v.orphans[key]
	return e.held, !over
}

// known is the grant (key, token), as it was made: nothing of that ever changes. It may be over.
func (v *view) known(key string, token int64) (e entry, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.locks[key]; e != nil && e.token == token {
		return *e, true
	}
	return entry{}, false
}

// session is the session as it was opened. It may be gone.
func (v *view) session(id string) (x presence, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := v.sessions[id]; p != nil && p.ttl > 0 {
		return presence{lease: p.lease, ownerID: p.ownerID, ttl: p.ttl}, true
	}
	return presence{}, false
}

// heldBy counts the grants of a session.
func (v *view) heldBy(id string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if x := v.sessions[id]; x != nil {
		return len(x.keys)
	}
	return 0
}

// held counts the grants of all sessions.
func (v *view) held() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.locks) - len(v.orphans)
}

// Watch wakes the receiver when key was deleted or its holder's session is gone.
func (s *Store) Watch(key string) (<-chan struct{}, func()) {
	v, c := s.view, make(chan struct{}, 1)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.waiters[key] == nil {
		v.waiters[key] = map[chan struct{}]struct{}{}
	}
	v.waiters[key][c] = struct{}{}
	return c, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if delete(v.waiters[key], c); len(v.waiters[key]) == 0 {
			delete(v.waiters, key)
		}
	}
}

// wake wakes those who wait for key. The caller holds mu.
func (v *view) wake(key string) {
	for c := range v.waiters[key] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
