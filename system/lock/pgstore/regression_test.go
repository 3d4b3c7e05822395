package pgstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/deploy/postgres"

	"github.com/jackc/pgx/v5"
)

// clients is how many want the same key at once.
const clients = 16

// contender acquires the hot key once, or not, and releases it when it was granted.
type contender func(ctx context.Context) (granted bool, err error)

const hotKey = "payout:hot"

// c1Alone is C1's acquire and release as they stand, on a connection of its own, without the advisory lock.
func c1Alone(t testing.TB, database string) contender {
	c := connect(t, server.URL("lockapp", database))
	acquire, release := statement(t, "acquire"), statement(t, "release")
	x := session(t, open(t, server.URL("lockapp", database)), "contender")
	return func(ctx context.Context) (bool, error) {
		var token int64
		err := c.QueryRow(ctx, acquire, hotKey, x.OwnerID, x.ID, 60.0).Scan(&token, nil, nil, nil, nil)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		if err == nil {
			_, err = c.Exec(ctx, release, hotKey, token)
		}
		return err == nil, err
	}
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

// contend lets all contenders at the key until it was granted and released so many times.
func contend(t testing.TB, all []contender, pairs int64) {
	t.Helper()
	var done atomic.Int64
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
					time.Sleep(rand.N(longestPause))
				}
			}
		})
	}
	wg.Wait()
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
	var all []contender
	for range clients {
		all = append(all, c1Alone(t, database))
	}
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
