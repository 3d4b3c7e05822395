package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/lock/locktest"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// stage is a store on an etcd of its own, with a session.
type stage struct {
	*backend
	t       testing.TB
	store   lock.Store
	session lock.Session
}

func newStage(t testing.TB) *stage {
	t.Helper()
	b := newBackend(t)
	s := &stage{backend: b, t: t, store: b.Open(t, b.Address())}
	s.session = s.open("a")
	return s
}

func (s *stage) open(owner string) lock.Session {
	s.t.Helper()
	x, err := s.store.OpenSession(s.t.Context(), owner, time.Minute)
	if err != nil {
		s.t.Fatal(err)
	}
	return x
}

func (s *stage) acquire(key string, ttl time.Duration) lock.Grant {
	s.t.Helper()
	a, err := s.store.TryAcquire(s.t.Context(), key, s.session.OwnerID, s.session.ID, ttl)
	if err != nil {
		s.t.Fatal(err)
	}
	return a.Grant
}

func (s *stage) release(g lock.Grant) {
	s.t.Helper()
	if err := s.store.Release(s.t.Context(), g.Key, g.FencingToken); err != nil {
		s.t.Fatal(err)
	}
}

// revision is etcd's: it counts every write of a key.
func (s *stage) revision() int64 {
	s.t.Helper()
	r, err := s.client.Get(s.t.Context(), "nothing")
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Header.Revision
}

// questions is how often etcd was asked to keep a lease alive.
func (s *stage) questions() (n int) {
	s.t.Helper()
	r, err := http.Get(s.member.URL() + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	const name = `grpc_server_msg_received_total{grpc_method="LeaseKeepAlive",grpc_service="etcdserverpb.Lease",grpc_type="bidi_stream"} `
	_, rest, found := strings.Cut(string(text), name)
	number, _, _ := strings.Cut(rest, "\n")
	if n, err = strconv.Atoi(number); !found || err != nil {
		s.t.Fatalf("etcd does not count the questions: %v", err)
	}
	return n
}

// leases lists the leases that etcd has.
func (s *stage) leases() []clientv3.LeaseStatus {
	s.t.Helper()
	return leases(s.t, s.client)
}

func leases(t testing.TB, c *clientv3.Client) []clientv3.LeaseStatus {
	t.Helper()
	r, err := c.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r.Leases
}

func lost(t testing.TB, err error) *lock.LostError {
	t.Helper()
	var l *lock.LostError
	if !errors.As(err, &l) {
		t.Fatalf("got %v, want that the grant is lost", err)
	}
	return l
}

func TestARenewalWritesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.acquire("k", time.Minute)
	before := s.revision()
	for range 5 {
		if _, err := s.store.Renew(t.Context(), "k", g.FencingToken, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.Heartbeat(t.Context(), s.session.ID); err != nil {
			t.Fatal(err)
		}
	}
	if after := s.revision(); after != before {
		t.Fatalf("the revision went from %d to %d", before, after)
	}
}

func TestAnAcquireThatIsRefusedWritesNothingAndTakesNoLease(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.acquire("k", time.Minute)
	b := s.open("b")
	before, had := s.revision(), len(s.leases())
	for range 5 {
		_, err := s.store.TryAcquire(t.Context(), "k", "b", b.ID, time.Minute)
		var contended *lock.ContendedError
		if !errors.As(err, &contended) {
			t.Fatal(err)
		}
	}
	if after, has := s.revision(), len(s.leases()); after != before || has != had {
		t.Fatalf("the revision went from %d to %d, the leases from %d to %d", before, after, had, has)
	}
}

// An acquire is one write, and so is a release; the lease of the one before serves the next.
func TestGrantsThatFollowOneAnotherShareALease(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.release(s.acquire("k", time.Minute))
	before, had := s.revision(), len(s.leases())
	for i := range 10 {
		s.release(s.acquire(fmt.Sprint("k", i), time.Minute))
	}
	if after, has := s.revision(), len(s.leases()); after-before != 20 || has != had {
		t.Fatalf("10 pairs took %d writes, and the leases went from %d to %d", after-before, had, has)
	}
}

// Somebody has deleted the key: that its lease lives saves nothing.
func TestAGrantWhoseKeyIsGoneIsLostAlthoughItsLeaseLives(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.acquire("k", time.Minute)
	had := len(s.leases())
	if _, err := s.client.Delete(t.Context(), "fenceproof/lock/k"); err != nil {
		t.Fatal(err)
	}
	_, err := s.store.Renew(t.Context(), "k", g.FencingToken, 0)
	if l := lost(t, err); l.StoredToken != 0 {
		t.Fatalf("got %+v", l)
	}
	lost(t, s.store.Release(t.Context(), "k", g.FencingToken))
	if has := len(s.leases()); has != had {
		t.Fatalf("the lease has ended, which was to live: %d are left of %d", has, had)
	}
}

// A leader that was elected just now may say of a lease that there is none. While the key is there, nobody is told that
// anything was lost.
func TestALeaseThatIsSaidToBeGoneWhileItsKeyIsThereIsNotLost(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	if _, err := s.store.Heartbeat(t.Context(), s.session.ID); err != nil { // which leaves a stream that is kept
		t.Fatal(err)
	}
	name := "fenceproof/session/" + s.session.ID
	r, err := s.client.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Put(t.Context(), name, "", clientv3.WithIgnoreValue()); err != nil { // on no lease any more
		t.Fatal(err)
	}
	if _, err := s.client.Revoke(t.Context(), clientv3.LeaseID(r.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
	had := s.questions()
	if _, err := s.store.Heartbeat(t.Context(), s.session.ID); !errors.Is(err, lock.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	if has := s.questions(); has != had+1 {
		t.Errorf("that there is no lease was answered, and it was asked %d times", has-had)
	}
	if _, err := s.client.Delete(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Heartbeat(t.Context(), s.session.ID); !errors.Is(err, lock.ErrSessionExpired) && !errors.Is(err, lock.ErrSessionUnknown) {
		t.Fatalf("got %v", err)
	}
}

// Somebody has put the key again as it was: the token of the grant is no more.
func TestAGrantWhoseKeyWasPutByAnotherIsLost(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.acquire("k", time.Minute)
	r, err := s.client.Put(t.Context(), "fenceproof/lock/k", "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.store.Renew(t.Context(), "k", g.FencingToken, 0)
	if l := lost(t, err); l.StoredToken != r.Header.Revision {
		t.Fatalf("got %+v, want token %d", l, r.Header.Revision)
	}
}

// The grant was made and its answer did not arrive, or arrived when nobody waited any more: nobody can release it, and it
// does not stay for its minute.
func TestAGrantThatNobodyWasToldOfEndsAtOnce(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{false, true} {
		s := newStage(t)
		relay := locktest.NewRelay(t, s.Address())
		s.store = s.Open(t, relay.Address())
		s.release(s.acquire("k", time.Minute))
		locktest.Eventually(t, "nothing is held", func() bool {
			n, err := s.store.Held(t.Context())
			return err == nil && n == 0
		})
		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan error, 1)
		relay.Hold()
		go func() {
			_, err := s.store.TryAcquire(ctx, "k", "a", s.session.ID, time.Minute)
			result <- err
		}()
		locktest.Eventually(t, "the grant is made", func() bool { return len(s.Grants(t, "k")) == 2 })
		if cancelled {
			cancel()
			if err := <-result; !errors.Is(err, lock.ErrUnavailable) {
				t.Fatalf("got %v", err)
			}
			relay.LetGo()
		} else {
			relay.Cut()
			if err := <-result; !errors.Is(err, lock.ErrUnavailable) {
				t.Fatalf("got %v", err)
			}
		}
		locktest.Eventually(t, "nothing of the grant is left but the session", func() bool {
			return len(s.Keys(t)) == 0 && len(s.leases()) == 1
		})
		cancel()
	}
}

// What happens while the watch is broken is seen when it is opened again.
func TestAWatchThatBrokeCatchesUp(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	relay := locktest.NewRelay(t, s.Address())
	far := s.Open(t, relay.Address())
	held := func(want int) {
		t.Helper()
		locktest.Eventually(t, fmt.Sprint(want, " grants are counted"), func() bool {
			n, err := far.Held(t.Context())
			return err == nil && n == want
		})
	}
	g := s.acquire("k", time.Minute)
	held(1)
	wake, cancel := far.Watch("k")
	defer cancel()
	relay.Hold()
	s.release(g)
	s.acquire("other", time.Minute)
	s.acquire("a third", time.Minute)
	relay.Cut()
	select {
	case <-wake:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody woke the waiter")
	}
	held(2)
}
