package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"fenceproof/system/lock"

	"github.com/jackc/pgx/v5"
)

// later makes rows look as the database finds them when its clock was put back by an hour since they were written.
func later(t *testing.T, c *pgx.Conn) {
	t.Helper()
	exec(t, c, "UPDATE lock_session SET created_at = created_at + interval '1 hour', expires_at = expires_at + interval '1 hour'")
	exec(t, c, "UPDATE lock_entry SET acquired_at = acquired_at + interval '1 hour', expires_at = expires_at + interval '1 hour'")
}

// Whether the clock is an hour behind now, or was an hour ahead and is right again, comes to the same for what was begun before:
// it lasts, nobody can extend it, and nobody else is granted it.
func TestWhatBeganByAClockThatWasPutBackIsNeitherExtendedNorGrantedToOthers(t *testing.T) {
	s, c := store(t)
	a, b := session(t, s, "a"), session(t, s, "b")
	held := acquire(t, s, "k", a)
	later(t, c)

	_, err := s.Renew(t.Context(), "k", held.FencingToken, 0)
	wantIs(t, err, lock.ErrUnavailable)
	_, err = s.Heartbeat(t.Context(), a.ID)
	wantIs(t, err, lock.ErrUnavailable)
	fresh := session(t, s, "c")
	var contended *lock.ContendedError
	if _, err := s.TryAcquire(t.Context(), "k", fresh.OwnerID, fresh.ID, time.Minute); !errors.As(err, &contended) {
		t.Errorf("somebody else asks for the key, and hears %v", err)
	}
	if n := query[int](t, c, "SELECT count(*) FROM lock_entry WHERE lock_key = 'k'"); n != 1 {
		t.Errorf("%d grants of the key are left", n)
	}
	if got := acquire(t, s, "other", b); got.FencingToken <= held.FencingToken { // the session lasts, and what is granted in it now is by the right clock
		t.Errorf("token %d after %d", got.FencingToken, held.FencingToken)
	}
}

// The runbook's way out: the operator revokes the grant, and whoever wants his session gone closes it.
func TestAnOperatorFreesWhatAClockThatWasAheadHasMadeTooLong(t *testing.T) {
	s, c := store(t)
	a := session(t, s, "a")
	held := acquire(t, s, "k", a)
	later(t, c)
	grants, err := s.(lock.Lister).ListGrants(t.Context(), lock.ListQuery{Limit: 10})
	if err != nil || len(grants.Grants) != 1 || time.Until(grants.Grants[0].ExpiresAt) < 59*time.Minute {
		t.Fatalf("listed are %+v, %v", grants.Grants, err)
	}
	r, err := s.Revoke(t.Context(), "k", "olga", "granted by a clock that was ahead", held.FencingToken)
	if err != nil {
		t.Fatal(err)
	}
	b := session(t, s, "b")
	if next := acquire(t, s, "k", b); next.FencingToken < r.NewTokenFloor {
		t.Errorf("token %d is below the floor %d", next.FencingToken, r.NewTokenFloor)
	}
	if err := s.CloseSession(context.WithoutCancel(t.Context()), a.ID); err != nil {
		t.Errorf("the session that nobody can keep alive cannot be closed either: %v", err)
	}
	sessions, err := s.(lock.Lister).ListSessions(t.Context(), lock.ListQuery{Limit: 10})
	if err != nil || len(sessions.Sessions) != 1 || sessions.Sessions[0].ID != b.ID {
		t.Errorf("sessions are %+v, %v", sessions.Sessions, err)
	}
}
