package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fenceproof/system/lock"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// tries bounds the transactions of one acquire. Each that fails was overtaken by another one's success.
	tries = 4
	// slow is how long an acquire may take before it is asked again whether anything is left of its grant (rule 8).
	slow = 500 * time.Millisecond
)

// TryAcquire puts the lock's key in one transaction, which holds where the key is free, or its holder's session is gone
// or the same, and where the session lives. The token is that transaction's revision, as its own answer says.
func (s *Store) TryAcquire(ctx context.Context, key, ownerID, sessionID string, ttl time.Duration) (lock.Acquired, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	g, err := s.tryAcquire(ctx, wish{key, ownerID, sessionID, ttl})
	if err != nil {
		return lock.Acquired{}, fmt.Errorf("acquire: %w", err)
	}
	return lock.Acquired{Grant: g}, nil
}

// wish is what an acquire asks for.
type wish struct {
	key, ownerID, sessionID string
	ttl                     time.Duration
}

func (s *Store) tryAcquire(ctx context.Context, w wish) (lock.Grant, error) {
	if !isID(w.sessionID) {
		return lock.Grant{}, lock.ErrSessionUnknown
	}
	if err := s.leases.check(ctx, w.ttl); err != nil {
		return lock.Grant{}, err
	}
	done, err := s.turns.Take(ctx, w.key)
	if err != nil {
		return lock.Grant{}, fmt.Errorf("%w: wait for earlier acquires of the key: %w", lock.ErrUnavailable, err)
	}
	defer done()
	seen, live := s.view.guess(w.key)
	for range tries {
		if live && !w.mayReplace(seen) {
			k, err := s.read(ctx, w.key, w.sessionID)
			if err != nil {
				return lock.Grant{}, err
			}
			if seen = k.held; k.live && !w.mayReplace(seen) {
				return lock.Grant{}, s.contended(ctx, w.key, k)
			}
		}
		g, now, err := s.grant(ctx, w, seen)
		if err != nil || g.FencingToken != 0 {
			return g, err
		}
		seen, live = now, now.token != 0
	}
	return lock.Grant{}, &lock.ContendedError{Holder: seen.ownerID, ExpiresAt: wall(time.Now())}
}

// mayReplace tells whether the grant is one that this acquire may replace while it lives: its own (rule 9).
func (w wish) mayReplace(h held) bool {
	return h.token == 0 || h.sessionID == w.sessionID && h.ownerID == w.ownerID
}

// contended names the holder and until when it lives, by what this process knows, or else by etcd's lease.
func (s *Store) contended(ctx context.Context, key string, k keyState) error {
	at, err := s.expiry(ctx, key, k.held)
	if err != nil {
		return err
	}
	return &lock.ContendedError{Holder: k.ownerID, ExpiresAt: at}
}

// grant makes the grant on a lease. When the lock's key is not as it was seen, it returns no grant and what it carries now.
func (s *Store) grant(ctx context.Context, w wish, seen held) (lock.Grant, held, error) {
	x, err := s.leases.take(ctx, w.ttl)
	if err != nil {
		return lock.Grant{}, held{}, err
	}
	g, now, err := s.grantOn(ctx, x, w, seen)
	if errors.Is(err, errNoLease) && !x.fresh {
		// It ended while it was spare. That is a refusal: nothing was put.
		if x, err = s.leases.create(ctx, w.ttl); err != nil {
			return lock.Grant{}, held{}, err
		}
		g, now, err = s.grantOn(ctx, x, w, seen)
	}
	if errors.Is(err, errNoLease) {
		return lock.Grant{}, held{}, &lock.ContendedError{} // rule 8: the lease ran out before anything was granted on it
	}
	return g, now, err
}

// grantOn is grant on the lease x, which it uses up, gives back or drops.
func (s *Store) grantOn(ctx context.Context, x *lease, w wish, seen held) (lock.Grant, held, error) {
	acquiredAt := wall(time.Now())
	kept := s.freshen(ctx, x)
	r, err := s.putGrant(ctx, x, w, seen, acquiredAt)
	keptErr := <-kept
	switch {
	case errors.Is(err, errNoLease):
		return lock.Grant{}, held{}, err
	case err != nil:
		s.leases.drop(x) // whatever became of it, nothing of it stays
		return lock.Grant{}, held{}, err
	case !r.Succeeded:
		if keptErr == nil {
			s.leases.put(x)
		}
		return s.overtaken(r)
	case keptErr != nil:
		s.leases.drop(x)
		if errors.Is(keptErr, errNoLease) {
			return lock.Grant{}, held{}, &lock.ContendedError{} // granted on a lease that was running out: over already
		}
		return lock.Grant{}, held{}, keptErr
	}
	s.replaced(r)
	h := held{token: r.Header.Revision, lease: x.id, ownerID: w.ownerID, sessionID: w.sessionID, ttl: w.ttl, acquiredAt: acquiredAt}
	if time.Since(x.sent) > min(slow, w.ttl/2) {
		if err := s.confirm(ctx, w, h, x); err != nil {
			return lock.Grant{}, held{}, err
		}
	}
	s.view.put(w.key, entry{held: h, deadline: x.sent.Add(w.ttl), own: true})
	return h.grant(w.key, wall(x.sent.Add(w.ttl))), held{}, nil
}

// freshen keeps a spare lease alive, so that it lasts its TTL from here on. It runs beside the transaction: in whatever
// order etcd hears of the two, a lease that was kept did not end in between.
func (s *Store) freshen(ctx context.Context, x *lease) <-chan error {
	kept := make(chan error, 1)
	if x.fresh {
		kept <- nil
		return kept
	}
	x.sent = time.Now()
	go func() { kept <- s.leases.keep(ctx, x.id) }()
	return kept
}

// putGrant is the acquire's transaction.
func (s *Store) putGrant(ctx context.Context, x *lease, w wish, seen held, at time.Time) (*clientv3.TxnResponse, error) {
	name, own := lockPrefix+w.key, exists(sessionPrefix+w.sessionID)
	compare := []clientv3.Cmp{own, carries(w.key, seen.token)}
	if seen.token != 0 && !w.mayReplace(seen) {
		compare = append(compare, absent(sessionPrefix+seen.sessionID))
	}
	value := encode(grantValue{OwnerID: w.ownerID, SessionID: w.sessionID, TTLMillis: w.ttl.Milliseconds(), AcquiredAt: at})
	return s.txn(ctx, compare,
		[]clientv3.Op{clientv3.OpPut(name, value, clientv3.WithLease(clientv3.LeaseID(x.id)), clientv3.WithPrevKV())},
		[]clientv3.Op{clientv3.OpGet(name), clientv3.OpGet(sessionPrefix+w.sessionID, clientv3.WithCountOnly())})
}

// overtaken reads from a transaction that did not hold what the key carries instead.
func (s *Store) overtaken(r *clientv3.TxnResponse) (lock.Grant, held, error) {
	if r.Responses[1].GetResponseRange().Count == 0 {
		return lock.Grant{}, held{}, lock.ErrSessionUnknown
	}
	kvs := r.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return lock.Grant{}, held{}, nil
	}
	h, err := heldOf(kvs[0])
	return lock.Grant{}, h, err
}

// replaced takes in the lease of the grant that a transaction has put another one over: it holds nothing now.
func (s *Store) replaced(r *clientv3.TxnResponse) {
	kv := r.Responses[0].GetResponsePut().PrevKv
	if kv == nil {
		return
	}
	if h, err := heldOf(kv); err == nil {
		s.leases.discard(&lease{id: h.lease, ttl: h.ttl, sent: time.Now()}, 0)
	}
}

// confirm asks whether the grant h, which took long to be made, is live. If not it is given back (rule 8).
func (s *Store) confirm(ctx context.Context, w wish, h held, x *lease) error {
	k, err := s.read(ctx, w.key, w.sessionID)
	over := err == nil && (k.token != h.token || !k.live)
	if err == nil && !over && time.Since(x.sent) < w.ttl {
		return nil
	}
	if s.leases.revoke(context.WithoutCancel(ctx), x.id) != nil {
		s.leases.drop(x)
	}
	if err != nil {
		return err
	}
	return &lock.ContendedError{}
}
