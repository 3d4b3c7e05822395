package lockserver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"fenceproof/deploy/etcd"
	"fenceproof/system/lock"
	"fenceproof/system/lock/etcdstore"
	"fenceproof/system/lock/pgstore"
	"fenceproof/system/wire"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// longestWait is for an acquire that waits in lock-server's queue.
const longestWait = 30 * time.Second

// overHTTP is the lock-server at url; each client calls it as the SDK does. An acquire without a wait that is refused is
// tried again at once.
func overHTTP(b *testing.B, url string, clients int, wait time.Duration) pairing {
	c := wire.NewClient(url, clients)
	b.Cleanup(c.Close)
	sessions := make([]string, clients)
	for i := range sessions {
		var s struct {
			SessionID string `json:"sessionId"`
		}
		if err := c.Do(b.Context(), wire.Call{Method: http.MethodPost, Path: "/v1/sessions", Body: map[string]any{"ownerId": owner(i), "ttlMillis": pairTTL.Milliseconds()}}, &s); err != nil {
			b.Fatal(err)
		}
		sessions[i] = s.SessionID
	}
	type acquire struct {
		SessionID  string `json:"sessionId"`
		TTLMillis  int64  `json:"ttlMillis"`
		WaitMillis int64  `json:"waitMillis"`
	}
	type release struct {
		SessionID string `json:"sessionId"`
	}
	return func(ctx context.Context, client int, key string, granted func()) (bool, error) {
		var g struct {
			FencingToken int64 `json:"fencingToken"`
		}
		path := "/v1/locks/" + key
		err := c.Do(ctx, wire.Call{Method: http.MethodPost, Path: path + "/acquire", Owner: owner(client),
			Body: acquire{sessions[client], pairTTL.Milliseconds(), wait.Milliseconds()}}, &g)
		if wire.CodeOf(err) == wire.LockContended {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		granted()
		return true, c.Do(ctx, wire.Call{Method: http.MethodDelete, Path: path, Owner: owner(client), Token: g.FencingToken, Body: release{sessions[client]}}, nil)
	}
}

// startProcess builds and starts lock-server and returns its address.
func startProcess(b *testing.B, env ...string) string {
	binary := filepath.Join(b.TempDir(), "lock-server")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", binary, "fenceproof/system/cmd/lock-server").CombinedOutput(); err != nil {
		b.Fatalf("build lock-server: %v\n%s", err, out)
	}
	public, admin := freeAddress(b), freeAddress(b)
	cmd := exec.Command(binary)
	cmd.Env = append(append(os.Environ(), env...), "LOCK_SERVER_LISTEN="+public, "LOCK_SERVER_ADMINLISTEN="+admin)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	eventually(b, "lock-server is ready", func() bool {
		res, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	http.DefaultClient.CloseIdleConnections()
	return "http://" + public
}

func freeAddress(b *testing.B) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func openPG(b *testing.B, database string) lock.Store {
	s, err := pgstore.Open(database, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	return s
}

func openEtcd(b *testing.B, m *etcd.Member) lock.Store {
	s, err := etcdstore.Open([]string{m.URL()}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	return s
}

// onStore is the same on the store that lock-server uses, in this process.
func onStore(b *testing.B, s lock.Store, clients int) pairing {
	sessions := make([]string, clients)
	for i := range sessions {
		x, err := s.OpenSession(b.Context(), owner(i), pairTTL)
		if err != nil {
			b.Fatal(err)
		}
		sessions[i] = x.ID
	}
	return func(ctx context.Context, client int, key string, granted func()) (bool, error) {
		a, err := s.TryAcquire(ctx, key, owner(client), sessions[client], pairTTL)
		var contended *lock.ContendedError
		if errors.As(err, &contended) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		granted()
		return true, s.Release(ctx, key, a.Grant.FencingToken)
	}
}

// connections bounds those of C1's bare statements, as pgstore bounds its own.
const connections = 16

func pool(b *testing.B, database string, size int) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = int32(size)
	p, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Close)
	return p
}

// withC1 is C1's acquire and release as they stand, through plain pgx.
func withC1(b *testing.B, database string, clients int, advisory bool) pairing {
	statement := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "pgstore", "sql", name+".sql"))
		if err != nil {
			b.Fatal(err)
		}
		return string(text)
	}
	lockKey, acquire, release := statement("lock_key"), statement("acquire"), statement("release")
	p := pool(b, database, min(clients, connections))
	sessions := make([]string, clients)
	for i := range sessions {
		sessions[i] = fmt.Sprintf("00000000-0000-4000-8000-%07d%05d", databases.Add(1), i)
		if _, err := p.Exec(b.Context(), statement("session_open"), sessions[i], owner(i), pairTTL.Seconds()); err != nil {
			b.Fatal(err)
		}
	}
	return func(ctx context.Context, client int, key string, won func()) (granted bool, err error) {
		var token int64
		batch := &pgx.Batch{}
		if advisory {
			batch.Queue(lockKey, key)
		}
		batch.Queue(acquire, key, owner(client), sessions[client], pairTTL.Seconds()).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&token, nil, nil, nil, nil)
			if granted = err == nil; errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
		if err := p.SendBatch(ctx, batch).Close(); err != nil || !granted {
			return false, err
		}
		won()
		return true, p.QueryRow(ctx, release, key, token).Scan(&token)
	}
}

// withAdvisoryLock is PostgreSQL's own lock: no lease, no token, nothing written, and gone with the connection, of which
// each client has one.
func withAdvisoryLock(b *testing.B, database string, clients int) pairing {
	p := pool(b, database, clients)
	conns := make([]*pgxpool.Conn, clients)
	for i := range conns {
		c, err := p.Acquire(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.Release)
		conns[i] = c
	}
	return func(ctx context.Context, client int, key string, granted func()) (bool, error) {
		if _, err := conns[client].Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", key); err != nil {
			return false, err
		}
		granted()
		_, err := conns[client].Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", key)
		return true, err
	}
}

// withMutex is etcd's own recipe: a key per client in a queue, all on the lease of the client's session.
func withMutex(b *testing.B, m *etcd.Member, clients int) pairing {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.URL()}, Logger: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() }) // there is nothing to learn from it
	sessions := make([]*concurrency.Session, clients)
	for i := range sessions {
		if sessions[i], err = concurrency.NewSession(c, concurrency.WithTTL(int(pairTTL.Seconds()))); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = sessions[i].Close() }) // its lease ends with etcd
	}
	return func(ctx context.Context, client int, key string, granted func()) (bool, error) {
		mutex := concurrency.NewMutex(sessions[client], "mutex/"+key)
		if err := mutex.Lock(ctx); err != nil {
			return false, err
		}
		granted()
		return true, mutex.Unlock(ctx)
	}
}
