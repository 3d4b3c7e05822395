package pgstore_test

import (
	"context"
	"testing"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/lock/locktest"

	"github.com/jackc/pgx/v5"
)

// holdKey takes the key's advisory lock in a transaction of its own, as an acquire does that is slow.
func holdKey(t testing.TB, c *pgx.Conn, key string) pgx.Tx {
	t.Helper()
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), statement(t, "lock_key"), key); err != nil {
		t.Fatal(err)
	}
	return tx
}

// waitsForLock tells whether some backend of the database waits for an advisory lock.
func waitsForLock(t testing.TB, c *pgx.Conn) bool {
	t.Helper()
	return query[bool](t, c, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`)
}

// tryWhileHeld starts an acquire that has to wait for the key's advisory lock, and lets it go on once after is true.
func tryWhileHeld(t *testing.T, s lock.Store, c *pgx.Conn, x lock.Session, ttl time.Duration, after string) error {
	t.Helper()
	other := connect(t, server.URL("lockapp", shared))
	tx := holdKey(t, other, "k")
	result := make(chan error, 1)
	go func() {
		_, err := s.TryAcquire(context.WithoutCancel(t.Context()), "k", x.OwnerID, x.ID, ttl)
		result <- err
	}()
	locktest.Eventually(t, "the acquire waits", func() bool { return waitsForLock(t, c) })
	locktest.Eventually(t, after, func() bool { return query[bool](t, c, "SELECT "+after) })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	return <-result
}

func TestASessionThatDiedWhileItsAcquireWaitedIsGrantedNothing(t *testing.T) {
	s, c := store(t)
	x, err := s.OpenSession(t.Context(), "a", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	err = tryWhileHeld(t, s, c, x, time.Minute, "clock_timestamp() > (SELECT expires_at FROM lock_session)")
	wantIs(t, err, lock.ErrSessionExpired)
	if n := query[int](t, c, "SELECT count(*) FROM lock_entry"); n != 0 {
		t.Fatalf("%d grants are left", n)
	}
}

// The database ends a statement that waits too long: nothing happened, and nobody says that anything was lost.
func TestAnAcquireThatWaitsForeverIsUnavailable(t *testing.T) {
	s, c := store(t)
	x := session(t, s, "a")
	tx := holdKey(t, connect(t, server.URL("lockapp", shared)), "k")
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err := s.TryAcquire(t.Context(), "k", "a", x.ID, time.Minute)
	wantIs(t, err, lock.ErrUnavailable)
	if n := query[int](t, c, "SELECT count(*) FROM lock_entry"); n != 0 {
		t.Fatalf("%d grants", n)
	}
}

func TestADatabaseWithoutTheSchemaIsNotReady(t *testing.T) {
	if err := server.CreateDatabase(t.Context(), "bare", "lockapp"); err != nil {
		t.Fatal(err)
	}
	wantIs(t, open(t, server.URL("lockapp", "bare")).Ping(t.Context()), lock.ErrUnavailable)
}

// Whoever waits at another process hears of a release, also after the connection that listens was broken.
func TestAReleaseWakesWaitersOfOtherProcesses(t *testing.T) {
	s, c := store(t)
	other := open(t, server.URL("lockapp", shared))
	x := session(t, s, "a")
	super := connect(t, server.SuperURL(shared))
	listeners := "SELECT coalesce(array_agg(pid), '{}') FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'"
	for range 2 {
		var listening []int32
		locktest.Eventually(t, "both stores listen", func() bool {
			listening = query[[]int32](t, c, listeners)
			return len(listening) == 2
		})
		wake, cancel := other.Watch("k")
		drain(wake)
		g := acquire(t, s, "k", x)
		if err := s.Release(t.Context(), "k", g.FencingToken); err != nil {
			t.Fatal(err)
		}
		select {
		case <-wake:
		case <-time.After(20 * time.Second):
			t.Fatal("nobody woke the waiter")
		}
		cancel()
		exec(t, super, "SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid", listening)
		locktest.Eventually(t, "the listening connections are broken", func() bool {
			return !query[bool](t, super, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = ANY($1))", listening)
		})
	}
}

func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// The lease lapses after the renewal has found it alive, while its statement waits for the row.
func TestALeaseThatLapsesDuringItsRenewalIsLost(t *testing.T) {
	s, c := store(t)
	g := acquire(t, s, "k", session(t, s, "a"))
	tx, err := connect(t, server.URL("lockapp", shared)).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE lock_entry SET acquired_at = now() - interval '2 s', expires_at = now() - interval '1 s'"); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := s.Renew(context.WithoutCancel(t.Context()), "k", g.FencingToken, 0)
		result <- err
	}()
	locktest.Eventually(t, "the renewal waits", func() bool { return waitsForLock(t, c) })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantErr[*lock.LostError](t, <-result)
}
