package witness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// randomTables are what the random writers write to: narrow rows, rows with large and absent values, and a counter that
// serialises whoever takes a number.
const randomTables = `
CREATE TABLE narrow (id bigint PRIMARY KEY, v bigint NOT NULL, token bigint);
CREATE TABLE wide (id bigint PRIMARY KEY, v bigint NOT NULL, big text, raw bytea, price numeric, at timestamptz);
CREATE TABLE counter (id int PRIMARY KEY, n bigint NOT NULL);
CREATE TABLE numbered (id bigint PRIMARY KEY);
CREATE TABLE undone (id bigint PRIMARY KEY);
INSERT INTO counter VALUES (1, 0)`

// writer makes random transactions, the same ones for the same seed.
type writer struct {
	w         *watched
	rng       *rand.Rand
	committed *atomic.Int64
}

// write runs n writers at once, each with transactions of its own, until stop is closed or each has done limit. It
// returns how many committed for certain. Errors end a transaction, never a writer: the database may be down.
func (w *watched) write(seed uint64, n, limit int, stop <-chan struct{}, committed *atomic.Int64) *sync.WaitGroup {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			r := &writer{w: w, rng: rand.New(rand.NewPCG(seed, uint64(i))), committed: committed}
			for range limit {
				select {
				case <-stop:
					return
				default:
				}
				if r.transaction() == nil {
					committed.Add(1)
				}
			}
		})
	}
	return &group
}

var errOnPurpose = errors.New("rolled back on purpose")

func (r *writer) transaction() error {
	ctx := context.Background()
	err := pgx.BeginFunc(ctx, r.w.pool, func(tx pgx.Tx) error {
		for range 1 + r.rng.IntN(4) {
			if err := r.statement(ctx, tx); err != nil {
				return err
			}
		}
		if r.rng.IntN(5) == 0 { // a savepoint that is undone, within a transaction that is not
			err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO undone VALUES ($1)", r.rng.Int64())
				return errors.Join(err, errOnPurpose)
			})
			if !errors.Is(err, errOnPurpose) {
				return err
			}
		}
		switch r.rng.IntN(4) {
		case 0:
			if _, err := tx.Exec(ctx, "INSERT INTO undone VALUES ($1)", r.rng.Int64()); err != nil {
				return err
			}
			return errOnPurpose
		case 1:
			_, err := tx.Exec(ctx, `WITH taken AS (UPDATE counter SET n = n + 1 WHERE id = 1 RETURNING n)
				INSERT INTO numbered SELECT n FROM taken`)
			return err
		}
		return nil
	})
	return err
}

func (r *writer) statement(ctx context.Context, tx pgx.Tx) error {
	id := r.rng.IntN(40)
	var err error
	switch r.rng.IntN(6) {
	case 0, 1:
		_, err = tx.Exec(ctx, `INSERT INTO narrow VALUES ($1, 1, $2) ON CONFLICT (id) DO UPDATE SET v = narrow.v + 1, token = $2`,
			id, r.token())
	case 2:
		_, err = tx.Exec(ctx, `INSERT INTO wide VALUES ($1, 1, $2, $3, $4::text::numeric, clock_timestamp())
			ON CONFLICT (id) DO UPDATE SET v = wide.v + 1, at = clock_timestamp()`, id, r.big(), []byte(r.big()), fmt.Sprintf("%d.%06d", id, r.rng.IntN(1e6)))
	case 3:
		_, err = tx.Exec(ctx, "UPDATE wide SET v = v + 1, raw = NULL WHERE id = $1", id)
	case 4:
		_, err = tx.Exec(ctx, "DELETE FROM narrow WHERE id = $1", id)
	case 5:
		_, err = tx.Exec(ctx, "UPDATE wide SET id = id + 40, v = v + 1 WHERE id = $1 AND NOT EXISTS (SELECT FROM wide WHERE id = $1 + 40)", id)
	}
	return err
}

// token is NULL, or any token, often close to the largest.
func (r *writer) token() *int64 {
	n := int64(1)<<62 + r.rng.Int64N(1<<62)
	if r.rng.IntN(3) == 0 {
		return nil
	}
	return &n
}

// big is a text that PostgreSQL often stores outside the row.
func (r *writer) big() string {
	var b strings.Builder
	for range r.rng.IntN(400) {
		fmt.Fprintf(&b, "%x ä€\n", r.rng.Uint64())
	}
	return b.String()
}
