package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"fenceproof/system/lock"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

const (
	// spareLeases bounds the leases of one TTL that are kept for a next grant.
	spareLeases = 64
	// burials bounds the leases that wait to be revoked. Beyond it they end by themselves.
	burials = 1024
	// digAgain is the pause after a revocation that failed.
	digAgain = 200 * time.Millisecond
)

// lease is a lease of etcd in the hands of this process. Its id was drawn here, so that it can be revoked although the
// answer to its creation was lost.
type lease struct {
	id    int64
	ttl   time.Duration
	sent  time.Time // when the call was sent that last began its TTL: it ends no earlier than ttl after this
	fresh bool      // just created; nothing was granted on it yet
}

// leases creates, keeps, lends and revokes leases. The lease of a released grant serves a next grant of the same TTL:
// creating and revoking one are a write to every disk of the cluster each.
//
// A lease goes back only when it is certain that no key is attached to it and that no transaction which could attach one
// is on its way; any other is buried.
type leases struct {
	store *Store
	floor atomic.Int64 // the shortest TTL that etcd grants, in seconds; 0 is not known yet

	mu    sync.Mutex
	spare map[time.Duration][]lease
	dead  []lease
	work  chan struct{} // something is dead
}

func newLeases(s *Store) *leases {
	return &leases{store: s, spare: map[time.Duration][]lease{}, work: make(chan struct{}, 1)}
}

// check refuses a TTL that etcd would not grant as it is.
func (l *leases) check(ctx context.Context, ttl time.Duration) error {
	if l.floor.Load() == 0 {
		x := newLease(time.Second)
		granted, err := l.request(ctx, x)
		l.drop(x)
		if err != nil {
			return fmt.Errorf("ask for the shortest lease: %w", err)
		}
		l.floor.Store(granted)
	}
	if floor := time.Duration(l.floor.Load()) * time.Second; ttl < floor || ttl%time.Second != 0 {
		return &lock.TTLError{Asked: ttl, Minimum: floor, Step: time.Second}
	}
	return nil
}

func newLease(ttl time.Duration) *lease {
	return &lease{id: rand.Int64N(1<<63-1) + 1, ttl: ttl, sent: time.Now(), fresh: true}
}

// request creates x in etcd and returns the TTL that etcd gave it, in seconds.
func (l *leases) request(ctx context.Context, x *lease) (seconds int64, err error) {
	err = l.store.ask(ctx, func(ctx context.Context, m *member) error {
		r, err := m.leases.LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{ID: x.id, TTL: int64(x.ttl / time.Second)})
		seconds = r.GetTTL()
		return err
	})
	return seconds, err
}

// create makes a lease of ttl. An answer with another TTL is not believed: the lease is revoked.
func (l *leases) create(ctx context.Context, ttl time.Duration) (*lease, error) {
	if err := l.check(ctx, ttl); err != nil {
		return nil, err
	}
	x := newLease(ttl)
	seconds, err := l.request(ctx, x)
	if err != nil {
		l.drop(x)
		return nil, fmt.Errorf("create a lease: %w", err)
	}
	if granted := time.Duration(seconds) * time.Second; granted != ttl {
		l.drop(x)
		l.floor.Store(seconds)
		return nil, &lock.TTLError{Asked: ttl, Minimum: granted, Step: time.Second}
	}
	return x, nil
}

// take lends a spare lease, which must be kept alive before a grant may count on it, or creates one.
func (l *leases) take(ctx context.Context, ttl time.Duration) (*lease, error) {
	if x := l.pop(ttl); x != nil {
		return x, nil
	}
	return l.create(ctx, ttl)
}

func (l *leases) pop(ttl time.Duration) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	for all := l.spare[ttl]; len(all) > 0; all = l.spare[ttl] {
		x := all[len(all)-1]
		l.spare[ttl] = all[:len(all)-1]
		if time.Since(x.sent) < ttl {
			return &x
		}
	}
	delete(l.spare, ttl) // those below are older
	return nil
}

// put takes back a lease that holds no key and never will by what was sent so far.
func (l *leases) put(x *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.spare[x.ttl]) < spareLeases {
		x.fresh = false
		l.spare[x.ttl] = append(l.spare[x.ttl], *x)
	}
}

// keep keeps a lease alive: it lasts its TTL from now. errNoLease when it has ended.
func (l *leases) keep(ctx context.Context, id int64) error {
	return l.store.ask(ctx, func(ctx context.Context, m *member) error { return m.streams.keep(ctx, id) })
}

// remaining is what etcd says is left of a lease, rounded down to seconds.
func (l *leases) remaining(ctx context.Context, id int64) (left time.Duration, err error) {
	err = l.store.ask(ctx, func(ctx context.Context, m *member) error {
		r, err := m.leases.LeaseTimeToLive(ctx, &etcdserverpb.LeaseTimeToLiveRequest{ID: id})
		left = max(0, time.Duration(r.GetTTL())*time.Second)
		return err
	})
	return left, err
}

// revoke ends a lease and with it, in the same step, what it holds. One that has ended already is no error.
func (l *leases) revoke(ctx context.Context, id int64) error {
	err := l.store.ask(ctx, func(ctx context.Context, m *member) error {
		_, err := m.leases.LeaseRevoke(ctx, &etcdserverpb.LeaseRevokeRequest{ID: id})
		return err
	})
	if errors.Is(err, errNoLease) {
		return nil
	}
	return err
}

// drop has a lease revoked soon. Nobody may count on it any more, whatever was sent with it: a transaction that arrives
// after the revocation is refused by etcd, and what one before it has put goes with the lease.
func (l *leases) drop(x *lease) {
	l.mu.Lock()
	if len(l.dead) < burials {
		l.dead = append(l.dead, *x)
	}
	l.mu.Unlock()
	select {
	case l.work <- struct{}{}:
	default:
	}
}

// bury revokes what was dropped until ctx ends.
func (l *leases) bury(ctx context.Context) {
	for ctx.Err() == nil {
		wait, after := l.work, (<-chan time.Time)(nil)
		if x, ok := l.nextDead(); ok {
			if l.revoke(ctx, x.id) == nil {
				continue
			}
			l.drop(&x)
			wait, after = nil, time.After(digAgain)
		}
		select {
		case <-ctx.Done():
		case <-wait:
		case <-after:
		}
	}
}

// nextDead takes the next lease to revoke. One that must have ended by itself since is forgotten; twice its TTL, because
// a new leader gives every lease its TTL anew.
func (l *leases) nextDead() (lease, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.dead) > 0 {
		x := l.dead[0]
		l.dead = l.dead[1:]
		if time.Since(x.sent) < 2*x.ttl+callTimeout {
			return x, true
		}
	}
	return lease{}, false
}
