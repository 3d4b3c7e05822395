package reports

import (
	"slices"
	"strconv"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// grant is a lease that may still be held. Times are nanoseconds.
type grant struct {
	client, account, key string
	token                int64
	from, until          int64 // until: when it runs out unless it is renewed; −1 where nobody said
	ttl                  int64
}

// closed is a lease that is over.
type closed struct {
	grant
	to  int64
	end leaseEnd
}

// leases follows the grants of every key from the lock server's answers; the lock store's log adds what no answer
// shows: the end of a session. Its memory is proportional to the keys.
type leases struct {
	subjects subjects
	byKey    map[string]*grant
	emit     func(closed)
}

func newLeases(s subjects, emit func(closed)) *leases {
	return &leases{subjects: s, byKey: map[string]*grant{}, emit: emit}
}

// call takes an answered call of the lock server.
func (l *leases) call(c *call) {
	ok := c.status >= 200 && c.status < 300
	switch c.op {
	case contract.OpAcquire:
		if ok && c.granted > 0 {
			l.close(c.key, c.answered, endTaken)
			g := &grant{client: c.from, account: l.subjects.of(c.key), key: c.key, token: c.granted, from: c.answered, until: -1, ttl: c.ttl}
			if c.ttl > 0 {
				g.until = c.answered + c.ttl
			}
			l.byKey[c.key] = g
		}
	case contract.OpRenew:
		if g := l.byKey[c.key]; ok && g != nil && g.token == c.token {
			if ttl := max(c.ttl, g.ttl); ttl > 0 {
				g.until = c.answered + ttl
			}
		}
	case contract.OpRelease:
		if g := l.byKey[c.key]; ok && g != nil && g.token == c.token {
			l.close(c.key, c.answered, endReleased)
		}
	}
}

// commit takes a commit of the lock store: a row that is gone is a grant that is over. The holder's own release is
// answered first or a moment later; either way it was a release.
func (l *leases) commit(e *history.Event, releasing func(token int64) bool) {
	for i := range e.Changes {
		c := &e.Changes[i]
		if c.Table != "lock_entry" || c.Kind != history.Delete {
			continue
		}
		key, text := c.Old["lock_key"], c.Old["fencing_token"]
		tok, err := strconv.ParseInt(text, 10, 64)
		g := l.byKey[key]
		if err != nil || g == nil || g.token != tok {
			continue
		}
		switch {
		case releasing(tok):
			l.close(key, e.T, endReleased)
		case revokes(e, key):
			l.close(key, e.T, endRevoked)
		default:
			l.close(key, e.T, endDeleted)
		}
	}
}

// revokes tells whether a commit has the row of a revoke of key.
func revokes(e *history.Event, key string) bool {
	return slices.ContainsFunc(e.Changes, func(c history.Change) bool { return c.Table == "lock_revocation" && c.New["lock_key"] == key })
}

// close ends the grant of a key at t, or at its expiry where that was earlier.
func (l *leases) close(key string, t int64, how leaseEnd) {
	g := l.byKey[key]
	if g == nil {
		return
	}
	delete(l.byKey, key)
	if g.until >= 0 && g.until < t {
		t, how = g.until, endExpired
	}
	l.emit(closed{grant: *g, to: max(t, g.from), end: how})
}

// finish ends what is held when the history ends.
func (l *leases) finish(t int64) {
	for key := range l.byKey {
		l.close(key, t, endOpen)
	}
}
