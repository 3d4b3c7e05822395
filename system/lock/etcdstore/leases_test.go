package etcdstore

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"fenceproof/deploy/etcd/etcdtest"
	"fenceproof/system/lock"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// While etcd has no quorum no lease runs out, and a new leader begins them all anew: no clock of this process says that
// a grant which nobody knows of has ended.
func TestALeaseOnWhichAKeyMayBeIsForgottenOnlyWhenEtcdHasAnswered(t *testing.T) {
	l := newLeases(nil)
	const n = 2 * discards
	for id := range int64(n) {
		l.drop(&lease{id: id, ttl: lock.MinTTL, sent: time.Now().Add(-time.Hour)})
		l.discard(&lease{id: n + id, ttl: lock.MinTTL, sent: time.Now().Add(-time.Hour)}, 0)
	}
	for id := range int64(n) {
		if x, _ := l.next(); x == nil || x.id != id {
			t.Fatalf("got lease %+v, want %d", x, id)
		}
	}
	if x, _ := l.next(); x != nil {
		t.Fatalf("got lease %+v, which had no key and has ended long since", x)
	}
}

func TestALeaseIsLeftAloneForAsLongAsOthersMayAskForIt(t *testing.T) {
	l := newLeases(nil)
	l.discard(&lease{id: 1, ttl: time.Minute, sent: time.Now()}, time.Hour)
	l.discard(&lease{id: 2, ttl: time.Minute, sent: time.Now()}, 0)
	if x, _ := l.next(); x == nil || x.id != 2 {
		t.Fatalf("got lease %+v", x)
	}
	if x, pause := l.next(); x != nil || pause <= 0 {
		t.Fatalf("got lease %+v, and else a pause of %s", x, pause)
	}
}

// A lock-server that stops takes the grants along that nobody was told of.
func TestAStoreThatIsClosedRevokesOnceMore(t *testing.T) {
	s, err := Open([]string{etcdtest.Start(t).URL()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.leases.create(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.txn(t.Context(), nil, []clientv3.Op{clientv3.OpPut(lockPrefix+"k", "", clientv3.WithLease(clientv3.LeaseID(x.id)))}, nil); err != nil {
		t.Fatal(err)
	}
	endpoint := s.members.all[0].Endpoints()
	s.leases.mu.Lock()
	s.leases.dead = append(s.leases.dead, *x) // and nobody was woken
	s.leases.mu.Unlock()
	s.Close()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if r, err := c.Get(t.Context(), lockPrefix+"k"); err != nil || len(r.Kvs) > 0 {
		t.Fatalf("the key is left: %+v, %v", r, err)
	}
}

func TestWhatEtcdAnswersIsSaidInTermsOfTheContract(t *testing.T) {
	for _, c := range []struct {
		answer      error
		unavailable bool
		everywhere  bool
	}{
		{rpctypes.ErrGRPCCompacted, true, false},
		{rpctypes.ErrCompacted, true, false},
		{rpctypes.ErrGRPCNoSpace, true, true},
		{rpctypes.ErrNoSpace, true, true},
		{rpctypes.ErrGRPCNoLeader, true, false},
		{rpctypes.ErrGRPCEmptyKey, false, false},
		{rpctypes.ErrGRPCFutureRev, false, false},
	} {
		err := outcome(c.answer)
		if errors.Is(err, lock.ErrUnavailable) != c.unavailable || everywhere(err) != c.everywhere {
			t.Errorf("%v: got %v", c.answer, err)
		}
	}
	if err := outcome(rpctypes.ErrGRPCLeaseNotFound); err != errNoLease {
		t.Errorf("got %v", err)
	}
}
