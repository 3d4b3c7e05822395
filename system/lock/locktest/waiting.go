package locktest

import (
	"time"

	"fenceproof/system/lock"
)

// A waiter is woken however the grant ends and wherever it waits; here the first server does what ends it.
func waitersAreWoken(w *world, _ Lone) {
	other, x := w.another(), w.session("a", long)
	here, cancelHere := w.store.Watch("k")
	defer cancelHere()
	there, cancelThere := other.Watch("k")
	defer cancelThere()
	ends := []struct {
		name string
		end  func(lock.Grant, lock.Session)
		ttl  time.Duration
	}{
		{"release", func(g lock.Grant, _ lock.Session) { w.release(w.store, g) }, long},
		{"revoke", func(g lock.Grant, _ lock.Session) {
			if _, err := w.store.Revoke(w.Context(), g.Key, "olga", "stuck for an hour", 0); err != nil {
				w.Fatal(err)
			}
		}, long},
		{"expiry", func(lock.Grant, lock.Session) {}, short},
		{"end of the session", func(_ lock.Grant, x lock.Session) {
			if err := w.store.CloseSession(w.Context(), x.ID); err != nil {
				w.Fatal(err)
			}
		}, long},
	}
	// The other server may not be listening yet, and misses what happens before.
	w.eventually("the other server listens", func() bool {
		w.release(w.store, w.acquire(w.store, "k", x, long))
		return woken(there)
	})
	for _, e := range ends {
		g := w.acquire(w.store, "k", x, e.ttl)
		settle(here, there)
		e.end(g, x)
		atHere, atThere := false, false
		w.eventually(e.name+" wakes the waiters of both servers", func() bool {
			if _, err := w.store.Reap(w.Context()); err != nil {
				w.Fatal(err)
			}
			atHere, atThere = atHere || woken(here), atThere || woken(there)
			return atHere && atThere
		})
		w.free("k")
	}
}

func woken(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// settle forgets wake-ups that belong to the past. One that comes later still is no mistake: a waiter may be woken
// without reason.
func settle(all ...<-chan struct{}) {
	for _, c := range all {
		for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
			woken(c)
		}
	}
}
