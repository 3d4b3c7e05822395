package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fenceproof/system/lock"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

const (
	// spareLeases bounds the leases of one TTL that are kept for a next grant.
	spareLeases = 64
	// discards bounds the leases without a key that wait to be revoked. Beyond it they end by themselves.
	discards = 1024
	// digAgain is the pause after a revocation that failed.
	digAgain = 200 * time.Millisecond
	// lastDig bounds what Close does about leases that have yet to be revoked.
	lastDig = time.Second
	// rest is how long a lease is left alone whose key was deleted: that it is there tells every lock-server that the key
	// did not go because the lease ran out.
	rest = 5 * time.Second
)

// lease is a lease of etcd in the hands of this process. Its id was drawn here, so that it can be revoked although the
// answer to its creation was lost.
type lease struct {
	id    int64
	ttl   time.Duration
	sent  time.Time // when the call was sent that last began its TTL: it ends no earlier than ttl after this
	fresh bool      // just created; nothing was granted on it yet
	rests time.Time // until when it is left alone although it was discarded
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
	dead  []lease       // to be revoked, because a key may be on them
	empty []lease       // to be revoked, although nothing is on them
	work  chan struct{} // something was added to either
}

func newLeases(s *Store) *leases {
	return &leases{store: s, spare: map[time.Duration][]lease{}, work: make(chan struct{}, 1)}
}

// check refuses a TTL that etcd would not grant as it is.
func (l *leases) check(ctx context.Context, ttl time.Duration) error {
	if l.floor.Load() == 0 {
		x := newLease(time.Second)
		granted, err := l.request(ctx, x)
		l.discard(x, 0)
		if err != nil {
			return fmt.Errorf("ask for the shortest lease: %w", err)
		}
		l.learn(granted)
	}
	if floor := time.Duration(l.floor.Load()) * time.Second; ttl < floor || ttl%time.Second != 0 {
		return &lock.TTLError{Asked: ttl, Minimum: floor, Step: time.Second}
	}
	return nil
}

// learn notes the shortest TTL that etcd grants. Where it is longer than the contract's, somebody should know: sessions and
// locks whose own TTL, or this process's for those that name none, is shorter are all refused.
func (l *leases) learn(seconds int64) {
	floor := time.Duration(seconds) * time.Second
	if l.floor.Swap(seconds) != seconds && floor > lock.MinTTL {
		l.store.log.Warn("etcd grants no lease shorter than this, and every session or lock of a shorter TTL is refused: "+
			"LOCK_SESSION_TTL and LOCK_DEFAULT_TTL must not be below it, and be whole seconds", "shortest", floor.String())
	}
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
		l.discard(x, 0)
		return nil, fmt.Errorf("create a lease: %w", err)
	}
	if granted := time.Duration(seconds) * time.Second; granted != ttl {
		l.discard(x, 0)
		l.learn(seconds)
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

// remaining is what etcd says is left of a lease, rounded down to seconds; none of one that has ended.
func (l *leases) remaining(ctx context.Context, id int64) (left time.Duration, ended bool, err error) {
	err = l.store.ask(ctx, func(ctx context.Context, m *member) error {
		r, err := m.leases.LeaseTimeToLive(ctx, &etcdserverpb.LeaseTimeToLiveRequest{ID: id})
		left, ended = max(0, time.Duration(r.GetTTL())*time.Second), r.GetTTL() < 0
		return err
	})
	return left, ended, err
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

// drop has a lease revoked soon on which a key may be. Nobody may count on it any more, whatever was sent with it: a
// transaction that arrives after the revocation is refused by etcd, and what one before it has put goes with the lease. It
// is tried until etcd has answered, however long that takes: as long as etcd has no quorum, no lease ends by itself either.
// Their number is that of the acquires whose answers were waited for in vain.
func (l *leases) drop(x *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = append(l.dead, *x)
	l.begin()
}

// discard has a lease revoked, after resting for so long, on which no key is and none will be. Nothing depends on that.
func (l *leases) discard(x *lease, resting time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.empty) < discards {
		x.rests = time.Now().Add(resting)
		l.empty = append(l.empty, *x)
		l.begin()
	}
}

// begin has bury look. The caller holds mu.
func (l *leases) begin() {
	select {
	case l.work <- struct{}{}:
	default:
	}
}

// bury revokes dead leases, one after the other, until ctx ends, and then those on which a key may be once more.
func (l *leases) bury(ctx context.Context) {
	for ctx.Err() == nil {
		x, pause := l.next()
		if x != nil && l.revoke(ctx, x.id) != nil {
			l.again(*x)
			pause = digAgain
		} else if x != nil {
			continue
		}
		work := l.work
		if x != nil {
			work = nil // etcd does not answer, whatever else there is to do
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-work:
		case <-wait.C:
		}
		wait.Stop()
	}
	l.buryLast()
}

// next takes the next lease to revoke; nil for none, and how long there will be none unless one is added.
func (l *leases) next() (*lease, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.dead) > 0 {
		x := l.dead[0]
		l.dead = l.dead[1:]
		return &x, 0
	}
	now, pause := time.Now(), time.Minute
	l.empty = slices.DeleteFunc(l.empty, func(x lease) bool { return now.Sub(x.sent) > x.ttl }) // ended by itself, or will
	for i, x := range l.empty {
		if !x.rests.After(now) {
			l.empty = slices.Delete(l.empty, i, i+1)
			return &x, 0
		}
		pause = min(pause, x.rests.Sub(now))
	}
	return nil, pause
}

// again puts a lease back whose revocation was not answered.
func (l *leases) again(x lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.rests.IsZero() {
		l.dead = append(l.dead, x)
	} else {
		l.empty = append(l.empty, x)
	}
}

// buryLast revokes the leases on which a key may be, as far as etcd answers soon. What is left ends with its TTL.
func (l *leases) buryLast() {
	ctx, cancel := context.WithTimeout(context.Background(), lastDig)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, x := range l.dead {
		if err := l.revoke(ctx, x.id); err != nil {
			l.store.log.Warn("grants that nobody was told of are left to end with their leases", "leases", len(l.dead)-i, "error", err.Error())
			return
		}
	}
}
