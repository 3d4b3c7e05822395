package etcdstore_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/deploy/etcd/etcdtest"
	"fenceproof/system/lock"
	"fenceproof/system/lock/etcdstore"
	"fenceproof/system/lock/locktest"
)

// More grants than one look at etcd takes: pages follow one another, and the last one says so.
func TestEveryLiveGrantIsListedOnceAndNoneOfADeadSession(t *testing.T) {
	s, err := etcdstore.Open([]string{etcdtest.Start(t).URL()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sessions := map[string]string{}
	for _, owner := range []string{"a", "b", "dead"} {
		x, err := s.OpenSession(t.Context(), owner, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		sessions[owner] = x.ID
	}
	tokens := map[string]int64{}
	grant := func(key, owner string) {
		g, err := s.TryAcquire(t.Context(), key, owner, sessions[owner], 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		tokens[key] = g.FencingToken
	}
	for n := range 120 {
		grant(fmt.Sprintf("k/%03d", n), "a")
	}
	grant("k", "b")
	grant("other", "b")
	grant("k/dead", "dead")
	if err := s.CloseSession(t.Context(), sessions["dead"]); err != nil {
		t.Fatal(err)
	}

	all := list(t, s, lock.ListQuery{Limit: 1000})
	if len(all) != 122 || !slices.IsSortedFunc(all, func(x, y lock.Grant) int { return strings.Compare(x.Key, y.Key) }) {
		t.Errorf("listed %d grants", len(all))
	}
	for _, g := range all {
		if g.FencingToken != tokens[g.Key] || g.SessionID != sessions[g.OwnerID] || g.TTL != 30*time.Second || time.Until(g.ExpiresAt) > 30*time.Second || time.Until(g.ExpiresAt) < 0 {
			t.Errorf("listed %+v, granted token %d", g, tokens[g.Key])
		}
	}
	if got := list(t, s, lock.ListQuery{Limit: 7, OwnerID: "b", KeyPrefix: "k"}); len(got) != 1 || got[0].Key != "k" {
		t.Errorf("of b's that begin with k: %+v", got)
	}
	p, err := s.ListSessions(t.Context(), lock.ListQuery{Limit: 1000})
	if err != nil || len(p.Sessions) != 2 || p.After != "" {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, x := range p.Sessions {
		if want := map[string]int{sessions["a"]: 120, sessions["b"]: 2}[x.ID]; x.Held != want {
			t.Errorf("session of %s holds %d, want %d", x.OwnerID, x.Held, want)
		}
	}
}

// After its start a lock-server knows of no deadline and has to ask etcd about every lease of a page. That etcd is far away
// must not add up.
func TestAListOfAFarEtcdTakesNoLongerThanAnOperationMay(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	relay := locktest.NewRelay(t, p.Address())
	far := p.Open(t, relay.Address())
	for n := range 100 {
		p.acquire(fmt.Sprint("k", n), time.Minute)
	}
	p.wantHeard(far, 100)
	relay.Delay(25 * time.Millisecond) // each way: one after the other, a page's questions would take five seconds
	g, err := far.(lock.Lister).ListGrants(t.Context(), lock.ListQuery{Limit: 1000})
	if err != nil || len(g.Grants) != 100 {
		t.Fatalf("listed %d grants, %v", len(g.Grants), err)
	}
	for _, x := range g.Grants {
		if left := time.Until(x.ExpiresAt); left <= 0 || left > time.Minute {
			t.Errorf("%s is left of %+v", left, x)
		}
	}
}

func list(t *testing.T, s lock.Lister, q lock.ListQuery) (all []lock.Grant) {
	t.Helper()
	for range 1000 {
		p, err := s.ListGrants(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p.Grants...)
		if q.After = p.After; q.After == "" {
			return all
		}
	}
	t.Fatal("the list has no end")
	return nil
}
