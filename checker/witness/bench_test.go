package witness

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// payoutTables are rows about as large as those of a payout system.
const payoutTables = `
CREATE TABLE account (id int PRIMARY KEY, currency char(3) NOT NULL DEFAULT 'EUR', balance_minor bigint NOT NULL, fence bigint NOT NULL, updated_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE payout (payout_id uuid PRIMARY KEY DEFAULT gen_random_uuid(), account_id int NOT NULL, amount_minor bigint NOT NULL, currency text NOT NULL DEFAULT 'EUR',
	state text NOT NULL DEFAULT 'PENDING', claimed_by text, claim_token bigint, idempotency_key uuid NOT NULL DEFAULT gen_random_uuid(), created_at timestamptz NOT NULL DEFAULT now());
INSERT INTO account SELECT n, 'EUR', 1000000000, 0 FROM generate_series(1, 16) n`

// BenchmarkCommits measures commits per second of 16 clients, each commit an update and an insert, with nobody watching
// and with a witness that writes a real history. behind-ms is how long after the last commit the last one was recorded:
// a witness that keeps up is not behind.
func BenchmarkCommits(b *testing.B) {
	for _, watch := range []bool{false, true} {
		name := "alone"
		if watch {
			name = "watched"
		}
		b.Run(name, func(b *testing.B) { benchmarkCommits(b, watch) })
	}
}

func benchmarkCommits(b *testing.B, watch bool) {
	ctx := b.Context()
	name := fmt.Sprintf("bench_%d", databases.Add(1))
	if err := shared.CreateDatabase(ctx, name, "app"); err != nil {
		b.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, shared.URL("app", name)+"&pool_max_conns=16")
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, payoutTables, pgx.QueryExecModeSimpleProtocol); err != nil {
		b.Fatal(err)
	}
	var d *Database
	if watch {
		rec, err := history.Create(b.TempDir(), history.Header{RunID: "bench", Witnesses: []history.Witness{history.PayDB}})
		if err != nil {
			b.Fatal(err)
		}
		defer rec.Close()
		cfg := DatabaseConfig{URL: shared.SuperURL(name), Witness: history.PayDB, Proc: contract.PayDB}
		if d, err = Attach(ctx, cfg, rec); err != nil {
			b.Fatal(err)
		}
		defer d.Close(context.Background())
	}
	b.ResetTimer()
	start := time.Now()
	var next atomic.Int64
	var writers sync.WaitGroup
	for client := range 16 {
		writers.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				if _, err := pool.Exec(ctx, `WITH a AS (UPDATE account SET balance_minor = balance_minor - 1, fence = $2 WHERE id = $1)
					INSERT INTO payout (account_id, amount_minor) VALUES ($1, $2)`, client+1, n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "commits/s")
	if d != nil {
		end := time.Now()
		if err := d.Drain(ctx); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(end).Milliseconds()), "behind-ms")
	}
}
