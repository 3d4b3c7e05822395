package locktest

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/system/lock"
)

// world is where one test happens: a backend, a store on it, and names that no other test has.
type world struct {
	*testing.T
	backend Backend
	store   lock.Store
	name    string
}

var worlds atomic.Int64

func newWorld(t *testing.T, b Backend) *world {
	w := &world{T: t, backend: b, name: fmt.Sprintf("w%d", worlds.Add(1))}
	w.store = w.another()
	return w
}

// another is one more store on the backend.
func (w *world) another() lock.Store {
	w.Helper()
	s := w.backend.Open(w.T, w.backend.Address())
	w.eventually("the store answers", func() bool { return s.Ping(w.Context()) == nil })
	return s
}

// key is a key of this test's own.
func (w *world) key(name string) string { return w.name + ":" + name }

// session opens a session at the test's store.
func (w *world) session(owner string, ttl time.Duration) lock.Session {
	w.Helper()
	x, err := w.store.OpenSession(w.Context(), owner, ttl)
	if err != nil {
		w.Fatalf("open a session for %s: %v", owner, err)
	}
	if x.OwnerID != owner || x.TTL != ttl || x.ID == "" {
		w.Fatalf("got session %+v", x)
	}
	return x
}

// acquire acquires a key that is free to x.
func (w *world) acquire(s lock.Store, key string, x lock.Session, ttl time.Duration) lock.Grant {
	w.Helper()
	a, err := s.TryAcquire(w.Context(), key, x.OwnerID, x.ID, ttl)
	if err != nil {
		w.Fatalf("acquire %q for %s: %v", key, x.OwnerID, err)
	}
	return a.Grant
}

func (w *world) release(s lock.Store, g lock.Grant) {
	w.Helper()
	if err := s.Release(w.Context(), g.Key, g.FencingToken); err != nil {
		w.Fatalf("release %q: %v", g.Key, err)
	}
}

// heldBy fails the test unless the key is held by the grant, and returns what is known of it.
func (w *world) heldBy(g lock.Grant) lock.Grant {
	w.Helper()
	i, err := w.store.Inspect(w.Context(), g.Key)
	if err != nil || !i.Held || i.Grant.FencingToken != g.FencingToken || i.Grant.OwnerID != g.OwnerID {
		w.Fatalf("key %q is %+v, %v; want it held by %s with token %d", g.Key, i, err, g.OwnerID, g.FencingToken)
	}
	return i.Grant
}

// free fails the test unless the key is free.
func (w *world) free(key string) {
	w.Helper()
	if i, err := w.store.Inspect(w.Context(), key); err != nil || i.Held {
		w.Fatalf("key %q is %+v, %v; want it free", key, i, err)
	}
}

// lapse waits until the key's lease has run out, whatever it takes the backend to see it.
func (w *world) lapse(key string) {
	w.Helper()
	w.eventually("the lease of "+key+" runs out", func() bool {
		i, err := w.store.Inspect(w.Context(), key)
		return err == nil && !i.Held
	})
}

// patience is how long the suite waits for what must happen; on a broken store most of it is waste.
func patience() time.Duration {
	if os.Getenv(chooser) != "" {
		return 5 * time.Second
	}
	return 20 * time.Second
}

// Eventually polls a condition until it holds.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience()); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("%s: not within %s", what, patience())
}

func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	Eventually(w, what, holds)
}

func wantErr[E error](w *world, err error) (e E) {
	w.Helper()
	if !errors.As(err, &e) {
		w.Fatalf("got error %v, want a %T", err, e)
	}
	return e
}

func (w *world) wantIs(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("got error %v, want %v", err, want)
	}
}

// wantDead fails the test unless err says that the session is dead; the two words for it mean the same to a client.
func (w *world) wantDead(err error) {
	w.Helper()
	if !errors.Is(err, lock.ErrSessionUnknown) && !errors.Is(err, lock.ErrSessionExpired) {
		w.Fatalf("got error %v, want that the session is dead", err)
	}
}
