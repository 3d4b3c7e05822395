package pgstore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/system/lock"

	"github.com/google/uuid"
)

func TestAFreeKeyIsGrantedWithATokenAndALease(t *testing.T) {
	s, _ := store(t)
	x := session(t, s, "a")
	g := acquire(t, s, "payout:1", x)
	if g.Key != "payout:1" || g.OwnerID != "a" || g.SessionID != x.ID || g.FencingToken < 1 || g.TTL != 30*time.Second || g.Lapsed != nil {
		t.Fatalf("got %+v", g)
	}
	if got := g.ExpiresAt.Sub(g.AcquiredAt); got != 30*time.Second {
		t.Fatalf("the lease is %s", got)
	}
}

func TestAHeldKeyIsContendedAndTheHolderIsNamed(t *testing.T) {
	s, _ := store(t)
	held := acquire(t, s, "k", session(t, s, "a"))
	b := session(t, s, "b")
	_, err := s.TryAcquire(t.Context(), "k", "b", b.ID, time.Second)
	c := wantErr[*lock.ContendedError](t, err)
	if c.Holder != "a" || !c.ExpiresAt.Equal(held.ExpiresAt) {
		t.Fatalf("got %+v, the holder is %+v", c, held)
	}
}

func TestTheSameSessionReEntersWithAHigherToken(t *testing.T) {
	s, _ := store(t)
	x := session(t, s, "a")
	first, second := acquire(t, s, "k", x), acquire(t, s, "k", x)
	if second.FencingToken <= first.FencingToken || second.Lapsed != nil {
		t.Fatalf("token %d after %d", second.FencingToken, first.FencingToken)
	}
	_, err := s.Renew(t.Context(), "k", first.FencingToken, 0)
	if lost := wantErr[*lock.LostError](t, err); lost.StoredToken != second.FencingToken {
		t.Fatalf("got %+v", lost)
	}
}

func TestAnExpiredGrantIsTakenOverWithAHigherToken(t *testing.T) {
	s, c := store(t)
	old := acquire(t, s, "k", session(t, s, "a"))
	expire(t, c, "k")
	g := acquire(t, s, "k", session(t, s, "b"))
	if g.FencingToken <= old.FencingToken || g.OwnerID != "b" {
		t.Fatalf("got %+v after %+v", g, old)
	}
	if g.Lapsed == nil || g.Lapsed.FencingToken != old.FencingToken || g.Lapsed.OwnerID != "a" {
		t.Fatalf("the lapsed grant is %+v", g.Lapsed)
	}
}

func TestRenewKeepsTheTokenAndExtendsTheLease(t *testing.T) {
	s, _ := store(t)
	g := acquire(t, s, "k", session(t, s, "a"))
	for _, ttl := range []time.Duration{0, g.TTL} {
		r, err := s.Renew(t.Context(), "k", g.FencingToken, ttl)
		if err != nil {
			t.Fatal(err)
		}
		if r.FencingToken != g.FencingToken || !r.ExpiresAt.After(g.ExpiresAt) || !r.AcquiredAt.Equal(g.AcquiredAt) || r.TTL != g.TTL {
			t.Fatalf("got %+v after %+v", r, g)
		}
	}
}

func TestARenewalMayNotAskForAnotherTTL(t *testing.T) {
	s, c := store(t)
	g := acquire(t, s, "k", session(t, s, "a"))
	_, err := s.Renew(t.Context(), "k", g.FencingToken, 29*time.Second)
	wantIs(t, err, lock.ErrTTLMismatch)
	if at := query[time.Time](t, c, "SELECT expires_at FROM lock_entry"); !at.Equal(g.ExpiresAt) {
		t.Fatal("the refused renewal moved the expiry")
	}
}

func TestALapsedGrantCannotBeRenewed(t *testing.T) {
	s, c := store(t)
	g := acquire(t, s, "k", session(t, s, "a"))
	expire(t, c, "k")
	_, err := s.Renew(t.Context(), "k", g.FencingToken, 0)
	if lost := wantErr[*lock.LostError](t, err); lost.StoredToken != g.FencingToken {
		t.Fatalf("got %+v", lost)
	}
}

func TestAStaleReleaseLeavesTheHoldersGrantAlone(t *testing.T) {
	s, c := store(t)
	old := acquire(t, s, "k", session(t, s, "a"))
	expire(t, c, "k")
	g := acquire(t, s, "k", session(t, s, "b"))
	err := s.Release(t.Context(), "k", old.FencingToken)
	if lost := wantErr[*lock.LostError](t, err); lost.StoredToken != g.FencingToken {
		t.Fatalf("got %+v", lost)
	}
	if i, err := s.Inspect(t.Context(), "k"); err != nil || !i.Held || i.Grant.FencingToken != g.FencingToken {
		t.Fatalf("the key is %+v, %v", i, err)
	}
}

func TestReleaseAndAcquireAgainRaisesTheToken(t *testing.T) {
	s, _ := store(t)
	x := session(t, s, "a")
	last := int64(0)
	for range 5 {
		g := acquire(t, s, "k", x)
		if g.FencingToken <= last {
			t.Fatalf("token %d after %d", g.FencingToken, last)
		}
		last = g.FencingToken
		if err := s.Release(t.Context(), "k", last); err != nil {
			t.Fatal(err)
		}
	}
	if i, err := s.Inspect(t.Context(), "k"); err != nil || i.Held {
		t.Fatalf("the key is %+v, %v", i, err)
	}
	lost := wantErr[*lock.LostError](t, s.Release(t.Context(), "k", last))
	if lost.StoredToken != 0 {
		t.Fatalf("got %+v", lost)
	}
}

func TestADeadSessionIsGrantedNothing(t *testing.T) {
	s, c := store(t)
	expired := session(t, s, "a")
	exec(t, c, "UPDATE lock_session SET created_at = now() - interval '2 s', expires_at = now() - interval '1 s'")
	for id, want := range map[string]error{
		expired.ID: lock.ErrSessionExpired, uuid.NewString(): lock.ErrSessionUnknown, "no uuid": lock.ErrSessionUnknown,
	} {
		_, err := s.TryAcquire(t.Context(), "k", "a", id, time.Second)
		wantIs(t, err, want)
		if _, err := s.Heartbeat(t.Context(), id); err == nil {
			t.Fatalf("session %s beats", id)
		}
	}
	if n := query[int](t, c, "SELECT count(*) FROM lock_entry"); n != 0 {
		t.Fatalf("%d grants", n)
	}
}

func TestADeadSessionIsToldSoEvenWhereTheKeyIsHeld(t *testing.T) {
	s, c := store(t)
	dead := session(t, s, "dead")
	exec(t, c, "UPDATE lock_session SET created_at = now() - interval '2 s', expires_at = now() - interval '1 s'")
	acquire(t, s, "k", session(t, s, "a"))
	_, err := s.TryAcquire(t.Context(), "k", "dead", dead.ID, time.Second)
	wantIs(t, err, lock.ErrSessionExpired)
}

func TestAHeartbeatExtendsTheSessionByItsOwnTTL(t *testing.T) {
	s, _ := store(t)
	x := session(t, s, "a")
	acquire(t, s, "k1", x)
	acquire(t, s, "k2", x)
	b, err := s.Heartbeat(t.Context(), x.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.ExpiresAt.Sub(b.Now); got != x.TTL || b.Held != 2 || !b.ExpiresAt.After(x.ExpiresAt) {
		t.Fatalf("got %+v", b)
	}
}

func TestTheEndOfASessionEndsItsGrants(t *testing.T) {
	s, c := store(t)
	x, other := session(t, s, "a"), session(t, s, "b")
	acquire(t, s, "k1", x)
	acquire(t, s, "k2", x)
	acquire(t, s, "k3", other)
	if err := s.CloseSession(t.Context(), x.ID); err != nil {
		t.Fatal(err)
	}
	wantIs(t, s.CloseSession(t.Context(), x.ID), lock.ErrSessionUnknown)
	if n, err := s.Held(t.Context()); err != nil || n != 1 {
		t.Fatalf("%d grants are held, %v", n, err)
	}
	if live, err := s.SessionLive(t.Context(), x.ID); err != nil || live {
		t.Fatalf("live is %t, %v", live, err)
	}
	if n := query[int](t, c, "SELECT count(*) FROM lock_session"); n != 1 {
		t.Fatalf("%d sessions are left", n)
	}
}

func TestTheReaperEndsWhatHasExpiredAndNothingElse(t *testing.T) {
	s, c := store(t)
	dead, live := session(t, s, "dead"), session(t, s, "live")
	acquire(t, s, "of the dead", dead)
	lapsed := acquire(t, s, "lapsed", live)
	kept := acquire(t, s, "kept", live)
	exec(t, c, "UPDATE lock_session SET created_at = now() - interval '2 s', expires_at = now() - interval '1 s' WHERE owner_id = 'dead'")
	expire(t, c, "lapsed")
	r, err := s.Reap(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Sessions) != 1 || r.Sessions[0].ID != dead.ID || r.Sessions[0].OwnerID != "dead" || r.Sessions[0].TTL != time.Minute {
		t.Fatalf("reaped sessions %+v", r.Sessions)
	}
	if len(r.Grants) != 1 || r.Grants[0].FencingToken != lapsed.FencingToken || r.Grants[0].Key != "lapsed" || r.More {
		t.Fatalf("reaped grants %+v", r)
	}
	if left := query[int64](t, c, "SELECT fencing_token FROM lock_entry"); left != kept.FencingToken {
		t.Fatalf("token %d is left, not %d", left, kept.FencingToken)
	}
}

func TestARevokeFreesTheKeyRaisesTheFloorAndIsAudited(t *testing.T) {
	s, c := store(t)
	g := acquire(t, s, "k", session(t, s, "a"))
	r, err := s.Revoke(t.Context(), "k", "olga", "stuck for an hour", g.FencingToken)
	if err != nil {
		t.Fatal(err)
	}
	if r.RevokedToken != g.FencingToken || r.NewTokenFloor <= g.FencingToken || r.OwnerID != "a" || r.ID == "" {
		t.Fatalf("got %+v", r)
	}
	if next := acquire(t, s, "k", session(t, s, "b")); next.FencingToken < r.NewTokenFloor {
		t.Fatalf("token %d is below the floor %d", next.FencingToken, r.NewTokenFloor)
	}
	if n := query[int](t, c, `SELECT count(*) FROM lock_revocation WHERE id::text = $1 AND lock_key = 'k' AND prev_owner = 'a'
		AND prev_token = $2 AND operator = 'olga' AND reason = 'stuck for an hour' AND token_floor = $3`,
		r.ID, g.FencingToken, r.NewTokenFloor); n != 1 {
		t.Fatalf("%d rows of audit", n)
	}
}

func TestARevokeThatDoesNotFitChangesNothing(t *testing.T) {
	s, c := store(t)
	g := acquire(t, s, "k", session(t, s, "a"))
	_, err := s.Revoke(t.Context(), "k", "olga", "stuck for an hour", g.FencingToken+1)
	if m := wantErr[*lock.TokenMismatchError](t, err); m.StoredToken != g.FencingToken {
		t.Fatalf("got %+v", m)
	}
	_, err = s.Revoke(t.Context(), "free", "olga", "stuck for an hour", 0)
	wantIs(t, err, lock.ErrNotHeld)
	expire(t, c, "k")
	_, err = s.Revoke(t.Context(), "k", "olga", "stuck for an hour", 0)
	wantIs(t, err, lock.ErrNotHeld)
	if n := query[int](t, c, "SELECT count(*) FROM lock_revocation"); n != 0 {
		t.Fatalf("%d rows of audit", n)
	}
}

func TestHugeTokensPassUnchanged(t *testing.T) {
	url := server.URL("lockapp", lockdb(t, server)) // its tokens end here
	s, c := open(t, url), connect(t, url)
	x := session(t, s, "a")
	for _, want := range []int64{1<<53 - 1, 1<<53 + 1, 1<<63 - 3} {
		exec(t, c, "SELECT setval('fencing_token_seq', $1)", want-2) // one value is burnt by VALUES, the next is granted
		g := acquire(t, s, "k", x)
		got := query[int64](t, c, "SELECT fencing_token FROM lock_entry")
		if g.FencingToken != got || got < want-1 || got > want {
			t.Fatalf("granted %d, stored %d, wanted about %d", g.FencingToken, got, want)
		}
		if r, err := s.Renew(t.Context(), "k", g.FencingToken, 0); err != nil || r.FencingToken != got {
			t.Fatalf("renewed %d, %v", r.FencingToken, err)
		}
	}
}

// The holder counts itself in while it holds the key: nobody else may be in.
func TestOneKeyHasOneHolder(t *testing.T) {
	s, _ := store(t)
	var wg sync.WaitGroup
	var inside, last atomic.Int64
	for i := range 8 {
		x := session(t, s, fmt.Sprintf("owner-%d", i))
		wg.Go(func() {
			for n := 0; n < 20; {
				a, err := s.TryAcquire(t.Context(), "k", x.OwnerID, x.ID, time.Minute)
				if err != nil {
					continue
				}
				if in, before := inside.Add(1), last.Swap(a.FencingToken); in != 1 || before >= a.FencingToken {
					t.Errorf("%d holders, token %d after %d", in, a.FencingToken, before)
				}
				inside.Add(-1)
				if err := s.Release(t.Context(), "k", a.FencingToken); err != nil {
					t.Error(err)
				}
				n++
			}
		})
	}
	wg.Wait()
}
