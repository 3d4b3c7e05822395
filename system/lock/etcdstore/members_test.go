package etcdstore_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/deploy/etcd"
	"fenceproof/deploy/etcd/etcdtest"
	"fenceproof/deploy/port"
	"fenceproof/deploy/process"
	"fenceproof/system/lock"
	"fenceproof/system/lock/locktest"
)

// etcd serves TTLs of whole seconds only, and none that its elections could outlast.
func TestALeaseThatEtcdWouldStretchIsRefusedAndTheShortestNamed(t *testing.T) {
	t.Parallel()
	url := slowMember(t)
	c, said := connect(t, url), &logged{}
	s := openLogging(t, said, url)
	locktest.Eventually(t, "etcd answers", func() bool { return s.Ping(t.Context()) == nil })
	x, err := s.OpenSession(t.Context(), "a", 2*time.Second)
	if err != nil || x.TTL != 2*time.Second {
		t.Fatalf("got %+v, %v", x, err)
	}
	for _, ttl := range []time.Duration{time.Second, 1500 * time.Millisecond, 2500 * time.Millisecond, 3*time.Second + 1} {
		_, inOpen := s.OpenSession(t.Context(), "b", ttl)
		_, inAcquire := s.TryAcquire(t.Context(), "k", "a", x.ID, ttl)
		for _, err := range []error{inOpen, inAcquire} {
			var refused *lock.TTLError
			if !errors.As(err, &refused) || refused.Asked != ttl || refused.Minimum != 2*time.Second || refused.Step != time.Second {
				t.Errorf("%s: got %v", ttl, err)
			}
		}
	}
	a, err := s.TryAcquire(t.Context(), "k", "a", x.ID, 2*time.Second)
	if err != nil || a.TTL != 2*time.Second {
		t.Fatalf("got %+v, %v", a, err)
	}
	locktest.Eventually(t, "only what was granted has a lease", func() bool { return len(leases(t, c)) == 2 })
	if warnings := said.at(slog.LevelWarn, "LOCK_SESSION_TTL"); len(warnings) != 1 || !strings.Contains(warnings[0], "shortest=2s") {
		t.Errorf("it was said of the shortest lease: %q", warnings)
	}
}

// slowMember starts an etcd as it is shipped, whose shortest lease is longer than a second.
func slowMember(t *testing.T) (url string) {
	t.Helper()
	in, err := etcd.Prepare(t.Context(), func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	client, err := port.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	peer, err := port.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	url = "http://" + client.Address()
	p, err := process.Direct{}.Launch(t.Context(), process.Command{Path: in.Program("etcd"), Dir: t.TempDir(), Args: []string{
		"--data-dir=data", "--unsafe-no-fsync", "--listen-client-urls=" + url, "--advertise-client-urls=" + url,
		"--listen-peer-urls=http://" + peer.Address(), "--initial-advertise-peer-urls=http://" + peer.Address(),
		"--initial-cluster=default=http://" + peer.Address()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.KillAll(context.Background(), []int{p.Pid()}) // it ends with this process anyhow
		<-p.Done()
		for _, r := range []*port.Reservation{client, peer} {
			if err := r.Release(); err != nil {
				t.Error(err)
			}
		}
	})
	return url
}

// A member that is cut off or stopped says nothing, and whoever asked it waits. Nobody else does.
func TestAMemberThatSaysNothingHoldsUpOnlyWhoeverAskedIt(t *testing.T) {
	t.Parallel()
	members := etcdtest.StartCluster(t, 3)
	s := open(t, members[0].URL(), members[1].URL(), members[2].URL())
	x, err := s.OpenSession(t.Context(), "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	do(t, members[0].Pause)
	told := make(chan struct{})
	go func() {
		defer close(told)
		err = s.Ping(t.Context())
	}()
	locktest.Eventually(t, "another member serves", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := s.Heartbeat(ctx, x.ID)
		return err == nil
	})
	select {
	case <-told:
		t.Error("others had to wait until it was given up")
	default:
	}
	if <-told; !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("whoever asked it was told %v", err)
	}
	do(t, members[0].Resume)
}

// Rule 7 in a cluster: it takes a quorum to say that something is over, and the loss of a leader or a majority says
// nothing at all.
func TestAChangeOfLeaderAndALostQuorumAreUnavailableAndNothingIsLost(t *testing.T) {
	t.Parallel()
	members := etcdtest.StartCluster(t, 3)
	s := open(t, endpoints(members)...)
	leader, followers := leaderOf(t, members)
	x, err := s.OpenSession(t.Context(), "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.TryAcquire(t.Context(), "k", "a", x.ID, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	renewed := func() bool {
		t.Helper()
		r, err := s.Renew(t.Context(), "k", a.FencingToken, 0)
		if err != nil && !errors.Is(err, lock.ErrUnavailable) || err == nil && r.FencingToken != a.FencingToken {
			t.Fatalf("got %+v, %v", r, err)
		}
		return err == nil
	}
	do(t, leader.Pause)
	locktest.Eventually(t, "two of three members renew the grant", renewed)
	do(t, followers[0].Crash)
	var all sync.WaitGroup
	for name, call := range map[string]func() error{
		"renew":     func() error { _, err := s.Renew(t.Context(), "k", a.FencingToken, 0); return err },
		"stale":     func() error { return s.Release(t.Context(), "k", a.FencingToken-1) },
		"heartbeat": func() error { _, err := s.Heartbeat(t.Context(), x.ID); return err },
		"acquire":   func() error { _, err := s.TryAcquire(t.Context(), "other", "a", x.ID, time.Minute); return err },
		"inspect":   func() error { _, err := s.Inspect(t.Context(), "k"); return err },
		"live":      func() error { _, err := s.SessionLive(t.Context(), x.ID); return err },
		"ping":      func() error { return s.Ping(t.Context()) },
	} {
		all.Go(func() {
			if err := call(); !errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
	all.Wait()
	do(t, followers[0].Start)
	do(t, leader.Resume)
	locktest.Eventually(t, "the grant is renewed", renewed)
	if err := s.Release(t.Context(), "k", a.FencingToken); err != nil {
		t.Fatal(err)
	}
	next, err := s.TryAcquire(t.Context(), "k", "a", x.ID, time.Minute)
	if err != nil || next.FencingToken <= a.FencingToken {
		t.Fatalf("got %+v, %v, after token %d", next, err, a.FencingToken)
	}
}

func endpoints(members []*etcd.Member) (urls []string) {
	for _, m := range members {
		urls = append(urls, m.URL())
	}
	return urls
}

// leaderOf waits until one of the members leads. Those that are stopped are not to be among them.
func leaderOf(t testing.TB, members []*etcd.Member) (leader *etcd.Member, others []*etcd.Member) {
	t.Helper()
	locktest.Eventually(t, "a member leads", func() bool {
		for i, m := range members {
			if leads, err := m.Leads(t.Context()); err == nil && leads {
				leader, others = m, slices.Concat(members[:i], members[i+1:])
				return true
			}
		}
		return false
	})
	return leader, others
}

// cluster is a backend of several members, of which each store asks another one first.
type cluster struct {
	*backend
	members []*etcd.Member
	opened  atomic.Int64
}

func (c *cluster) Open(t testing.TB, _ string) lock.Store {
	t.Helper()
	urls, first := endpoints(c.members), int(c.opened.Add(1))%len(c.members)
	return open(t, slices.Concat(urls[first:], urls[:first])...)
}

// The rules hold whichever member is asked, and after the leader under which the cluster began has lost its office and has
// come back.
func TestContractInAClusterThatHasChangedItsLeader(t *testing.T) {
	t.Parallel()
	locktest.Run(t, locktest.Backends{Shared: func(t testing.TB) locktest.Backend {
		members := etcdtest.StartCluster(t, 3)
		first, others := leaderOf(t, members)
		do(t, first.Pause)
		next, _ := leaderOf(t, others)
		do(t, first.Resume)
		do(t, first.AwaitHealthy)
		locktest.Eventually(t, "the first leader knows that it leads no more", func() bool {
			leads, err := first.Leads(t.Context())
			return err == nil && !leads
		})
		return &cluster{backend: newBackendOn(t, next), members: members}
	}})
}
