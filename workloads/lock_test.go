package workloads

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// until runs l until what its lock has counted is enough, and lets it end in order.
func until(t *testing.T, lock *lockInMemory, l *Lock, enough func(lockTally) bool) lockTally {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	go func() { defer close(ended); l.Run(ctx) }()
	for deadline := time.Now().Add(30 * time.Second); !enough(lock.tally()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came to that: %+v", lock.tally())
		}
	}
	stop()
	<-ended
	return lock.tally()
}

func TestAClientTakesKeysInEveryWayAndGivesBackWhatItHolds(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	lock, server := newLockInMemory(t)
	l := &Lock{Role: Worker, Owner: "lock-client-1", Server: server, Seed: 1, Keys: []string{"a key/with a slash", "A KEY"}, Quiet: "quiet", Sessions: 4, TTLMillis: 60, HoldMillis: 4, Lapses: 0.4}
	n := until(t, lock, l, func(n lockTally) bool {
		return n.reenters > 2 && n.contended > 2 && n.renewals > 2 && n.lateRenewals > 2 && n.lateReleases > 2 && n.closedHolding > 2 && n.died > 2
	})
	lock.await(t, func() bool { return len(lock.held) == 0 && len(lock.sessions) == 0 }) // what it has abandoned runs out
	if n.releases == 0 || n.grants < n.releases {
		t.Errorf("%+v", n)
	}
}

func TestARateBoundsHowOftenAClientAsks(t *testing.T) {
	lock, server := newLockInMemory(t)
	l := &Lock{Role: Worker, Owner: "lock-client-1", Server: server, Seed: 1, Keys: []string{"k"}, Sessions: 1, TTLMillis: 1000, Rate: 100}
	began := time.Now()
	n := until(t, lock, l, func(n lockTally) bool { return n.grants >= 12 })
	// A turn is at least half a hundredth of a second, and has two grants at most.
	if least := 5 * 5 * time.Millisecond; time.Since(began) < least {
		t.Errorf("%d grants in %s", n.grants, time.Since(began))
	}
}

func TestOneSeedMakesOneClientOfOneNameDrawTheSameTurns(t *testing.T) {
	turns := func(seed uint64, owner string, session int) (drawn []uintptr) {
		l := &Lock{Owner: owner, Seed: seed, Lapses: 0.1}
		w := newWorker(&lockClient{Lock: l}, session)
		for range 40 {
			drawn = append(drawn, reflect.ValueOf(w.draw()).Pointer())
		}
		return drawn
	}
	same := turns(7, "lock-client-1", 0)
	if !reflect.DeepEqual(same, turns(7, "lock-client-1", 0)) {
		t.Error("the same client drew other turns")
	}
	for what, other := range map[string][]uintptr{
		"another seed": turns(8, "lock-client-1", 0), "another client": turns(7, "lock-client-2", 0), "another session": turns(7, "lock-client-1", 1),
	} {
		if reflect.DeepEqual(same, other) {
			t.Errorf("%s drew the same turns", what)
		}
	}
}

func TestAnOperatorRevokesWhatIsHeldAndNowAndThenSaysWhichGrantIsMeant(t *testing.T) {
	lock, server := newLockInMemory(t)
	worker := &Lock{Role: Worker, Owner: "lock-client-1", Server: server, Seed: 2, Keys: []string{"k"}, Sessions: 3, TTLMillis: 1000}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); worker.Run(ctx) }()
	operator := &Lock{Role: Operator, Owner: "lock-operator", Server: server, Seed: 2, Keys: []string{"k"}, TTLMillis: 1000, Rate: 2000}
	until(t, lock, operator, func(n lockTally) bool { return n.revoked > 2 && n.revokedOther > 0 && n.lateReleases > 0 })
	stop()
	<-ended
}

func TestASweeperAsksForEveryKeyUntilItIsGrantedAndGivesItBack(t *testing.T) {
	lock, server := newLockInMemory(t)
	lock.sessions["dead"] = time.Now().Add(100 * time.Millisecond)
	lock.held["b"] = heldKey{"dead", 1, time.Now().Add(time.Hour)}
	sweeper := &Lock{Role: Sweeper, Owner: "lock-sweeper", Server: server, Seed: 1, Keys: []string{"a"}, Quiet: "b", TTLMillis: 1000}
	sweeper.Run(t.Context())
	if n := lock.tally(); n.grants != 2 || n.releases != 2 || n.contended == 0 || n.closed != 2 || len(lock.held) > 0 {
		t.Errorf("%+v, held: %v", n, lock.held)
	}
}

func TestARequestWhoseConnectionBreaksIsSentOnce(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/acquire") || r.Method == http.MethodDelete {
			asked.Add(1)
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"sessionId":"s"}`))
	}))
	defer s.Close()
	c := &lockClient{Lock: &Lock{Owner: "o", Server: strings.TrimPrefix(s.URL, "http://")}, ctx: t.Context()}
	for _, use := range []func(*lockSession){
		func(x *lockSession) { c.acquire(x, "k", time.Second, 0) },
		func(x *lockSession) { c.release(x, lockGrant{"k", 1}) },
	} {
		asked.Store(0)
		x := c.open(time.Hour) // it leaves a connection behind, which is used again
		use(x)
		x.hush()
		if n := asked.Load(); n != 1 {
			t.Errorf("it was sent %d times", n)
		}
	}
}

func TestWhatALockClientIsToldReadsBackAndNonsenseIsRefused(t *testing.T) {
	good := Lock{Role: Worker, Owner: "o", Server: "127.0.0.1:1", Seed: 1<<63 + 1, Keys: []string{"k"}, Sessions: 1, TTLMillis: 1000}
	text, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := ParseLock(text); err != nil || !reflect.DeepEqual(*back, good) {
		t.Errorf("it came back as %+v, %v", back, err)
	}
	if _, err := ParseLock(append(text, text...)); err == nil || !strings.Contains(err.Error(), "something follows") {
		t.Errorf("two of them: %v", err)
	}
	if _, err := ParseLock([]byte(`{"roll":"worker"}`)); err == nil || !strings.Contains(err.Error(), "roll") {
		t.Errorf("an unknown field: %v", err)
	}
	for want, spoil := range map[string]func(*Lock){
		"has a role":              func(l *Lock) { l.Role = "thief" },
		"needs an owner":          func(l *Lock) { l.Keys = nil },
		"has 0 sessions":          func(l *Lock) { l.Sessions = 0 },
		"0 times per second":      func(l *Lock) { l.Role = Operator },
		"share of lapses is 0 to": func(l *Lock) { l.Lapses = 1.5 },
	} {
		bad := good
		spoil(&bad)
		text, err := json.Marshal(bad)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseLock(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
