package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fenceproof/system/lock"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// countWait bounds how long a count of grants waits until the watch has told everything.
const countWait = 250 * time.Millisecond

// OpenSession begins a session: a lease, and a key on it. Its id is a new UUID.
func (s *Store) OpenSession(ctx context.Context, ownerID string, ttl time.Duration) (lock.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	x, err := s.openSession(ctx, ownerID, ttl)
	if err != nil {
		return lock.Session{}, fmt.Errorf("open a session: %w", err)
	}
	return x, nil
}

func (s *Store) openSession(ctx context.Context, ownerID string, ttl time.Duration) (lock.Session, error) {
	l, err := s.leases.create(ctx, ttl)
	if err != nil {
		return lock.Session{}, err
	}
	id, deadline := uuid.NewString(), l.sent.Add(ttl)
	value := encode(sessionValue{OwnerID: ownerID, TTLMillis: ttl.Milliseconds(), CreatedAt: wall(l.sent)})
	name := sessionPrefix + id
	r, err := s.txn(ctx, []clientv3.Cmp{absent(name)}, []clientv3.Op{clientv3.OpPut(name, value, clientv3.WithLease(clientv3.LeaseID(l.id)))}, nil)
	if err != nil || !r.Succeeded {
		s.leases.drop(l)
	}
	switch {
	case errors.Is(err, errNoLease):
		return lock.Session{}, fmt.Errorf("%w: the session's lease ran out before the session began", lock.ErrUnavailable)
	case err != nil:
		return lock.Session{}, err
	case !r.Succeeded:
		return lock.Session{}, fmt.Errorf("session %s exists already", id)
	}
	s.view.putSession(id, presence{created: r.Header.Revision, lease: l.id, ownerID: ownerID, ttl: ttl, deadline: deadline})
	return lock.Session{ID: id, OwnerID: ownerID, TTL: ttl, ExpiresAt: wall(deadline)}, nil
}

// Heartbeat keeps the session's lease alive and then asks whether its key is still there.
func (s *Store) Heartbeat(ctx context.Context, sessionID string) (lock.Beat, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	b, err := s.heartbeat(ctx, sessionID)
	if err != nil {
		return lock.Beat{}, fmt.Errorf("heartbeat: %w", err)
	}
	return b, nil
}

func (s *Store) heartbeat(ctx context.Context, id string) (lock.Beat, error) {
	x, err := s.session(ctx, id)
	if err != nil {
		return lock.Beat{}, err
	}
	sent := time.Now()
	kept := s.leases.keep(ctx, x.lease)
	if kept != nil && !errors.Is(kept, errNoLease) {
		return lock.Beat{}, kept
	}
	live, revision, err := s.sessionLive(ctx, id)
	switch {
	case err != nil:
		return lock.Beat{}, err
	case !live && kept != nil:
		return lock.Beat{}, lock.ErrSessionExpired
	case !live:
		return lock.Beat{}, lock.ErrSessionUnknown
	case kept != nil:
		return lock.Beat{}, errStillThere
	}
	s.view.beaten(id, sent.Add(x.ttl))
	// The count is told, never relied on: a watch that is behind does not fail the heartbeat.
	counting, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	s.view.reach(counting, revision)
	return lock.Beat{ExpiresAt: wall(sent.Add(x.ttl)), Now: wall(sent), Held: s.view.heldBy(id)}, nil
}

// session is the session as it was opened.
func (s *Store) session(ctx context.Context, id string) (presence, error) {
	if !isID(id) {
		return presence{}, lock.ErrSessionUnknown
	}
	if x, ok := s.view.session(id); ok {
		return x, nil
	}
	r, err := s.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(sessionPrefix + id)}, nil)
	if err != nil {
		return presence{}, err
	}
	kvs := r.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return presence{}, lock.ErrSessionUnknown
	}
	var v sessionValue
	if err := json.Unmarshal(kvs[0].Value, &v); err != nil {
		return presence{}, fmt.Errorf("key %q of etcd holds no session: %w", kvs[0].Key, err)
	}
	return presence{lease: kvs[0].Lease, ownerID: v.OwnerID, ttl: fromMillis(v.TTLMillis)}, nil
}

// CloseSession deletes the session's key: in that one step the session and all its grants are over. Their keys are
// removed by Reap.
func (s *Store) CloseSession(ctx context.Context, sessionID string) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	if err := s.closeSession(ctx, sessionID); err != nil {
		return fmt.Errorf("close a session: %w", err)
	}
	return nil
}

func (s *Store) closeSession(ctx context.Context, id string) error {
	if !isID(id) {
		return lock.ErrSessionUnknown
	}
	name := sessionPrefix + id
	r, err := s.txn(ctx, []clientv3.Cmp{exists(name)}, []clientv3.Op{clientv3.OpDelete(name, clientv3.WithPrevKV())}, nil)
	if err != nil {
		return err
	}
	if !r.Succeeded {
		return lock.ErrSessionUnknown
	}
	s.view.closed(id)
	if kv := r.Responses[0].GetResponseDeleteRange().PrevKvs; len(kv) > 0 {
		s.leases.discard(&lease{id: kv[0].Lease, ttl: lock.MaxTTL, sent: time.Now()}, rest)
	}
	return nil
}

// SessionLive tells whether a session is alive.
func (s *Store) SessionLive(ctx context.Context, sessionID string) (bool, error) {
	if !isID(sessionID) {
		return false, nil
	}
	live, _, err := s.sessionLive(ctx, sessionID)
	if err != nil {
		return false, fmt.Errorf("read a session: %w", err)
	}
	return live, nil
}

func (s *Store) sessionLive(ctx context.Context, id string) (live bool, revision int64, err error) {
	r, err := s.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(sessionPrefix+id, clientv3.WithCountOnly())}, nil)
	if err != nil {
		return false, 0, err
	}
	return r.Responses[0].GetResponseRange().Count > 0, r.Header.Revision, nil
}
