package lockserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/deploy/etcd"
	"fenceproof/deploy/etcd/etcdtest"
	"fenceproof/deploy/postgres"
	"fenceproof/deploy/postgres/postgrestest"
	"fenceproof/migrations"
	"fenceproof/system/lock"
	"fenceproof/system/lock/lockserver"
	"fenceproof/system/lock/pgstore"
	"fenceproof/system/migrate"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

var (
	server *postgres.Instance
	member *etcd.Member
)

func TestMain(m *testing.M) {
	status := postgrestest.Run(withEtcd{m}, func(i *postgres.Instance) { server = i })
	if err := goleak.Find(); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// withEtcd runs the tests with an etcd beside.
type withEtcd struct{ m *testing.M }

func (w withEtcd) Run() int { return etcdtest.Run(w.m, func(e *etcd.Member) { member = e }) }

var databases atomic.Int32

// lockdb is the URL of a migrated lockdb of the test's own on a server.
func lockdb(t testing.TB, on *postgres.Instance) string {
	t.Helper()
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
	return on.URL("lockapp", name)
}

// service is a lock server that serves over HTTP, on a real backend.
type service struct {
	t        testing.TB
	server   *lockserver.Server
	url      string
	database string // of the pg backend
	registry *prometheus.Registry
	http     *http.Client

	mu   sync.Mutex
	logs bytes.Buffer
}

var shared string // URL of the lockdb that most tests use, one after the other

// start serves an empty lockdb. The next test empties it again.
func start(t testing.TB) *service {
	t.Helper()
	return serve(t, emptied(t), 100)
}

// emptied is the lockdb that most tests use, empty.
func emptied(t testing.TB) string {
	t.Helper()
	if shared == "" {
		shared = lockdb(t, server)
	}
	c, err := pgx.Connect(t.Context(), shared)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "TRUNCATE lock_session, lock_entry, lock_revocation"); err != nil {
		t.Fatal(err)
	}
	return shared
}

// serve serves a lockdb.
func serve(t testing.TB, database string, maxWaiters int) *service {
	t.Helper()
	v := serveOn(t, "pg", func(log *slog.Logger) (lock.Store, error) { return pgstore.Open(database, log) }, maxWaiters)
	v.database = database
	return v
}

func serveOn(t testing.TB, backend string, open func(*slog.Logger) (lock.Store, error), maxWaiters int) *service {
	t.Helper()
	v := &service{t: t, registry: prometheus.NewRegistry(), http: &http.Client{Transport: &http.Transport{}}}
	log := slog.New(slog.NewJSONHandler(v, nil))
	store, err := open(log)
	if err != nil {
		t.Fatal(err)
	}
	s := lockserver.New(lockserver.Options{Store: store, Backend: backend, DefaultTTL: 30 * time.Second, SessionTTL: 15 * time.Second,
		MaxWaiters: maxWaiters, Log: log, Registerer: v.registry})
	v.server = s
	h := httptest.NewServer(s.Handler())
	v.url = h.URL
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		v.http.CloseIdleConnections()
		h.Close()
		store.Close()
	})
	return v
}

func (v *service) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.logs.Write(p)
}

// logged tells whether a line of the log holds all of parts.
func (v *service) logged(parts ...string) bool { return v.count(parts...) > 0 }

// count is how many lines of the log hold all of parts.
func (v *service) count(parts ...string) (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for line := range strings.Lines(v.logs.String()) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			n++
		}
	}
	return n
}

// reply is an answer of the service.
type reply struct {
	t      testing.TB
	status int
	body   string
}

// send sends a request as it stands; head holds header lines "Name: value".
func (v *service) send(ctx context.Context, method, path, body string, head ...string) (reply, error) {
	r, err := http.NewRequestWithContext(ctx, method, v.url+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	for _, line := range head {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	res, err := v.http.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return reply{v.t, res.StatusCode, string(b)}, err
}

func (v *service) do(method, path, body string, head ...string) reply {
	v.t.Helper()
	r, err := v.send(v.t.Context(), method, path, body, head...)
	if err != nil {
		v.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// want fails the test unless the answer has the status and holds all of parts.
func (r reply) want(status int, parts ...string) reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("got %d %s, want %d", r.status, r.body, status)
	}
	for _, p := range parts {
		if !strings.Contains(r.body, p) {
			r.t.Fatalf("got %d %s, want %s in it", r.status, r.body, p)
		}
	}
	return r
}

// field reads a field of the answer as its JSON text, strings without quotes.
func (r reply) field(name string) string {
	r.t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.body), &m); err != nil || m[name] == nil {
		r.t.Fatalf("no %s in %d %s", name, r.status, r.body)
	}
	return strings.Trim(string(m[name]), `"`)
}

func (v *service) session(owner string, ttlMillis int) string {
	v.t.Helper()
	return v.do("POST", "/v1/sessions", fmt.Sprintf(`{"ownerId":%q,"ttlMillis":%d}`, owner, ttlMillis)).want(201).field("sessionId")
}

func (v *service) acquire(key, owner, session string, ttlMillis, waitMillis int) reply {
	v.t.Helper()
	return v.do("POST", "/v1/locks/"+key+"/acquire", acquireBody(session, ttlMillis, waitMillis), "X-Owner-Id: "+owner)
}

func acquireBody(session string, ttlMillis, waitMillis int) string {
	return fmt.Sprintf(`{"sessionId":%q,"ttlMillis":%d,"waitMillis":%d}`, session, ttlMillis, waitMillis)
}

func (v *service) release(key, owner, session, token string) reply {
	v.t.Helper()
	return v.do("DELETE", "/v1/locks/"+key, fmt.Sprintf(`{"sessionId":%q}`, session), "X-Owner-Id: "+owner, "X-Fencing-Token: "+token)
}

// query reads one value of lockdb.
func query[T any](v *service, sql string, args ...any) (x T) {
	v.t.Helper()
	c, err := pgx.Connect(v.t.Context(), v.database)
	if err != nil {
		v.t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(v.t.Context(), sql, args...).Scan(&x); err != nil {
		v.t.Fatalf("%s: %v", sql, err)
	}
	return x
}

func execute(v *service, sql string) {
	v.t.Helper()
	c, err := pgx.Connect(v.t.Context(), v.database)
	if err != nil {
		v.t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(v.t.Context(), sql); err != nil {
		v.t.Fatalf("%s: %v", sql, err)
	}
}

// lockRow keeps the key's row locked until the transaction ends.
func (v *service) lockRow(key string) (pgx.Tx, func()) {
	v.t.Helper()
	c, err := pgx.Connect(v.t.Context(), v.database)
	if err != nil {
		v.t.Fatal(err)
	}
	tx, err := c.Begin(v.t.Context())
	if err == nil {
		_, err = tx.Exec(v.t.Context(), "SELECT FROM lock_entry WHERE lock_key = $1 FOR UPDATE", key)
	}
	if err != nil {
		v.t.Fatal(err)
	}
	return tx, func() { _ = c.Close(context.Background()) }
}

// eventually polls a condition until it holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("%s: not within 20 s", what)
}
