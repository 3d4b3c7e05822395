package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/deploy/postgres"
	"fenceproof/deploy/postgres/postgrestest"
	"fenceproof/system/lock"

	"github.com/jackc/pgx/v5"
)

// clients is how many want the same key at once.
const clients = 16

// contender acquires the hot key once, or not, and releases it when it was granted.
type contender func(ctx context.Context) (granted bool, err error)

const hotKey = "payout:hot"

// c1Alone is C1's acquire and release as they stand, on a connection of its own, without the advisory lock.
func c1Alone(t testing.TB, database string) contender { return c1(t, database) }

// c1Locked is the same behind the advisory lock, in the same round trip.
func c1Locked(t testing.TB, database string) contender {
	return c1(t, database, statement(t, "lock_key"))
}

func c1(t testing.TB, database string, before ...string) contender {
	c := connect(t, server.URL("lockapp", database))
	acquire, release := statement(t, "acquire"), statement(t, "release")
	x := session(t, open(t, server.URL("lockapp", database)), "contender")
	return func(ctx context.Context) (bool, error) {
		var token int64
		var owner, id string
		var from, to time.Time
		b := &pgx.Batch{}
		for _, sql := range before {
			b.Queue(sql, hotKey)
		}
		b.Queue(acquire, hotKey, x.OwnerID, x.ID, 60.0).QueryRow(func(row pgx.Row) error {
			return row.Scan(&token, &owner, &id, &from, &to)
		})
		err := c.SendBatch(ctx, b).Close()
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		if err == nil {
			_, err = c.Exec(ctx, release, hotKey, token)
		}
		return err == nil, err
	}
}

// pair acquires the key and releases it when it was granted.
func pair(ctx context.Context, s lock.Store, key string, x lock.Session) (bool, error) {
	a, err := s.TryAcquire(ctx, key, x.OwnerID, x.ID, time.Minute)
	var contended *lock.ContendedError
	if errors.As(err, &contended) {
		return false, nil
	}
	if err == nil {
		err = s.Release(ctx, key, a.FencingToken)
	}
	return err == nil, err
}

func statement(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("sql/" + name + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// longestPause of a contender that was refused, before its next try.
const longestPause = 4 * time.Millisecond

// contend lets all contenders at the key until it was granted and released so many times. It counts the refusals.
func contend(t testing.TB, all []contender, pairs int64) int64 {
	t.Helper()
	var done, refused atomic.Int64
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() {
			for done.Load() < pairs {
				granted, err := c(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if granted {
					done.Add(1)
				} else {
					refused.Add(1)
					time.Sleep(rand.N(longestPause))
				}
			}
		})
	}
	wg.Wait()
	return refused.Load()
}

// commitLog reads from the server's write-ahead log, through logical decoding, which is in the order of the commits.
type commitLog struct {
	super *pgx.Conn
	slot  string
	all   []granted // read so far
}

func watchCommits(t testing.TB, on *postgres.Instance, database string) *commitLog {
	t.Helper()
	l := &commitLog{super: connect(t, on.SuperURL(database)), slot: "watch_" + database}
	exec(t, l.super, "SELECT pg_create_logical_replication_slot($1, 'test_decoding')", l.slot)
	t.Cleanup(func() {
		if _, err := l.super.Exec(context.Background(), "SELECT pg_drop_replication_slot($1)", l.slot); err != nil && !l.super.IsClosed() {
			t.Error(err)
		}
	})
	return l
}

// read lists all grants and renewals since the log was opened, in commit order.
func (l *commitLog) read(t testing.TB) []granted {
	t.Helper()
	rows, err := l.super.Query(t.Context(), "SELECT data FROM pg_logical_slot_get_changes($1, NULL, NULL)", l.slot)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if g, ok := parseGrant(t, line); ok {
			l.all = append(l.all, g)
		}
	}
	return l.all
}

// grants lists the tokens granted since the last call, in commit order.
func (l *commitLog) grants(t testing.TB) (tokens []int64) {
	t.Helper()
	for _, g := range l.read(t) {
		tokens = append(tokens, g.token)
	}
	l.all = nil
	return tokens
}

// backwards counts the tokens that are below one granted before them.
func backwards(tokens []int64) (n int) {
	highest := int64(0)
	for _, token := range tokens {
		if token < highest {
			n++
		}
		highest = max(highest, token)
	}
	return n
}

const (
	pairsPerRound = 200
	maxRounds     = 20
)

// INV-04 falls with C1's acquire as it stands: its VALUES draw a token before the statement waits for a concurrent
// release of the row, and insert it after others were granted newer ones.
func TestC1sAcquireAloneLetsTokensGoBackwards(t *testing.T) {
	database := lockdb(t, server)
	commits := watchCommits(t, server, database)
	all := contenders(t, database, c1Alone)
	for round := range maxRounds {
		contend(t, all, pairsPerRound)
		tokens := commits.grants(t)
		if len(tokens) < pairsPerRound {
			t.Fatalf("the commit log has %d grants, and %d were made", len(tokens), pairsPerRound)
		}
		if n := backwards(tokens); n > 0 {
			t.Logf("%d of %d tokens went backwards, in round %d", n, len(tokens), round+1)
			return
		}
	}
	t.Fatalf("no token went backwards in %d rounds: is the advisory lock needed still?", maxRounds)
}

func contenders(t testing.TB, database string, of func(testing.TB, string) contender) (all []contender) {
	for range clients {
		all = append(all, of(t, database))
	}
	return all
}

// durable puts the benchmark on a server of its own that waits for the disk, as one in production does: the lock decides
// how many commits a grant waits for, and without fsync a commit costs nothing.
func durable(b *testing.B) {
	b.Helper()
	quick := server
	server = postgrestest.StartDurable(b)
	b.Cleanup(func() { server = quick })
}

// BenchmarkHotKey is acquire and release, in pairs, of one key that 16 clients want: C1's statements alone, behind the
// advisory lock, and as they are shipped, through the Store of one lock-server.
func BenchmarkHotKey(b *testing.B) {
	durable(b)
	hotKeyOf(b, "c1-alone", c1Alone)
	hotKeyOf(b, "c1-behind-the-lock", c1Locked)
	var one lock.Store
	hotKeyOf(b, "store", func(t testing.TB, database string) contender {
		if one == nil {
			one = open(t, server.URL("lockapp", database))
		}
		x := session(t, one, "contender")
		return func(ctx context.Context) (bool, error) { return pair(ctx, one, hotKey, x) }
	})
}

func hotKeyOf(b *testing.B, name string, of func(testing.TB, string) contender) {
	database := lockdb(b, server)
	all := contenders(b, database, of)
	b.Run(name, func(b *testing.B) {
		contend(b, all, clients) // statements are prepared
		b.ResetTimer()
		refused := contend(b, all, int64(b.N))
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
		b.ReportMetric(float64(refused)/float64(b.N), "refusals/pair")
	})
}

// BenchmarkOwnKeys is acquire and release by 16 clients that do not get into each other's way, through one Store.
func BenchmarkOwnKeys(b *testing.B) {
	durable(b)
	s := open(b, server.URL("lockapp", lockdb(b, server)))
	x := session(b, s, "a")
	var all []contender
	for i := range clients {
		key := fmt.Sprint("k", i)
		all = append(all, func(ctx context.Context) (bool, error) { return pair(ctx, s, key, x) })
	}
	contend(b, all, 2*clients)
	b.ResetTimer()
	contend(b, all, int64(b.N))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}
