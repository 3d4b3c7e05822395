package locktest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"fenceproof/system/lock"
)

// answersWithin is how long a store may take to say that its backend does not answer.
const answersWithin = 10 * time.Second

// unavailable fails the test unless every call of the store says that the backend does not answer, and soon. The grant
// g is of session x.
func (w *world) unavailable(when string, g lock.Grant, x lock.Session) {
	w.Helper()
	ctx := w.Context()
	calls := map[string]func() error{
		"open":      func() error { _, err := w.store.OpenSession(ctx, "a", long); return err },
		"heartbeat": func() error { _, err := w.store.Heartbeat(ctx, x.ID); return err },
		"close":     func() error { return w.store.CloseSession(ctx, x.ID) },
		"live":      func() error { _, err := w.store.SessionLive(ctx, x.ID); return err },
		"acquire":   func() error { _, err := w.store.TryAcquire(ctx, "k2", "a", x.ID, long); return err },
		"contend":   func() error { _, err := w.store.TryAcquire(ctx, g.Key, "b", x.ID, long); return err },
		"renew":     func() error { _, err := w.store.Renew(ctx, g.Key, g.FencingToken, 0); return err },
		"release":   func() error { return w.store.Release(ctx, g.Key, g.FencingToken) },
		"stale":     func() error { return w.store.Release(ctx, g.Key, g.FencingToken+1) },
		"inspect":   func() error { _, err := w.store.Inspect(ctx, g.Key); return err },
		"revoke":    func() error { _, err := w.store.Revoke(ctx, g.Key, "olga", "stuck for long", 0); return err },
		"held":      func() error { _, err := w.store.Held(ctx); return err },
		"ping":      func() error { return w.store.Ping(ctx) },
		"reap": func() error {
			r, err := w.store.Reap(ctx)
			if err == nil && len(r.Sessions)+len(r.Grants) == 0 {
				return lock.ErrUnavailable // nothing to do, hence nobody to ask
			}
			return err
		},
	}
	begin := time.Now()
	var all sync.WaitGroup
	for name, call := range calls {
		all.Go(func() {
			err := call()
			var lost *lock.LostError
			if !errors.Is(err, lock.ErrUnavailable) || errors.As(err, &lost) {
				w.Errorf("%s, %s: got %v", when, name, err)
			}
		})
	}
	all.Wait()
	if took := time.Since(begin); took > answersWithin {
		w.Errorf("%s: it took %s to say so", when, took)
	}
}

// Rule 7. What a stopped backend was asked may be carried out when it goes on, hence a grant that nobody was asked to end.
func aStoppedBackend(w *world, b Server) {
	x, kept := w.session("a", long), w.session("kept", long)
	g := w.acquire(w.store, "k", x, long)
	mine := w.acquire(w.store, "mine", kept, long)
	b.Pause(w.T)
	w.unavailable("stopped", g, x)
	b.Resume(w.T)
	w.eventually("the store answers again", func() bool { return w.store.Ping(w.Context()) == nil })
	w.heldBy(mine)
	if r, err := w.store.Renew(w.Context(), "mine", mine.FencingToken, 0); err != nil || r.FencingToken != mine.FencingToken {
		w.Fatalf("got %+v, %v", r, err)
	}
	if _, err := w.store.Heartbeat(w.Context(), kept.ID); err != nil {
		w.Fatal(err)
	}
}

// Rule 1 across a restart; grants and sessions live on, as their leases do.
func afterACrash(w *world, b Server) {
	x := w.session("a", long)
	g := w.acquire(w.store, "k", x, long)
	b.Crash(w.T)
	w.unavailable("killed", g, x)
	b.Start(w.T)
	w.eventually("the store answers again", func() bool { return w.store.Ping(w.Context()) == nil })
	w.heldBy(g)
	if _, err := w.store.Renew(w.Context(), "k", g.FencingToken, 0); err != nil {
		w.Fatal(err)
	}
	next := w.acquire(w.store, "k", x, long)
	w.release(w.store, next)
	last := w.acquire(w.another(), "k", w.session("b", long), long)
	if !rising([]int64{g.FencingToken, next.FencingToken, last.FencingToken}) {
		w.Fatalf("tokens %d, %d, %d", g.FencingToken, next.FencingToken, last.FencingToken)
	}
}

// delay of a slow network, each way.
const delay = 20 * time.Millisecond

func aSlowBackend(w *world, b Lone) {
	relay := NewRelay(w.T, b.Address())
	relay.Delay(delay)
	s := b.Open(w.T, relay.Address())
	w.eventually("the store answers", func() bool { return s.Ping(w.Context()) == nil })
	x, y := w.session("a", long), w.session("b", long)
	g := w.acquire(s, "k", x, long)
	if left := time.Until(g.ExpiresAt); left > long || left < long/2 {
		w.Fatalf("%s of the lease are left", left)
	}
	_, err := s.TryAcquire(w.Context(), "k", "b", y.ID, long)
	wantErr[*lock.ContendedError](w, err)
	if r, err := s.Renew(w.Context(), "k", g.FencingToken, 0); err != nil || r.FencingToken != g.FencingToken {
		w.Fatalf("got %+v, %v", r, err)
	}
	if beat, err := s.Heartbeat(w.Context(), x.ID); err != nil || beat.Held != 1 {
		w.Fatalf("got %+v, %v", beat, err)
	}
	// Another server is faster: what this one believes is out of date, what it answers is not.
	w.release(w.store, g)
	next := w.acquire(w.store, "k", y, long)
	wantErr[*lock.LostError](w, s.Release(w.Context(), "k", g.FencingToken))
	_, err = s.Renew(w.Context(), "k", g.FencingToken, 0)
	wantErr[*lock.LostError](w, err)
	w.heldBy(next)
	w.release(s, next)
	w.free("k")
}

// Rule 8: a grant of which nothing is left by the time it could be returned is none. Once the store has nothing at hand
// from earlier, and once it has.
func aGrantThatTookTooLong(w *world, b Lone) {
	x := w.session("a", long)
	for _, warm := range []bool{false, true} {
		if warm {
			w.release(w.store, w.acquire(w.store, "k", x, short))
		}
		w.stalled(b, x)
	}
	if logged := w.backend.Grants(w.T, "k"); !rising(logged) {
		w.Fatalf("tokens went backwards: %v", logged)
	}
}

func (w *world) stalled(b Lone, x lock.Session) {
	w.Helper()
	resume := b.Stall(w.T, "k")
	type result struct {
		lock.Acquired
		err error
		at  time.Time
	}
	results, begin := make(chan result, 1), time.Now()
	go func() {
		a, err := w.store.TryAcquire(context.WithoutCancel(w.Context()), "k", x.OwnerID, x.ID, short)
		results <- result{a, err, time.Now()}
	}()
	w.eventually("the lease would be over", func() bool { return time.Since(begin) > short+short/5 })
	resume()
	r := <-results
	var contended *lock.ContendedError
	switch {
	case r.err == nil:
		// It was made after all that waiting, or else its lease would be over.
		if left := r.ExpiresAt.Sub(r.at); left <= 0 {
			w.Fatalf("a grant was returned that had been over for %s: %+v", -left, r.Grant)
		}
	case !errors.As(r.err, &contended) && !errors.Is(r.err, lock.ErrUnavailable):
		w.Fatalf("got %v", r.err)
	}
	y, next := w.session("b", long), lock.Acquired{}
	w.eventually("the key is free", func() (free bool) {
		var err error
		next, err = w.store.TryAcquire(w.Context(), "k", "b", y.ID, long)
		return err == nil
	})
	w.release(w.store, next.Grant)
}

// through is a store that reaches the backend through a relay, has acquired and released the key once, and knows that
// nothing is held.
func (w *world) through(b Lone, x lock.Session, ttl time.Duration) (lock.Store, *Relay) {
	w.Helper()
	relay := NewRelay(w.T, b.Address())
	s := b.Open(w.T, relay.Address())
	w.eventually("the store answers", func() bool { return s.Ping(w.Context()) == nil })
	w.release(s, w.acquire(s, "k", x, ttl))
	w.eventually("nothing is held", func() bool {
		n, err := s.Held(w.Context())
		return err == nil && n == 0
	})
	return s, relay
}

// The backend makes the grant and its answer does not arrive. Nobody may believe that nothing happened, and nobody may
// ask the backend a second time in the client's name.
func anAnswerIsLost(w *world, b Lone) {
	x := w.session("a", long)
	s, relay := w.through(b, x, long)
	relay.Hold()
	result := make(chan error, 1)
	go func() {
		_, err := s.TryAcquire(context.WithoutCancel(w.Context()), "k", "a", x.ID, long)
		result <- err
	}()
	w.eventually("the grant is made", func() bool { return len(w.backend.Grants(w.T, "k")) == 2 })
	relay.Cut()
	w.wantIs(<-result, lock.ErrUnavailable)
	w.eventually("the store answers again", func() bool { return s.Ping(w.Context()) == nil })
	next := w.acquire(w.store, "k", x, long) // its own session is never kept out
	logged := w.backend.Grants(w.T, "k")
	if len(logged) != 3 || !rising(logged) || logged[2] != next.FencingToken {
		w.Fatalf("the backend's log has %v, and token %d is the last", logged, next.FencingToken)
	}
	w.heldBy(next)
}

func aCancelledAcquire(w *world, b Lone) {
	x, y := w.session("a", long), w.session("b", long)
	s, relay := w.through(b, x, short)
	relay.Hold()
	ctx, cancel := context.WithCancel(w.Context())
	result := make(chan error, 1)
	go func() {
		_, err := s.TryAcquire(ctx, "k", "a", x.ID, short)
		result <- err
	}()
	w.eventually("the grant is made", func() bool { return len(w.backend.Grants(w.T, "k")) == 2 })
	cancel()
	w.wantIs(<-result, lock.ErrUnavailable)
	relay.LetGo()
	var next lock.Acquired
	w.eventually("the key is free", func() bool {
		var err error
		next, err = s.TryAcquire(w.Context(), "k", "b", y.ID, long)
		return err == nil
	})
	logged := w.backend.Grants(w.T, "k")
	if !rising(logged) || !slices.Contains(logged, next.FencingToken) {
		w.Fatalf("token %d, and the backend's log has %v", next.FencingToken, logged)
	}
}
