package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/deploy/postgres"
	"fenceproof/deploy/postgres/postgrestest"
	"fenceproof/migrations"
	"fenceproof/system/lock"
	"fenceproof/system/lock/locktest"
	"fenceproof/system/migrate"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

var server *postgres.Instance

func TestMain(m *testing.M) {
	status := locktest.Main(m, func(m *testing.M) int {
		return postgrestest.Run(m, func(i *postgres.Instance) { server = i })
	})
	if err := goleak.Find(); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

var (
	databases atomic.Int32
	creating  sync.Mutex // two at once would both create the role
)

// lockdb gives the test a migrated lockdb of its own and the name that it has.
func lockdb(t testing.TB, on *postgres.Instance) string {
	t.Helper()
	creating.Lock()
	defer creating.Unlock()
	name := fmt.Sprintf("lockdb%d", databases.Add(1))
	if err := on.CreateDatabase(t.Context(), name, "lockapp"); err != nil {
		t.Fatal(err)
	}
	history, err := fs.Sub(migrations.LockDB, "lockdb")
	if err != nil {
		t.Fatal(err)
	}
	if err := migrate.Up(t.Context(), on.URL("lockapp", name), history, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	return name
}

var shared string // name of the lockdb that most tests use, one after the other

// store opens a Store on an empty lockdb, beside a plain connection to it. The next test empties it again.
func store(t testing.TB) (lock.Store, *pgx.Conn) {
	t.Helper()
	if shared == "" {
		shared = lockdb(t, server)
	}
	c := connect(t, server.URL("lockapp", shared))
	exec(t, c, "TRUNCATE lock_session, lock_entry, lock_revocation")
	return open(t, server.URL("lockapp", shared)), c
}

func open(t testing.TB, url string) lock.Store {
	t.Helper()
	s, err := openStore(url, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // the server may be gone already
	return c
}

// session opens a session of a minute.
func session(t testing.TB, s lock.Store, owner string) lock.Session {
	t.Helper()
	x, err := s.OpenSession(t.Context(), owner, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func acquire(t testing.TB, s lock.Store, key string, x lock.Session) lock.Acquired {
	t.Helper()
	a, err := s.TryAcquire(t.Context(), key, x.OwnerID, x.ID, 30*time.Second)
	if err != nil {
		t.Fatalf("acquire %s for %s: %v", key, x.OwnerID, err)
	}
	return a
}

func wantErr[E error](t testing.TB, err error) (e E) {
	t.Helper()
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want a %T", err, e)
	}
	return e
}

func wantIs(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func exec(t testing.TB, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func query[T any](t testing.TB, c *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := c.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// expire lets the key's lease be over since a while: both of its times are moved back.
func expire(t testing.TB, c *pgx.Conn, key string) {
	t.Helper()
	exec(t, c, "UPDATE lock_entry SET acquired_at = now() - interval '2 s', expires_at = now() - interval '1 ms' WHERE lock_key = $1", key)
}
