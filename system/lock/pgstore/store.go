// Package pgstore is the lock backend on PostgreSQL: the statements of C1 1.3 and 1.4 as they stand, behind one
// advisory lock per key. All times and all expiry are by the database's clock.
package pgstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/lock/turns"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Limits of one operation. A statement that waits longer is ended by the database; a database that does not even say
// that is given up by the client. Both are ErrUnavailable.
const (
	connectTimeout   = 2 * time.Second
	statementTimeout = 2 * time.Second
	operationTimeout = 3 * time.Second
)

// poolSize bounds the connections of one process, the listening one aside. An acquire takes at most one per key (see
// turns), so a hot key cannot keep the renewals of others waiting.
const poolSize = 16

// Store is a lock.Store on one PostgreSQL database whose schema is migrations/lockdb.
type Store struct {
	pool  *pgxpool.Pool
	turns *turns.Turns // one acquire per key at a time: those of one key wait for one another in the database anyhow
	watch *watch
	stop  context.CancelFunc
	done  sync.WaitGroup
}

var _ lock.Store = (*Store)(nil)

// Open makes a Store on the database at url. It does not wait for the database: until that answers, every operation is
// ErrUnavailable. Close ends it.
func Open(url string, log *slog.Logger) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open the lock store: %w", err)
	}
	config.MaxConns = poolSize
	settings(config.ConnConfig)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("open the lock store: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{pool: pool, turns: turns.New(), watch: newWatch(pool, config.ConnConfig.Copy(), log), stop: stop}
	s.done.Go(func() { s.watch.listen(ctx) })
	s.done.Go(func() { s.watch.announce(ctx) })
	return s, nil
}

// settings are those that correctness or an answer in time rests on, whatever the server's defaults are. With
// synchronous_commit off a crash repeats tokens that clients already hold.
func settings(c *pgx.ConnConfig) {
	c.ConnectTimeout = connectTimeout
	c.RuntimeParams["application_name"] = "lock-server"
	c.RuntimeParams["synchronous_commit"] = "on"
	c.RuntimeParams["default_transaction_isolation"] = "read committed"
	c.RuntimeParams["statement_timeout"] = millis(statementTimeout)
	c.RuntimeParams["idle_in_transaction_session_timeout"] = millis(operationTimeout)
}

func millis(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// Ping asks the database for something that only a migrated lockdb has.
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.Held(ctx); err != nil {
		return fmt.Errorf("ping the lock store: %w", err)
	}
	return nil
}

// Close ends the store's goroutines and connections.
func (s *Store) Close() {
	s.stop()
	s.done.Wait()
	s.pool.Close()
}

// batch runs what b holds in one transaction and one round trip. Its effects are committed when it returns nil; with
// any other error than a refusal by the database nobody knows.
func (s *Store) batch(ctx context.Context, b *pgx.Batch) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	return outcome(s.pool.SendBatch(ctx, b).Close())
}

// row runs one statement that yields at most one row. lock errors come back as they are; pgx.ErrNoRows says that there
// was no row.
func (s *Store) row(ctx context.Context, statement string, args []any, into ...any) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	return outcome(s.pool.QueryRow(ctx, statement, args...).Scan(into...))
}
