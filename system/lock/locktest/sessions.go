package locktest

import (
	"fmt"
	"slices"
	"time"

	"fenceproof/system/lock"

	"github.com/google/uuid"
)

func aDeadSessionIsGrantedNothing(w *world) {
	closed, expired := w.session("a", long), w.session("a", short)
	if err := w.store.CloseSession(w.Context(), closed.ID); err != nil {
		w.Fatal(err)
	}
	w.die(expired)
	for what, id := range map[string]string{"closed": closed.ID, "expired": expired.ID, "never opened": uuid.NewString(), "no id": "no uuid",
		"a path": "../lock/" + w.key("k"), "empty": ""} {
		for _, s := range []lock.Store{w.store, w.another()} {
			_, err := s.TryAcquire(w.Context(), w.key("k"), "a", id, long)
			w.wantDead(err)
			_, err = s.Heartbeat(w.Context(), id)
			w.wantDead(err)
			if live, err := s.SessionLive(w.Context(), id); err != nil || live {
				w.Fatalf("%s: live is %t, %v", what, live, err)
			}
		}
	}
	if logged := w.backend.Grants(w.T, w.key("k")); len(logged) > 0 {
		w.Fatalf("the backend's log has grants %v", logged)
	}
}

// die waits until a session has run out.
func (w *world) die(x lock.Session) {
	w.Helper()
	w.eventually("the session dies", func() bool {
		live, err := w.store.SessionLive(w.Context(), x.ID)
		return err == nil && !live
	})
}

func aDeadSessionIsToldSo(w *world) {
	dead := w.session("dead", long)
	g := w.acquire(w.store, w.key("k"), w.session("a", long), long)
	if err := w.store.CloseSession(w.Context(), dead.ID); err != nil {
		w.Fatal(err)
	}
	_, err := w.store.TryAcquire(w.Context(), g.Key, "dead", dead.ID, long)
	w.wantDead(err)
}

func aHeartbeatExtends(w *world) {
	w.inTime(func(begun func()) error {
		begun()
		x, silent := w.session("a", short), w.session("b", short)
		for _, key := range []string{"k1 of ", "k2 of "} {
			if _, err := w.store.TryAcquire(w.Context(), w.key(key+x.ID), "a", x.ID, long); err != nil {
				return err
			}
		}
		last := x.ExpiresAt
		for begin := time.Now(); time.Since(begin) < 2*short; time.Sleep(short / 10) {
			begun()
			b, err := w.store.Heartbeat(w.Context(), x.ID)
			if err != nil {
				return fmt.Errorf("after %s: %w", time.Since(begin), err)
			}
			if got := b.ExpiresAt.Sub(b.Now); got != x.TTL || b.Held != 2 || !b.ExpiresAt.After(last) {
				return fmt.Errorf("after %s: got %+v", time.Since(begin), b)
			}
			last = b.ExpiresAt
		}
		if err := w.store.CloseSession(w.Context(), x.ID); err != nil {
			return err
		}
		w.die(silent)
		_, err := w.store.Heartbeat(w.Context(), silent.ID)
		w.wantDead(err)
		return nil
	})
}

// Rule 5, when the client says goodbye. No grant of the session is left at any moment after, at any server.
func closingASessionEndsItsGrants(w *world) {
	other := w.another()
	for range 5 {
		x, y := w.session("a", long), w.session("b", long)
		mine := []lock.Grant{w.acquire(w.store, w.key("k1"), x, long), w.acquire(other, w.key("k2"), x, long)}
		kept := w.acquire(w.store, w.key("k3"), y, long)
		if err := w.store.CloseSession(w.Context(), x.ID); err != nil {
			w.Fatal(err)
		}
		w.over(x, mine, y, other)
		w.wantIs(w.store.CloseSession(w.Context(), x.ID), lock.ErrSessionUnknown)
		w.heldBy(kept)
		if err := w.store.CloseSession(w.Context(), y.ID); err != nil {
			w.Fatal(err)
		}
	}
}

// Rule 5, when the client has fallen silent: the grants' own leases would have lasted. The step may be a reaper's.
func aSessionThatExpires(w *world) {
	x, y, other := w.session("a", short), w.session("b", long), w.another()
	mine := []lock.Grant{w.acquire(w.store, w.key("k1"), x, long), w.acquire(other, w.key("k2"), x, long)}
	w.die(x)
	w.eventually("one of its grants is over", func() bool {
		if _, err := w.store.Reap(w.Context()); err != nil {
			w.Fatal(err)
		}
		i, err := w.store.Inspect(w.Context(), mine[1].Key)
		return err == nil && !i.Held
	})
	w.over(x, mine, y, other)
}

// over fails the test unless all grants of the dead session x are over, and taken over by y with higher tokens.
func (w *world) over(x lock.Session, mine []lock.Grant, y lock.Session, other lock.Store) {
	w.Helper()
	for _, g := range mine {
		w.free(g.Key)
		for _, s := range []lock.Store{w.store, other} {
			_, err := s.Renew(w.Context(), g.Key, g.FencingToken, 0)
			wantErr[*lock.LostError](w, err)
			wantErr[*lock.LostError](w, s.Release(w.Context(), g.Key, g.FencingToken))
		}
		_, err := w.store.Revoke(w.Context(), g.Key, "olga", "nobody holds it", 0)
		w.wantIs(err, lock.ErrNotHeld)
		next := w.acquire(other, g.Key, y, long)
		if next.FencingToken <= g.FencingToken {
			w.Fatalf("token %d after %d", next.FencingToken, g.FencingToken)
		}
		w.heldBy(next)
		w.release(w.store, next)
	}
	_, err := other.TryAcquire(w.Context(), w.key("k4"), "a", x.ID, long)
	w.wantDead(err)
}

func onlyLiveGrantsAreCounted(w *world, _ Lone) {
	x, y, other := w.session("a", long), w.session("b", long), w.another()
	held := func(want int) {
		w.Helper()
		for _, s := range []lock.Store{w.store, other} {
			if n, err := s.Held(w.Context()); err != nil || n != want {
				w.Fatalf("%d grants are held, %v; want %d", n, err, want)
			}
		}
	}
	held(0)
	w.acquire(w.store, "k1", x, long)
	w.acquire(w.store, "k2", x, long)
	kept := w.acquire(w.store, "k3", y, long)
	w.acquire(w.store, "k4", y, short)
	held(4)
	if err := w.store.CloseSession(w.Context(), x.ID); err != nil {
		w.Fatal(err)
	}
	held(2)
	w.lapse("k4")
	held(1)
	w.release(w.store, kept)
	held(0)
}

// What has expired is told once, as far as this server has served it, and leaves nothing behind.
func theReaperEndsWhatHasExpired(w *world, _ Lone) {
	dead, closed, live := w.session("dead", short), w.session("closed", long), w.session("live", long)
	w.acquire(w.store, "of the dead", dead, long)
	w.acquire(w.store, "of the closed", closed, long)
	lapsed := w.acquire(w.store, "lapsed", live, short)
	kept := w.acquire(w.store, "kept", live, long)
	if err := w.store.CloseSession(w.Context(), closed.ID); err != nil {
		w.Fatal(err)
	}
	var r lock.Reaped
	w.eventually("only what lives is left", func() bool {
		next, err := w.store.Reap(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		r.Sessions, r.Grants = append(r.Sessions, next.Sessions...), append(r.Grants, next.Grants...)
		return slices.Equal(w.backend.Keys(w.T), []string{"kept"}) && len(r.Sessions) > 0 && len(r.Grants) > 0
	})
	if len(r.Sessions) != 1 || r.Sessions[0].ID != dead.ID || r.Sessions[0].OwnerID != "dead" || r.Sessions[0].TTL != short {
		w.Fatalf("reaped sessions %+v", r.Sessions)
	}
	if len(r.Grants) != 1 || r.Grants[0].FencingToken != lapsed.FencingToken || r.Grants[0].Key != "lapsed" || r.More {
		w.Fatalf("reaped grants %+v", r)
	}
	w.heldBy(kept)
}
