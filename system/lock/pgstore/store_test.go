package pgstore_test

import (
	"testing"
	"time"

	"fenceproof/system/lock"

	"github.com/google/uuid"
)

func TestWhoeverTakesOverAnExpiredGrantIsToldWhoseItWas(t *testing.T) {
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

func TestAnExpiredSessionIsToldFromAnUnknownOne(t *testing.T) {
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
