package locktest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fenceproof/system/lock"
)

func aFreeKeyIsGranted(w *world) {
	x := w.session("a", long)
	g := w.acquire(w.store, w.key("k"), x, long)
	if g.Key != w.key("k") || g.OwnerID != "a" || g.SessionID != x.ID || g.FencingToken < 1 || g.TTL != long {
		w.Fatalf("got %+v", g)
	}
	if got := g.ExpiresAt.Sub(g.AcquiredAt); got > long || got < long-time.Second {
		w.Fatalf("the lease is %s", got)
	}
	if logged := w.backend.Grants(w.T, g.Key); !slices.Equal(logged, []int64{g.FencingToken}) {
		w.Fatalf("token %d was returned, and the backend's log has %v", g.FencingToken, logged)
	}
}

func aHeldKeyIsContended(w *world) {
	held := w.acquire(w.store, w.key("k"), w.session("a", long), long)
	b := w.session("b", long)
	for _, s := range []lock.Store{w.store, w.another()} {
		_, err := s.TryAcquire(w.Context(), held.Key, "b", b.ID, long)
		c := wantErr[*lock.ContendedError](w, err)
		if off := c.ExpiresAt.Sub(held.ExpiresAt).Abs(); c.Holder != "a" || off > 2*time.Second {
			w.Fatalf("got %+v, the holder is %+v", c, held)
		}
	}
	w.heldBy(held)
}

// Rule 9. Only owner and session together are the same holder.
func theSameSessionReEnters(w *world) {
	x := w.session("a", long)
	first := w.acquire(w.store, w.key("k"), x, long)
	second := w.acquire(w.another(), w.key("k"), x, long)
	if second.FencingToken <= first.FencingToken {
		w.Fatalf("token %d after %d", second.FencingToken, first.FencingToken)
	}
	_, err := w.store.Renew(w.Context(), first.Key, first.FencingToken, 0)
	if lost := wantErr[*lock.LostError](w, err); lost.StoredToken != second.FencingToken {
		w.Fatalf("got %+v", lost)
	}
	_, err = w.store.TryAcquire(w.Context(), first.Key, "somebody else", x.ID, long)
	wantErr[*lock.ContendedError](w, err)
	w.heldBy(second)
}

// Rule 1.
func releaseAndAcquireAgain(w *world) {
	x, key := w.session("a", long), w.key("k")
	var all []int64
	for range 5 {
		g := w.acquire(w.store, key, x, long)
		all = append(all, g.FencingToken)
		w.release(w.store, g)
	}
	if logged := w.backend.Grants(w.T, key); !slices.Equal(logged, all) || !rising(all) {
		w.Fatalf("tokens %v were returned, and the backend's log has %v", all, logged)
	}
	w.free(key)
	lost := wantErr[*lock.LostError](w, w.store.Release(w.Context(), key, all[4]))
	if lost.StoredToken != 0 {
		w.Fatalf("got %+v", lost)
	}
}

// A token is that of the grant's own moment, whatever else is written before and after it.
func tokensAreTheGrantsOwn(w *world) {
	stop, stopped := make(chan struct{}), make(chan error, 1)
	other := w.another()
	go func() {
		var err error
		for x := (lock.Session{}); err == nil; {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if x, err = other.OpenSession(w.Context(), "noise", long); err == nil {
				err = other.CloseSession(w.Context(), x.ID)
			}
		}
		stopped <- err
	}()
	x, key := w.session("a", long), w.key("k")
	var all []int64
	for range 60 {
		g := w.acquire(w.store, key, x, long)
		all = append(all, g.FencingToken)
		w.release(w.store, g)
	}
	close(stop)
	if err := <-stopped; err != nil {
		w.Fatal(err)
	}
	if logged := w.backend.Grants(w.T, key); !slices.Equal(logged, all) {
		w.Fatalf("the backend's log has other tokens than were returned:\n%v\n%v", logged, all)
	}
}

// rising tells whether every token is above the one before it.
func rising(tokens []int64) bool {
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			return false
		}
	}
	return true
}

// Rule 3.
func renewKeepsTheToken(w *world) {
	g := w.acquire(w.store, w.key("k"), w.session("a", long), long)
	last, other := g, w.another()
	for i, ttl := range []time.Duration{0, long, 0} {
		s := []lock.Store{w.store, w.store, other}[i]
		r, err := s.Renew(w.Context(), g.Key, g.FencingToken, ttl)
		if err != nil {
			w.Fatal(err)
		}
		if r.FencingToken != g.FencingToken || !r.ExpiresAt.After(last.ExpiresAt) || !r.AcquiredAt.Equal(g.AcquiredAt) || r.TTL != long || r.OwnerID != "a" {
			w.Fatalf("got %+v after %+v", r, last)
		}
		last = r
		w.heldBy(g)
	}
	if logged := w.backend.Grants(w.T, g.Key); !slices.Equal(logged, []int64{g.FencingToken}) {
		w.Fatalf("a renewal issued again: the backend's log has %v", logged)
	}
}

func aRenewedLeaseOutlives(w *world) {
	a, b, attempt := w.session("a", long), w.session("b", long), 0
	w.inTime(func(begun func()) error {
		begun()
		attempt++
		g := w.acquire(w.store, w.key(fmt.Sprint("k", attempt)), a, short)
		for begin := time.Now(); time.Since(begin) < 2*short; time.Sleep(short / 10) {
			begun()
			if _, err := w.store.Renew(w.Context(), g.Key, g.FencingToken, 0); err != nil {
				return fmt.Errorf("renew after %s: %w", time.Since(begin), err)
			}
			_, err := w.store.TryAcquire(w.Context(), g.Key, "b", b.ID, long)
			var contended *lock.ContendedError
			if !errors.As(err, &contended) {
				return fmt.Errorf("another's acquire after %s: got %v", time.Since(begin), err)
			}
		}
		return nil
	})
}

// inTime runs a test that has to keep a short lease alive. It calls begun before each call that does. Where this machine
// let more of the lease pass between two of them than a half, a failure says nothing, and the test is run again.
func (w *world) inTime(test func(begun func()) error) {
	w.Helper()
	for range 10 {
		last, late := time.Now(), false
		err := test(func() {
			late = late || time.Since(last) > short/2
			last = time.Now()
		})
		if late = late || time.Since(last) > short/2; err == nil {
			return
		}
		if !late {
			w.Fatal(err)
		}
		w.Logf("too late to say: %v", err)
	}
	w.Fatal("this machine is too slow to keep a lease alive")
}

func aRenewalMayNotAskForAnotherTTL(w *world) {
	g := w.acquire(w.store, w.key("k"), w.session("a", long), long)
	_, err := w.store.Renew(w.Context(), g.Key, g.FencingToken, long/2)
	w.wantIs(err, lock.ErrTTLMismatch)
	if left := w.heldBy(g); left.ExpiresAt.After(g.ExpiresAt) {
		w.Fatal("the refused renewal moved the expiry")
	}
}

// Rule 4.
func aRenewalWithAnotherTokenIsLost(w *world) {
	g := w.acquire(w.store, w.key("k"), w.session("a", long), long)
	for _, token := range []int64{g.FencingToken - 1, g.FencingToken + 1, 1<<63 - 1} {
		_, err := w.store.Renew(w.Context(), g.Key, token, 0)
		if lost := wantErr[*lock.LostError](w, err); lost.StoredToken != g.FencingToken {
			w.Fatalf("token %d: got %+v", token, lost)
		}
	}
	_, err := w.store.Renew(w.Context(), w.key("free"), g.FencingToken, 0)
	if lost := wantErr[*lock.LostError](w, err); lost.StoredToken != 0 {
		w.Fatalf("got %+v", lost)
	}
}

// Rule 2: nobody else before the lease is over, and somebody else after it, whether or not anybody reaps.
func aLeaseLastsItsTTL(w *world) {
	a, b := w.session("a", long), w.session("b", long)
	sent := time.Now()
	old := w.acquire(w.store, w.key("k"), a, short)
	var g lock.Acquired
	w.eventually("the lease runs out", func() bool {
		var err error
		if g, err = w.store.TryAcquire(w.Context(), old.Key, "b", b.ID, long); err != nil {
			wantErr[*lock.ContendedError](w, err)
		}
		return err == nil
	})
	if lasted := time.Since(sent); lasted < short {
		w.Fatalf("the lease of %s was over after %s", short, lasted)
	}
	if g.FencingToken <= old.FencingToken || g.OwnerID != "b" {
		w.Fatalf("got %+v after %+v", g, old)
	}
	if g.Lapsed != nil && g.Lapsed.FencingToken != old.FencingToken {
		w.Fatalf("the lapsed grant is %+v", g.Lapsed)
	}
}

// What the store has left over from an earlier grant does not shorten the next one.
func aLeaseLastsItsTTLFromItsOwnAcquire(w *world) {
	x := w.session("a", long)
	earlier := time.Now()
	w.release(w.store, w.acquire(w.store, w.key("k"), x, short))
	w.eventually("most of the earlier lease would be over", func() bool { return time.Since(earlier) > short*3/4 })
	sent := time.Now()
	w.acquire(w.store, w.key("k"), x, short)
	w.lapse(w.key("k"))
	if lasted := time.Since(sent); lasted < short {
		w.Fatalf("the lease of %s was over after %s", short, lasted)
	}
}

func aLapsedGrantCannotBeRenewed(w *world) {
	g := w.acquire(w.store, w.key("k"), w.session("a", long), short)
	w.lapse(g.Key)
	for _, s := range []lock.Store{w.store, w.another()} {
		_, err := s.Renew(w.Context(), g.Key, g.FencingToken, 0)
		if lost := wantErr[*lock.LostError](w, err); lost.StoredToken != 0 && lost.StoredToken != g.FencingToken {
			w.Fatalf("got %+v", lost)
		}
		w.free(g.Key)
	}
}

func aStaleReleaseLeavesTheHolderAlone(w *world) {
	old := w.acquire(w.store, w.key("k"), w.session("a", long), short)
	w.lapse(old.Key)
	g := w.acquire(w.store, old.Key, w.session("b", long), long)
	for _, s := range []lock.Store{w.store, w.another()} {
		err := s.Release(w.Context(), old.Key, old.FencingToken)
		if lost := wantErr[*lock.LostError](w, err); lost.StoredToken != g.FencingToken {
			w.Fatalf("got %+v", lost)
		}
		w.heldBy(g)
	}
}

// A client may send its next request to any lock-server.
func everyServerServesEveryGrant(w *world) {
	x, other := w.session("a", long), w.another()
	g := w.acquire(w.store, w.key("k"), x, long)
	i, err := other.Inspect(w.Context(), g.Key)
	if err != nil || !i.Held || i.Grant.FencingToken != g.FencingToken || i.Grant.SessionID != x.ID || !i.Grant.AcquiredAt.Equal(g.AcquiredAt) ||
		i.Grant.ExpiresAt.Sub(g.ExpiresAt).Abs() > 2*time.Second {
		w.Fatalf("the other server sees %+v, %v; granted was %+v", i, err, g)
	}
	if b, err := other.Heartbeat(w.Context(), x.ID); err != nil || b.Held != 1 {
		w.Fatalf("got %+v, %v", b, err)
	}
	if r, err := other.Renew(w.Context(), g.Key, g.FencingToken, long); err != nil || r.FencingToken != g.FencingToken {
		w.Fatalf("got %+v, %v", r, err)
	}
	w.release(other, g)
	again := w.acquire(other, g.Key, x, long)
	w.release(w.store, again)
	if logged := w.backend.Grants(w.T, g.Key); !slices.Equal(logged, []int64{g.FencingToken, again.FencingToken}) {
		w.Fatalf("tokens %d and %d were returned, and the backend's log has %v", g.FencingToken, again.FencingToken, logged)
	}
}

// Names that begin with one another, or look like the backend's own, are locks of their own.
func noNameTouchesAnothers(w *world) {
	longest := w.key(strings.Repeat("k", lock.MaxKeyBytes-len(w.key(""))))
	names := []string{w.key("a"), w.key("a/"), w.key("a/b"), w.key("A"), w.key("a%2Fb"), w.key("a b"), w.key(" a"), w.key("ä"), w.key("a\\b"),
		w.key("a'b"), w.key("..") + "/..", "/" + w.key("a"), "../session/" + w.key("a"), "lock/" + w.key("a"), "fenceproof/lock/" + w.key("a"),
		w.key("payout:1"), w.key("payout:10"), longest, longest[:len(longest)-1], w.key("%"), w.key("_"), w.key("*")}
	var all []lock.Grant
	for _, name := range names {
		all = append(all, w.acquire(w.store, name, w.session("owner of "+name[:min(40, len(name))], long), long))
	}
	stored := w.backend.Keys(w.T)
	for i, g := range all {
		if !slices.Contains(stored, names[i]) {
			w.Errorf("%q is not stored under its name", names[i])
		}
		w.heldBy(g)
	}
	for i, g := range all {
		w.release(w.store, g)
		w.free(g.Key)
		for _, left := range all[i+1:] {
			w.heldBy(left)
		}
	}
}
