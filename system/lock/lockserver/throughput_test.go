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
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/deploy/postgres/postgrestest"
	"fenceproof/system/lock"
	"fenceproof/system/lock/pgstore"
	"fenceproof/system/wire"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The comparison of BenchmarkPairs: 16 clients, each with a session of its own, in alternating rounds.
const (
	pairClients = 16
	pairRounds  = 5
	pairRound   = 2 * time.Second
	pairTTL     = time.Minute
)

// pairing tries one acquire and, where it was granted, its release. granted is false when the key was held.
type pairing func(ctx context.Context, client int, key string) (granted bool, err error)

// BenchmarkPairs compares acquire + release per second over HTTP, through the real lock-server process, with the same on
// the store that it uses, and with C1's bare statements with and without the advisory lock. The sides take turns, and
// the medians are reported; an op is the whole comparison.
func BenchmarkPairs(b *testing.B) {
	for _, c := range []struct {
		name string
		key  func(client int) string
	}{
		{"16_keys", func(client int) string { return fmt.Sprint("key-", client) }},
		{"one_hot_key", func(int) string { return "hot" }},
	} {
		b.Run(c.name, func(b *testing.B) {
			url := lockdb(b, postgrestest.StartDurable(b)) // what waits for the disk in production waits for it here
			sides := []struct {
				name string
				pair pairing
			}{
				{"http", overHTTP(b, url)}, {"store", onStore(b, url)},
				{"c1+advisory", withC1(b, url, true)}, {"c1", withC1(b, url, false)},
			}
			rates := make([][]float64, len(sides))
			for b.Loop() {
				for range pairRounds {
					for i, side := range sides {
						rates[i] = append(rates[i], pairsPerSecond(b, side.pair, c.key))
					}
				}
			}
			for i, side := range sides {
				slices.Sort(rates[i])
				b.ReportMetric(rates[i][len(rates[i])/2], side.name+"-pairs/s")
			}
		})
	}
}

// pairsPerSecond runs all clients for one round.
func pairsPerSecond(b *testing.B, pair pairing, key func(int) string) float64 {
	ctx, cancel := context.WithTimeout(b.Context(), 10*pairRound)
	defer cancel()
	var done atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for client := range pairClients {
		wg.Go(func() {
			for time.Since(begin) < pairRound {
				granted, err := pair(ctx, client, key(client))
				if err != nil {
					b.Error(err)
					return
				}
				if granted {
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds()
}

func owner(client int) string { return fmt.Sprint("client-", client) }

// overHTTP starts lock-server on the database; each client calls it as the SDK does.
func overHTTP(b *testing.B, database string) pairing {
	c := wire.NewClient(startProcess(b, database), pairClients)
	b.Cleanup(c.Close)
	sessions := make([]string, pairClients)
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
	return func(ctx context.Context, client int, key string) (bool, error) {
		var g struct {
			FencingToken int64 `json:"fencingToken"`
		}
		path := "/v1/locks/" + key
		err := c.Do(ctx, wire.Call{Method: http.MethodPost, Path: path + "/acquire", Owner: owner(client),
			Body: acquire{sessions[client], pairTTL.Milliseconds(), 0}}, &g)
		if wire.CodeOf(err) == wire.LockContended {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return true, c.Do(ctx, wire.Call{Method: http.MethodDelete, Path: path, Owner: owner(client), Token: g.FencingToken, Body: release{sessions[client]}}, nil)
	}
}

// startProcess builds and starts lock-server and returns its address.
func startProcess(b *testing.B, database string) string {
	binary := filepath.Join(b.TempDir(), "lock-server")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", binary, "fenceproof/system/cmd/lock-server").CombinedOutput(); err != nil {
		b.Fatalf("build lock-server: %v\n%s", err, out)
	}
	public, admin := freeAddress(b), freeAddress(b)
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), "LOCK_DATASOURCE_URL="+database, "LOCK_SERVER_LISTEN="+public, "LOCK_SERVER_ADMINLISTEN="+admin)
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

// onStore is the same on the store that lock-server uses, in this process.
func onStore(b *testing.B, database string) pairing {
	s, err := pgstore.Open(database, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	sessions := make([]string, pairClients)
	for i := range sessions {
		x, err := s.OpenSession(b.Context(), owner(i), pairTTL)
		if err != nil {
			b.Fatal(err)
		}
		sessions[i] = x.ID
	}
	return func(ctx context.Context, client int, key string) (bool, error) {
		a, err := s.TryAcquire(ctx, key, owner(client), sessions[client], pairTTL)
		var contended *lock.ContendedError
		if errors.As(err, &contended) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return true, s.Release(ctx, key, a.Grant.FencingToken)
	}
}

// withC1 is C1's acquire and release as they stand, through plain pgx.
func withC1(b *testing.B, database string, advisory bool) pairing {
	statement := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "pgstore", "sql", name+".sql"))
		if err != nil {
			b.Fatal(err)
		}
		return string(text)
	}
	lockKey, acquire, release := statement("lock_key"), statement("acquire"), statement("release")
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = pairClients
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	sessions := make([]string, pairClients)
	for i := range sessions {
		sessions[i] = fmt.Sprintf("00000000-0000-4000-8000-%07d%05d", databases.Add(1), i)
		if _, err := pool.Exec(b.Context(), statement("session_open"), sessions[i], owner(i), pairTTL.Seconds()); err != nil {
			b.Fatal(err)
		}
	}
	return func(ctx context.Context, client int, key string) (granted bool, err error) {
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
		if err := pool.SendBatch(ctx, batch).Close(); err != nil || !granted {
			return false, err
		}
		return true, pool.QueryRow(ctx, release, key, token).Scan(&token)
	}
}
