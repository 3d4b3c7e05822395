package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fenceproof/system/lock"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// reads bounds the questions of one look at a key. Each after the second finds that the holder whom the one before it found
// has gone with its session, and another one come.
const reads = 12

// keyState is a lock's key at one revision.
type keyState struct {
	held      // zero: there is no key
	live bool // there is one, and its session's too
}

// read reads the lock's key and whether its holder's session lives, as of one revision. The session own must live; empty
// asks for none.
//
// Whose session to ask for is known only when the key was read. A guess is asked for along with the key; when it is
// wrong, a second read asks for the right one. If that finds it alive, it was alive at the first read too, because no
// session comes back: whatever the key carries by now, the first read stands.
func (s *Store) read(ctx context.Context, key, own string) (keyState, error) {
	h, _ := s.view.guess(key)
	var first keyState
	for range reads {
		guess := h.sessionID
		ops := []clientv3.Op{clientv3.OpGet(lockPrefix + key), clientv3.OpGet(sessionPrefix+guess, clientv3.WithCountOnly())}
		if own != "" {
			ops = append(ops, clientv3.OpGet(sessionPrefix+own, clientv3.WithCountOnly()))
		}
		r, err := s.txn(ctx, nil, ops, nil)
		if err != nil {
			return keyState{}, err
		}
		if own != "" && r.Responses[2].GetResponseRange().Count == 0 {
			return keyState{}, lock.ErrSessionUnknown
		}
		live := r.Responses[1].GetResponseRange().Count > 0
		if first.token != 0 && live {
			first.live = true
			return first, nil
		}
		kvs := r.Responses[0].GetResponseRange().Kvs
		if len(kvs) == 0 {
			return keyState{}, nil
		}
		if h, err = heldOf(kvs[0]); err != nil {
			return keyState{}, err
		}
		if h.sessionID == guess {
			return keyState{held: h, live: live}, nil
		}
		first = keyState{held: h}
	}
	return keyState{}, fmt.Errorf("%w: the lock's holders vanish faster than they can be asked for", lock.ErrUnavailable)
}

// expiry is when the grant h ends unless it is renewed: by what this process has sent or, when it knows of nothing that
// lies ahead, by what etcd says is left of the lease. Another process may have renewed it since.
func (s *Store) expiry(ctx context.Context, key string, h held) (time.Time, error) {
	if e, ok := s.view.known(key, h.token); ok && time.Now().Before(e.deadline) {
		return wall(e.deadline), nil
	}
	now := time.Now()
	left, _, err := s.leases.remaining(ctx, h.lease)
	return wall(now.Add(left)), err
}

// latestExpiry is expiry, whoever has renewed the grant: by the later of what this process has sent and what etcd says.
func (s *Store) latestExpiry(ctx context.Context, key string, h held) (time.Time, error) {
	now := time.Now()
	left, _, err := s.leases.remaining(ctx, h.lease)
	at := now.Add(left)
	if e, ok := s.view.known(key, h.token); ok && e.deadline.After(at) {
		at = e.deadline
	}
	return wall(at), err
}

// lost says that (key, token) is over, and what the key carries instead.
func (k keyState) lost(token int64) error {
	if k.token == token {
		return &lock.LostError{} // its session is gone, and with it the grant
	}
	return &lock.LostError{StoredToken: k.token}
}

// Renew keeps the grant's lease alive and then asks whether the key still carries the token and its session lives. The
// key is not touched.
func (s *Store) Renew(ctx context.Context, key string, token int64, ttl time.Duration) (lock.Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	g, err := s.renew(ctx, key, token, ttl)
	if err != nil {
		return lock.Grant{}, fmt.Errorf("renew: %w", err)
	}
	return g, nil
}

func (s *Store) renew(ctx context.Context, key string, token int64, ttl time.Duration) (lock.Grant, error) {
	e, ok := s.view.known(key, token)
	h := e.held
	if !ok || ttl != 0 && ttl != h.ttl {
		k, err := s.read(ctx, key, "")
		if err != nil {
			return lock.Grant{}, err
		}
		if h = k.held; h.token != token || !k.live {
			return lock.Grant{}, k.lost(token)
		}
		if ttl != 0 && ttl != h.ttl {
			return lock.Grant{}, fmt.Errorf("%w: %s, not %s", lock.ErrTTLMismatch, h.ttl, ttl)
		}
	}
	sent := time.Now()
	kept := s.leases.keep(ctx, h.lease)
	if kept != nil && !errors.Is(kept, errNoLease) {
		return lock.Grant{}, kept
	}
	k, err := s.read(ctx, key, "")
	if err != nil {
		return lock.Grant{}, err
	}
	switch {
	case k.token != token || !k.live:
		return lock.Grant{}, k.lost(token)
	case kept != nil:
		return lock.Grant{}, errStillThere
	}
	s.view.put(key, entry{held: h, deadline: sent.Add(h.ttl)})
	return h.grant(key, wall(sent.Add(h.ttl))), nil
}

// Release deletes the key where it carries the token and its session lives: one transaction.
func (s *Store) Release(ctx context.Context, key string, token int64) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	if err := s.release(ctx, key, token); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

func (s *Store) release(ctx context.Context, key string, token int64) error {
	e, ok := s.view.known(key, token)
	h := e.held
	if !ok {
		k, err := s.read(ctx, key, "")
		if err != nil {
			return err
		}
		if h = k.held; h.token != token || !k.live {
			return k.lost(token)
		}
	}
	name := lockPrefix + key
	r, err := s.txn(ctx, []clientv3.Cmp{carries(key, token), exists(sessionPrefix + h.sessionID)},
		[]clientv3.Op{clientv3.OpDelete(name)}, []clientv3.Op{clientv3.OpGet(name)})
	if err != nil {
		return err
	}
	if !r.Succeeded {
		k := keyState{}
		if kvs := r.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
			k.token = kvs[0].ModRevision
		}
		return k.lost(token)
	}
	s.view.forget(key, token, r.Header.Revision)
	if e.own && !e.deadline.IsZero() {
		s.leases.put(&lease{id: h.lease, ttl: h.ttl, sent: e.deadline.Add(-h.ttl)})
	} else { // another process made the grant, and may yet revoke its lease
		s.leases.discard(&lease{id: h.lease, ttl: h.ttl, sent: time.Now()}, rest)
	}
	return nil
}

// Inspect reads the key. A grant whose session is gone is over, whether or not its key was removed.
func (s *Store) Inspect(ctx context.Context, key string) (lock.Inspection, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	k, err := s.read(ctx, key, "")
	if err != nil {
		return lock.Inspection{}, fmt.Errorf("inspect: %w", err)
	}
	if !k.live {
		return lock.Inspection{}, nil
	}
	at, err := s.latestExpiry(ctx, key, k.held)
	if err != nil {
		return lock.Inspection{}, fmt.Errorf("inspect: %w", err)
	}
	return lock.Inspection{Held: true, Grant: k.grant(key, at)}, nil
}

// Revoke deletes the key of a live grant and writes the audit in one transaction, whose revision is the new floor: no
// later one is below it.
func (s *Store) Revoke(ctx context.Context, key, operator, reason string, expected int64) (lock.Revocation, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	for range tries {
		k, err := s.read(ctx, key, "")
		switch {
		case err != nil:
			return lock.Revocation{}, fmt.Errorf("revoke: %w", err)
		case !k.live:
			return lock.Revocation{}, fmt.Errorf("revoke: %w", lock.ErrNotHeld)
		case expected != 0 && k.token != expected:
			return lock.Revocation{}, fmt.Errorf("revoke: %w", &lock.TokenMismatchError{StoredToken: k.token})
		}
		r, err := s.revoke(ctx, key, operator, reason, k.held)
		if err != nil || r.ID != "" {
			return r, err
		}
	}
	return lock.Revocation{}, fmt.Errorf("%w: revoke: the lock changes hands faster than it can be revoked", lock.ErrUnavailable)
}

// revoke ends the grant h. No revocation and no error: the key has changed since h was read.
func (s *Store) revoke(ctx context.Context, key, operator, reason string, h held) (lock.Revocation, error) {
	x := lock.Revocation{ID: uuid.NewString(), OwnerID: h.ownerID, RevokedToken: h.token}
	audit := encode(revocationValue{Key: key, OwnerID: h.ownerID, SessionID: h.sessionID, RevokedToken: h.token,
		Operator: operator, Reason: reason, RevokedAt: wall(time.Now())})
	r, err := s.txn(ctx, []clientv3.Cmp{carries(key, h.token), exists(sessionPrefix + h.sessionID)},
		[]clientv3.Op{clientv3.OpDelete(lockPrefix + key), clientv3.OpPut(revocationPrefix+x.ID, audit)}, nil)
	if err != nil {
		return lock.Revocation{}, fmt.Errorf("revoke: %w", err)
	}
	if !r.Succeeded {
		return lock.Revocation{}, nil
	}
	x.NewTokenFloor = r.Header.Revision
	s.view.forget(key, h.token, r.Header.Revision)
	s.leases.discard(&lease{id: h.lease, ttl: h.ttl, sent: time.Now()}, rest)
	return x, nil
}

// Held counts the live grants, as of a revision that etcd has confirmed just now.
func (s *Store) Held(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	r, err := s.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(prefix, clientv3.WithCountOnly())}, nil)
	if err != nil {
		return 0, fmt.Errorf("count the grants: %w", err)
	}
	counting, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	if !s.view.reach(counting, r.Header.Revision) {
		return 0, fmt.Errorf("count the grants: %w: the watch is behind", lock.ErrUnavailable)
	}
	return s.view.held(), nil
}
