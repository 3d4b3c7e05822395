package synthetic

import (
	"fmt"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// lockStore is lock-server with the store behind it: each of its requests, and what the store does by itself.
type lockStore interface {
	openSession(*call)
	heartbeat(*call)
	closeSession(*call)
	acquire(*call)
	renew(*call)
	release(*call)
	revoke(*call)
	reap(*task)

	proc() contract.Process
	unused() int64            // a token that is never granted to anybody
	lapse() time.Duration     // until everybody can see that a lease has run out
	spare(key string, y bool) // while y, the row of a lapsed grant stays
	takeAway(key string)      // a bug: a grant ends that nobody asked to end
}

func (w *world) newLockStore() lockStore {
	if w.o.Backend == etcdBackend {
		return newEtcd(w)
	}
	return newLocks(w)
}

// entry is a grant, and session a session, as both stores have them.
type entry struct {
	key, owner string
	session    *session
	token      int64
	acquired   int64
	expires    int64
	row        row
}

type session struct {
	id, owner string
	expires   int64
	row       row
}

func (w *world) answerSession(c *call, s *session) {
	c.Session = s.id
	c.answer(201, fmt.Sprintf(`{"sessionId":%q,"ttlMillis":%d,"expiresAt":%q}`, s.id, w.ttl.Milliseconds(), rfc(s.expires)))
}

func (w *world) answerBeat(c *call, s *session, now int64, held int) {
	c.answer(200, fmt.Sprintf(`{"expiresAt":%q,"serverTime":%q,"heldLockCount":%d}`, rfc(s.expires), rfc(now), held))
}

func (w *world) noSession(c *call, s *session) {
	if s != nil {
		c.refuse(410, contract.SessionExpired, "the session has expired, and its grants with it: open a new one", "")
		return
	}
	c.refuse(404, contract.SessionUnknown, "the session is unknown: open a new one", "")
}

func (w *world) contended(c *call, held *entry) {
	c.refuse(409, contract.LockContended, fmt.Sprintf("lock held by %q", held.owner), fmt.Sprintf(`{"holder":%q,"expiresAt":%q}`, held.owner, rfc(held.expires)))
}

func (w *world) grant(c *call, e *entry) {
	w.log(contract.LockServer, "lock_granted", "lock granted", "key", e.key, "ownerId", e.owner, "sessionId", e.session.id, "fencingToken", dec(e.token),
		"expiresAt", rfc(e.expires), "ttlMillis", dec(w.ttl.Milliseconds()), "tookMillis", dec(2+w.rng.Int64N(9)))
	w.answerGrant(c, e)
}

func (w *world) answerGrant(c *call, e *entry) {
	c.Granted = e.token
	c.answer(200, fmt.Sprintf(`{"key":%q,"ownerId":%q,"sessionId":%q,"fencingToken":%d,"acquiredAt":%q,"expiresAt":%q}`,
		e.key, e.owner, e.session.id, e.token, rfc(e.acquired), rfc(e.expires)))
}

func (w *world) notHeld(c *call) {
	c.refuse(404, contract.NotFound, "nobody holds the key", "")
}

func (w *world) answerRevoke(c *call, token, floor int64) {
	c.answer(200, fmt.Sprintf(`{"revokedToken":%d,"newTokenFloor":%d,"revocationId":%d}`, token, floor, floor))
}

// revocation is the row of a revoke; at is "" where the store has no times.
func revocation(e *entry, floor int64, at string) history.Change {
	return inserted("lock_revocation", with(row{"id": dec(floor), "lock_key": e.key, "prev_owner": e.owner, "prev_token": dec(e.token), "token_floor": dec(floor),
		"operator": "operator", "reason": "it has it for too long"}, "revoked_at", at))
}

func (w *world) logRelease(c *call, stale bool) {
	w.log(contract.LockServer, "lock_released", "lock released", "key", c.Key, "ownerId", c.Owner, "fencingToken", dec(c.Token), "stale", fmt.Sprint(stale))
}

func (w *world) logLost(s *session) {
	w.log(contract.LockServer, "session_lost", "session lost", "ownerId", s.owner, "sessionId", s.id, "expiresAt", rfc(s.expires))
}

func (w *world) logExpiry(e *entry) {
	w.log(contract.LockServer, "lease_expired", "lease expired", "key", e.key, "ownerId", e.owner, "sessionId", e.session.id,
		"fencingToken", dec(e.token), "expiresAt", rfc(e.expires))
}

func (w *world) lost(c *call, e *entry) {
	if e == nil {
		c.refuse(409, contract.LockLost, "lock lost: the key is free", "")
		return
	}
	c.refuse(409, contract.LockLost, fmt.Sprintf("lock lost: the key carries token %d", e.token), fmt.Sprintf(`{"storedToken":%d}`, e.token))
}

func inserted(table string, r row) history.Change {
	return history.Change{Table: table, Kind: history.Insert, New: r}
}

func deleted(table string, r row) history.Change {
	return history.Change{Table: table, Kind: history.Delete, Old: r}
}
