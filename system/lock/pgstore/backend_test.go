package pgstore_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"fenceproof/deploy/postgres"
	"fenceproof/deploy/postgres/postgrestest"
	"fenceproof/system/lock"
	"fenceproof/system/lock/locktest"

	"github.com/jackc/pgx/v5"
)

func TestContract(t *testing.T) {
	locktest.Run(t, locktest.Backends{
		Shared: func(t testing.TB) locktest.Backend { return newBackend(t, server) },
		Own:    func(t testing.TB) locktest.Lone { return newBackend(t, server) },
		Server: func(t testing.TB) locktest.Server { return newBackend(t, postgrestest.Start(t)) },
	})
}

// backend is a lockdb of the test's own on a server, with the log of its commits from its creation on.
type backend struct {
	server   *postgres.Instance
	database string
	log      *commitLog

	mu sync.Mutex // one reads the log at a time
}

func newBackend(t testing.TB, on *postgres.Instance) *backend {
	t.Helper()
	name := lockdb(t, on)
	return &backend{server: on, database: name, log: watchCommits(t, on, name)}
}

func (b *backend) Address() string { return b.server.Address() }

func (b *backend) Open(t testing.TB, address string) lock.Store {
	t.Helper()
	return open(t, postgres.URL(address, "lockapp", b.database))
}

func (b *backend) Grants(t testing.TB, key string) (tokens []int64) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.log.read(t) {
		if g.key == key {
			tokens = append(tokens, g.token)
		}
	}
	return slices.Compact(tokens) // a renewal writes the row again
}

// ask opens a connection for one question.
func ask[T any](t testing.TB, b *backend, sql string, args ...any) (v T) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), b.server.URL("lockapp", b.database))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	return query[T](t, c, sql, args...)
}

func (b *backend) Keys(t testing.TB) []string {
	t.Helper()
	return ask[[]string](t, b, "SELECT coalesce(array_agg(lock_key ORDER BY lock_key), '{}') FROM lock_entry")
}

func (b *backend) Audit(t testing.TB, id string) (a locktest.Audit) {
	t.Helper()
	row := ask[map[string]any](t, b, "SELECT to_jsonb(r) FROM lock_revocation r WHERE id::text = $1 AND token_floor > prev_token", id)
	text := func(name string) string { s, _ := row[name].(string); return s }
	token := ask[int64](t, b, "SELECT prev_token FROM lock_revocation WHERE id::text = $1", id)
	return locktest.Audit{Key: text("lock_key"), OwnerID: text("prev_owner"), Operator: text("operator"), Reason: text("reason"), RevokedToken: token}
}

func (b *backend) Pause(t testing.TB)  { do(t, b.server.Pause) }
func (b *backend) Resume(t testing.TB) { do(t, b.server.Resume) }
func (b *backend) Start(t testing.TB)  { do(t, b.server.Start) }
func (b *backend) Crash(t testing.TB)  { do(t, b.server.Crash) }

func (b *backend) Stall(t testing.TB, key string) func() {
	t.Helper()
	tx := holdKey(t, connect(t, b.server.URL("lockapp", b.database)), key)
	return func() {
		if err := tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

func do(t testing.TB, step func(context.Context) error) {
	t.Helper()
	if err := step(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// granted is a line of the commit log.
type granted struct {
	key   string
	token int64
}

// parseGrant reads a line of the log; ok is false when no grant was written by it.
func parseGrant(t testing.TB, line string) (g granted, ok bool) {
	t.Helper()
	if !strings.HasPrefix(line, "table public.lock_entry: INSERT:") && !strings.HasPrefix(line, "table public.lock_entry: UPDATE:") {
		return g, false
	}
	_, rest, _ := strings.Cut(line, "lock_key[text]:'")
	key, _, _ := strings.Cut(rest, "' owner_id[text]:")
	_, rest, _ = strings.Cut(rest, "fencing_token[bigint]:")
	digits, _, _ := strings.Cut(rest, " ")
	token, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		t.Fatalf("no token in %q", line)
	}
	return granted{strings.ReplaceAll(key, "''", "'"), token}, true
}
