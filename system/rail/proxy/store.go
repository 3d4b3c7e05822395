package proxy

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"fenceproof/system/wire"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	//go:embed sql/raise_mark.sql
	raiseMark string
	//go:embed sql/set_mark.sql
	setMark string
	//go:embed sql/read_mark.sql
	readMark string
	//go:embed sql/insert_attempt.sql
	insertAttempt string
	//go:embed sql/insert_fenced.sql
	insertFenced string
	//go:embed sql/read_attempt.sql
	readAttempt string
	//go:embed sql/record_outcome.sql
	recordOutcome string
)

// errCommitUnknown says that a COMMIT was sent and got no answer: the transaction happened, or it did not.
var errCommitUnknown = errors.New("the commit got no answer")

// SQLSTATEs of a reference to a row that is not there.
const foreignKeyViolation = "23503"

// minConnections keeps the accounts that several executors work at once from queueing for a connection.
const minConnections = 16

// Store is rail-proxy's part of paydb: rail_submission and rail_high_water. Nobody else writes them.
type Store struct{ pool *pgxpool.Pool }

// OpenStore prepares connections to paydb at url; it opens none. patience bounds how long the server lets a
// transaction of a proxy that was stopped in the middle keep others waiting.
func OpenStore(ctx context.Context, url string, patience time.Duration) (*Store, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("read PAYMENTS_DATASOURCE_URL: it is no PostgreSQL URL") // the value may hold a password
	}
	c.MaxConns = max(c.MaxConns, minConnections)
	ms := strconv.FormatInt(max(1, patience.Milliseconds()), 10)
	c.ConnConfig.RuntimeParams["application_name"] = "rail-proxy"
	// An intent that a crash could take back would be forwarded twice; one that was judged by an old snapshot, wrongly.
	c.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "read committed"
	c.ConnConfig.RuntimeParams["lock_timeout"] = ms
	c.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = ms
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("prepare connections to paydb: %w", err)
	}
	return &Store{pool}, nil
}

// Ping asks whether paydb answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("ask paydb: %w", err)
	}
	return nil
}

// Close waits for the connections in use and closes all.
func (s *Store) Close() { s.pool.Close() }

// ruling is what the committed intent says about a submission.
type ruling int

const (
	forward   ruling = iota // the attempt is on record: forward it, once
	fenced                  // a token at or above this one was here before
	duplicate               // the payout has an attempt already
)

// intent is a committed ruling.
type intent struct {
	ruling  ruling
	id      string  // submission id of the row written; with fencing off, of the row that stands in its way
	own     bool    // the row of id is this request's
	highest int64   // fenced: the mark
	attempt attempt // duplicate: the attempt on record
}

// attempt is the record of a payout's one attempt, as DUPLICATE_SUBMISSION shows it.
type attempt struct {
	SubmissionID   string `json:"submissionId"`
	Outcome        string `json:"outcome,omitempty"` // ACKED, REJECTED, TIMEOUT, or "" while it is open
	RailReference  string `json:"railReference,omitempty"`
	PresentedToken int64  `json:"presentedToken"`
}

// intend commits, in one transaction, the mark (C1 1.6 d) and then the attempt. A returned intent is committed. The
// error is errCommitUnknown when nobody knows, and any other error means that nothing at all was recorded.
func (s *Store) intend(ctx context.Context, r request, fencing bool) (intent, error) {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return intent{}, fmt.Errorf("begin in paydb: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	in, err := rule(ctx, tx, r, fencing)
	if err != nil {
		return intent{}, unknownReference(err)
	}
	if err := ctx.Err(); err != nil {
		return intent{}, fmt.Errorf("no time is left to commit: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		if pgconn.SafeToRetry(err) {
			return intent{}, fmt.Errorf("send the commit: %w", err)
		}
		return in, fmt.Errorf("%w: %w", errCommitUnknown, err)
	}
	return in, nil
}

// rule raises the mark and inserts the attempt.
func rule(ctx context.Context, tx pgx.Tx, r request, fencing bool) (intent, error) {
	in := intent{id: uuid.NewString(), own: true}
	mark := raiseMark
	if !fencing {
		mark = setMark
	}
	var highest int64
	switch err := tx.QueryRow(ctx, mark, r.AccountID, r.token).Scan(&highest); {
	case errors.Is(err, pgx.ErrNoRows):
		return fence(ctx, tx, r, in)
	case err != nil:
		return intent{}, fmt.Errorf("raise the mark: %w", err)
	}
	var inserted string
	err := tx.QueryRow(ctx, insertAttempt, in.id, r.PayoutID, r.idempotency, r.token).Scan(&inserted)
	if err == nil {
		return in, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return intent{}, fmt.Errorf("record the attempt: %w", err)
	}
	a := &in.attempt
	if err := tx.QueryRow(ctx, readAttempt, r.PayoutID).Scan(&a.SubmissionID, &a.Outcome, &a.RailReference, &a.PresentedToken); err != nil {
		return intent{}, fmt.Errorf("read the attempt on record: %w", err)
	}
	in.id, in.own = a.SubmissionID, false
	if fencing {
		in.ruling = duplicate
	}
	return in, nil
}

// fence records that the mark refused the token.
func fence(ctx context.Context, tx pgx.Tx, r request, in intent) (intent, error) {
	in.ruling = fenced
	if err := tx.QueryRow(ctx, readMark, r.AccountID).Scan(&in.highest); err != nil {
		return intent{}, fmt.Errorf("read the mark: %w", err)
	}
	if _, err := tx.Exec(ctx, insertFenced, in.id, r.PayoutID, r.idempotency, r.token); err != nil {
		return intent{}, fmt.Errorf("record the fenced attempt: %w", err)
	}
	return in, nil
}

// unknownReference turns a foreign key violation into NOT_FOUND: paydb does not know the account or the payout.
func unknownReference(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != foreignKeyViolation {
		return err
	}
	if pg.TableName == "rail_high_water" {
		return wire.NewError(wire.NotFound, `field "accountId": there is no such account`)
	}
	return wire.NewError(wire.NotFound, `field "payoutId": there is no such payout`)
}

// Pauses between the tries to record an outcome.
const (
	firstPause = 20 * time.Millisecond
	maxTries   = 50
)

// record commits what became of the attempt id; reference is "" unless it was acknowledged. It tries again until ctx
// ends: the money has moved or not, and saying so twice changes nothing. An error means that the record may still be
// open.
func (s *Store) record(ctx context.Context, id string, outcome outcome, reference string) error {
	tried := false
	ref := &reference
	if reference == "" {
		ref = nil
	}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		tag, err := s.pool.Exec(ctx, recordOutcome, id, string(outcome), ref)
		if err == nil && tag.RowsAffected() == 0 && !tried {
			err = backoff.Permanent(fmt.Errorf("submission %s is not open", id))
		}
		// No row on a later try: only this request writes the row, so the try before was committed after all.
		tried = true
		return struct{}{}, err
	}, backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: firstPause, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: time.Second}),
		backoff.WithMaxTries(maxTries))
	if err != nil {
		return fmt.Errorf("record outcome %s of submission %s: %w", outcome, id, err)
	}
	return nil
}
