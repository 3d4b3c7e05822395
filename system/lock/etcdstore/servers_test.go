package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/lock/locktest"

	"github.com/google/uuid"
)

// pair is two lock-servers on one etcd: a, which is the stage's own, and b.
type pair struct {
	*stage
	a, b lock.Store
}

func newPair(t testing.TB) *pair {
	t.Helper()
	s := newStage(t)
	return &pair{stage: s, a: s.store, b: s.Open(t, s.Address())}
}

// A server knows until when a session and a grant live by what it has sent itself. That another one has kept them alive
// since and then ended them is no expiry.
func TestWhatAnotherServerKeptAliveAndThenEndedHasNotExpired(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for range 5 {
		if p.keptAndEndedByTheOther() {
			p.wantHeard(p.a, 0)
			for range 3 {
				r, err := p.a.Reap(t.Context())
				if err != nil || len(r.Sessions)+len(r.Grants) > 0 {
					t.Fatalf("reaped %+v, %v", r, err)
				}
			}
			return
		}
		if _, err := p.a.Reap(t.Context()); err != nil { // what did expire, because this machine was too slow
			t.Fatal(err)
		}
	}
	t.Fatal("this machine is too slow to keep a lease alive")
}

// keptAndEndedByTheOther opens a session and makes a grant at a, keeps them alive at b for longer than their TTL, and ends
// them there. It tells whether b was in time.
func (p *pair) keptAndEndedByTheOther() bool {
	p.t.Helper()
	const ttl = time.Second
	ctx := p.t.Context()
	x, err := p.a.OpenSession(ctx, "a", ttl)
	if err != nil {
		p.t.Fatal(err)
	}
	g, err := p.a.TryAcquire(ctx, "k", p.session.OwnerID, p.session.ID, ttl)
	if err != nil {
		p.t.Fatal(err)
	}
	for begin := time.Now(); time.Since(begin) < ttl*3/2; time.Sleep(ttl / 20) { // the pace at which a client beats, for longer than its lease
		_, beat := p.b.Heartbeat(ctx, x.ID)
		if _, err := p.b.Renew(ctx, "k", g.FencingToken, 0); beat != nil || err != nil {
			return false
		}
	}
	return p.b.CloseSession(ctx, x.ID) == nil && p.b.Release(ctx, "k", g.FencingToken) == nil
}

// wantHeard waits until a store has heard of everything, and n grants of it live.
func (p *pair) wantHeard(s lock.Store, n int) {
	p.t.Helper()
	locktest.Eventually(p.t, fmt.Sprint("the store has heard that ", n, " grants live"), func() bool {
		held, err := s.Held(p.t.Context())
		return err == nil && held == n
	})
}

func TestAServerTellsUntilWhenAnotherHasKeptAGrantAlive(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	g := p.acquire("k", time.Minute)
	locktest.Eventually(t, "the server that made the grant tells of the renewals at the other one", func() bool {
		if _, err := p.b.Renew(t.Context(), "k", g.FencingToken, 0); err != nil {
			t.Fatal(err)
		}
		i, err := p.a.Inspect(t.Context(), "k")
		if err != nil || !i.Held {
			t.Fatalf("got %+v, %v", i, err)
		}
		return i.Grant.ExpiresAt.After(g.ExpiresAt)
	})
}

// Only the server that made a lease lends it again: any other could not know that it is about to be revoked.
func TestTheLeaseOfAnotherServersGrantServesNoNextGrant(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	leaseOf := func(key string) int64 {
		t.Helper()
		r, err := p.client.Get(t.Context(), "fenceproof/lock/"+key)
		if err != nil || len(r.Kvs) != 1 {
			t.Fatalf("got %+v, %v", r, err)
		}
		return r.Kvs[0].Lease
	}
	g := p.acquire("k", time.Minute)
	foreign := leaseOf("k")
	p.wantHeard(p.b, 1)
	if _, err := p.b.Renew(t.Context(), "k", g.FencingToken, 0); err != nil {
		t.Fatal(err)
	}
	if err := p.b.Release(t.Context(), "k", g.FencingToken); err != nil {
		t.Fatal(err)
	}
	if _, err := p.b.TryAcquire(t.Context(), "next", "a", p.session.ID, time.Minute); err != nil {
		t.Fatal(err)
	}
	if leaseOf("next") == foreign {
		t.Fatal("the next grant is on the lease that the other server had made")
	}
}

// What a store believes of a session says what to ask etcd, and decides nothing: here it was told of the grant first.
func TestAGrantWhoseSessionTheStoreDoesNotKnowIsAskedForBeforeItIsReplacedOrRemoved(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id, at := uuid.NewString(), time.Now().UTC().Format(time.RFC3339)
	for key, value := range map[string]string{
		"lock/k":    fmt.Sprintf(`{"ownerId":"b","sessionId":%q,"ttlMillis":60000,"acquiredAt":%q}`, id, at),
		"lock/free": fmt.Sprintf(`{"ownerId":"b","sessionId":%q,"ttlMillis":60000,"acquiredAt":%q}`, id, at),
	} {
		if _, err := p.client.Put(t.Context(), "fenceproof/"+key, value); err != nil {
			t.Fatal(err)
		}
	}
	p.wantHeard(p.a, 0) // both are taken for what a dead session left
	session := fmt.Sprintf(`{"ownerId":"b","ttlMillis":60000,"createdAt":%q}`, at)
	if _, err := p.client.Put(t.Context(), "fenceproof/session/"+id, session); err != nil {
		t.Fatal(err)
	}
	if _, err := p.a.Reap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := p.Keys(t); len(left) != 2 {
		t.Errorf("the grants of a live session were removed; left is %q", left)
	}
	_, err := p.a.TryAcquire(t.Context(), "k", "a", p.session.ID, time.Minute)
	var contended *lock.ContendedError
	if !errors.As(err, &contended) || contended.Holder != "b" {
		t.Errorf("the live grant of another was replaced: %v", err)
	}
}

// The store that cleans up is behind: the key that a dead session left has been granted to another one since.
func TestTheReaperLeavesAloneWhatWasGrantedSince(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	relay := locktest.NewRelay(t, p.Address())
	far := p.Open(t, relay.Address())
	dead := p.open("dead")
	if _, err := p.a.TryAcquire(t.Context(), "k", "dead", dead.ID, time.Minute); err != nil {
		t.Fatal(err)
	}
	p.wantHeard(far, 1)
	if err := p.a.CloseSession(t.Context(), dead.ID); err != nil {
		t.Fatal(err)
	}
	p.wantHeard(far, 0)
	relay.Hold()
	g := p.acquire("k", time.Minute)
	if _, err := far.Reap(t.Context()); !errors.Is(err, lock.ErrUnavailable) { // it was asked, and its answer is held
		t.Errorf("got %v", err)
	}
	relay.LetGo()
	p.wantHeard(far, 1)
	if i, err := p.a.Inspect(t.Context(), "k"); err != nil || !i.Held || i.Grant.FencingToken != g.FencingToken {
		t.Fatalf("got %+v, %v; granted was %+v", i, err, g)
	}
}

// Rule 6 meets rule 5: a grant that was over with its session cannot be revoked any more. The session ends between the
// revoke's two steps, which are far from one another.
func TestAGrantThatIsOverWithItsSessionIsNotRevokedAnyMore(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	relay := locktest.NewRelay(t, p.Address())
	far := p.Open(t, relay.Address())
	locktest.Eventually(t, "the far store answers", func() bool { return far.Ping(t.Context()) == nil })
	const oneWay = 50 * time.Millisecond
	relay.Delay(oneWay)
	for n := range 5 {
		x, key := p.open("a"), fmt.Sprint("k", n)
		if _, err := p.a.TryAcquire(t.Context(), key, "a", x.ID, time.Minute); err != nil {
			t.Fatal(err)
		}
		p.wantHeard(far, 1) // it reads the grant and its session in one step
		floor := make(chan int64, 1)
		go func() {
			r, err := far.Revoke(context.WithoutCancel(t.Context()), key, "olga", "stuck for an hour", 0)
			if err != nil && !errors.Is(err, lock.ErrNotHeld) {
				t.Error(err)
			}
			floor <- r.NewTokenFloor
		}()
		time.Sleep(2 * oneWay) // whether the session ends in between is a chance; that it may is what is tested
		if err := p.a.CloseSession(t.Context(), x.ID); err != nil {
			t.Fatal(err)
		}
		over := p.revision()
		if f := <-floor; f > over {
			t.Fatalf("the session was gone at revision %d, and its grant was revoked at %d", over, f)
		}
	}
}

// What has expired is told although etcd did not answer when it was first asked.
func TestAnExpiryThatCouldNotBeAskedForIsToldAtTheNextPass(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	relay := locktest.NewRelay(t, p.Address())
	far := p.Open(t, relay.Address())
	p.wantHeard(far, 0) // from here on it hears what ends; of what ended before, it knows nothing
	g, err := far.TryAcquire(t.Context(), "k", "a", p.session.ID, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	p.wantHeard(far, 0)
	relay.Hold()
	soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if r, err := far.Reap(soon); !errors.Is(err, lock.ErrUnavailable) || len(r.Grants) > 0 {
		t.Errorf("reaped %+v, %v", r, err)
	}
	relay.LetGo()
	if r, err := far.Reap(t.Context()); err != nil || len(r.Grants) != 1 || r.Grants[0].FencingToken != g.FencingToken {
		t.Fatalf("reaped %+v, %v", r, err)
	}
}
