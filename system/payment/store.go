package payment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fenceproof/system/payment/machine"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Store is paydb as payment-resource uses it.
type Store struct{ pool *pgxpool.Pool }

// minConnections is how many connections the pool may open at least, whatever the URL says.
const minConnections = 16

// OpenStore prepares a pool for the database at url, as user payapp. It opens no connection: a process starts while its
// database is down, and says so on /readyz.
func OpenStore(ctx context.Context, url string) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("read the address of paydb: it is no PostgreSQL URL; give postgres://user@host:port/database")
	}
	cfg.MaxConns = max(cfg.MaxConns, minConnections)
	cfg.ConnConfig.ConnectTimeout = 2 * time.Second
	// What is answered is durable, whatever the server's default is.
	cfg.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	cfg.ConnConfig.RuntimeParams["application_name"] = "payment-resource"
	// A lock is not waited for longer than the request lives, and a transaction whose process was stopped or cut off
	// does not keep the account's row for ever. Settings in the URL win.
	for name, v := range map[string]string{"lock_timeout": "4s", "idle_in_transaction_session_timeout": "10s"} {
		if cfg.ConnConfig.RuntimeParams[name] == "" {
			cfg.ConnConfig.RuntimeParams[name] = v
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("prepare the connections to paydb: %w", err)
	}
	return &Store{pool}, nil
}

// Ping asks whether paydb answers.
func (s *Store) Ping(ctx context.Context) error { return s.pool.Ping(ctx) }

// Close gives the connections back; it waits for those in use.
func (s *Store) Close() { s.pool.Close() }

// What the store answers besides an effect and a *refusal.
var (
	errNotFound     = errors.New("there is no such row")
	errOtherKey     = errors.New("the idempotency key is not this payout's")
	errOtherRequest = errors.New("another request was carried out under this token")
	// errUnavailable: paydb did not answer. When COMMIT got no answer the effect is unknown; the same request may be
	// sent again either way, because its replay finds the stored answer.
	errUnavailable = errors.New("paydb did not answer")
)

// transient lists the SQLSTATEs, or classes of them, that say nothing about the request: connections, resources, an
// operator's stop, a deadlock's victim, a lock or an idle transaction given up, a database that only reads.
var transient = []string{"08", "53", "57", "58", "40", "55P03", "25P03", "25006"}

// failed says what was being done when err came, and tells an outage from a mistake of ours.
func failed(doing string, err error) error {
	var pe *pgconn.PgError
	var scan pgx.ScanArgError
	var noConnection *pgconn.ConnectError
	outage := !errors.As(err, &scan)
	// A database that takes no connections has refused no statement, whatever its reason: one whose disk is full says XX000.
	if !errors.As(err, &noConnection) && errors.As(err, &pe) {
		outage = slices.ContainsFunc(transient, func(c string) bool { return strings.HasPrefix(pe.Code, c) })
	}
	if outage {
		return fmt.Errorf("%s: %w: %w", doing, errUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// response is the stored answer to a request that took effect.
type response struct {
	request string
	status  int
	body    string
}

// sight is what a command finds while it holds the account's row.
type sight struct {
	machine.Facts
	accountID string
	key       string
	stored    *response
}

// apply carries c out in one transaction, or answers its stored response, or returns a *refusal and has written nothing.
func (s *Store) apply(ctx context.Context, c command, fencing bool) (effect, error) {
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return effect{}, failed("begin a transaction", err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing; a broken connection rolls back by itself
	seen, err := look(ctx, tx, c)
	if err != nil {
		return effect{}, err
	}
	if seen.key != c.key {
		return effect{}, errOtherKey
	}
	if r := seen.stored; r != nil {
		if r.request != c.request {
			return effect{}, errOtherRequest
		}
		return effect{replay: true, accountID: seen.accountID, to: seen.State, status: r.status, body: r.body}, nil
	}
	e, err := carryOut(ctx, tx, c, seen, fencing)
	if err != nil {
		return effect{}, err
	}
	if e.status, e.body, err = answer(c, e); err != nil || e.replay {
		return e, err
	}
	if _, err := tx.Exec(ctx, sqlStoreResponse, c.payoutID, c.Operation, c.Token, c.request, e.status, e.body); err != nil {
		return effect{}, failed("store the response", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return effect{}, failed("commit the "+string(c.Operation), err)
	}
	return e, nil
}

// look locks the account's row and then reads, each in a statement of its own, so that what is read is what the last
// holder of the row has left.
func look(ctx context.Context, tx pgx.Tx, c command) (sight, error) {
	var s sight
	found := false
	b := &pgx.Batch{}
	b.Queue(sqlLockAccount, c.payoutID).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&s.accountID, &s.AccountCurrency, &s.Balance, &s.Fence)
		found = err == nil
		return unlessNone(err)
	})
	b.Queue(sqlReadPayout, c.payoutID).QueryRow(func(row pgx.Row) error {
		var token *int64
		err := row.Scan(&s.State, &token, &s.Amount, &s.Currency, &s.key)
		if token != nil {
			s.ClaimToken = *token
		}
		return unlessNone(err)
	})
	b.Queue(sqlReadResponse, c.payoutID, c.Operation, c.Token).QueryRow(func(row pgx.Row) error {
		var r response
		err := row.Scan(&r.request, &r.status, &r.body)
		if err == nil {
			s.stored = &r
		}
		return unlessNone(err)
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return s, failed("lock and read the payout's account", err)
	}
	if !found {
		return s, errNotFound
	}
	return s, nil
}

func unlessNone(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}
