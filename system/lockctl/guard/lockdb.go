package guard

import (
	"context"
	_ "embed" // the statements
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	//go:embed sql/lock_tables.sql
	lockTablesSQL string
	//go:embed sql/issued_tokens.sql
	issuedTokensSQL string
	//go:embed sql/move_sequence.sql
	moveSequenceSQL string
	//go:embed sql/end_sessions.sql
	endSessionsSQL string
	//go:embed sql/write_restore.sql
	writeRestoreSQL string
)

// Issued is what a lockdb has handed out.
type Issued struct {
	Sequence int64 // the last token of fencing_token_seq; 0 for none
	Rows     int64 // the highest token in lockdb's own rows
	Sessions int64 // dead ones that nobody has reaped yet included
}

// Move is what was done to a lockdb.
type Move struct {
	From, To      int64 // the last token handed out, before and after: the next one is To + 1
	EndedSessions int64 // each with all its grants
}

// LockDB is the guard of the pg backend, on the lockdb at URL.
type LockDB struct {
	URL              string
	StatementTimeout time.Duration // the wait for whoever is at work there included
}

// Read tells what the database has handed out.
func (l LockDB) Read(ctx context.Context) (Issued, error) {
	ctx, cancel := context.WithTimeout(ctx, limit(l.StatementTimeout))
	defer cancel()
	c, err := connect(ctx, l.URL, l.StatementTimeout, "on")
	if err != nil {
		return Issued{}, fmt.Errorf("read the tokens of lockdb: %w", err)
	}
	defer hangUp(c)
	i, err := issued(ctx, c)
	return i, explain("read the tokens of lockdb", tooLong(err, l.StatementTimeout))
}

// Plan is where o moves a lockdb that stands at i: to o's floor, or the margin past the highest token that is known of. Where
// the restored lockdb stands counts among those: it went on from there after the backup, and what was granted then and
// never used is in no other store. So a guard that is repeated moves on by another margin. Nothing is moved down.
func (i Issued) Plan(o Order) (to int64, err error) {
	if i.Rows > o.Seen.Token {
		o.Seen = Seen{i.Rows, "lockdb's own rows"}
	}
	if o.Floor == 0 && i.Sequence > o.Seen.Token {
		o.Seen = Seen{i.Sequence, "fencing_token_seq"}
	}
	if to, err = o.target(Margin); err != nil {
		return 0, err
	}
	if to < i.Sequence {
		return 0, fmt.Errorf("a floor of %d is below token %d, which lockdb has handed out already: nothing is moved down", to, i.Sequence)
	}
	return to, nil
}

// Apply moves the sequence and ends all sessions in one transaction, and writes down who asked. Grants and revokes wait
// until it is over. The sequence itself knows no transactions: should the commit fail, it stands higher than before, which
// harms nobody.
func (l LockDB) Apply(ctx context.Context, o Order) (m Move, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit(l.StatementTimeout))
	defer cancel()
	c, err := connect(ctx, l.URL, l.StatementTimeout, "off")
	if err != nil {
		return m, fmt.Errorf("guard lockdb: %w", err)
	}
	defer hangUp(c)
	tx, err := c.Begin(ctx)
	if err != nil {
		return m, fmt.Errorf("guard lockdb: %w", err)
	}
	if m, err = move(ctx, tx, o); err != nil {
		_ = tx.Rollback(ctx) // the connection's end rolls back as well
		return m, explain("guard lockdb", tooLong(err, l.StatementTimeout))
	}
	if err := tx.Commit(ctx); err != nil {
		return m, uncommitted(err)
	}
	return m, nil
}

// move does the transaction's work. lock_session is locked first, as whoever ends a session takes them. A grant takes
// lock_entry first, but then only holds on to its session's row, which the guard's mode lets it: it is waited for, and waits
// for nobody. No token is drawn meanwhile: whoever draws one has locked lock_entry first.
func move(ctx context.Context, tx pgx.Tx, o Order) (m Move, err error) {
	if _, err := tx.Exec(ctx, lockTablesSQL); err != nil {
		return m, err
	}
	before, err := issued(ctx, tx)
	if err != nil {
		return m, err
	}
	to, err := before.Plan(o)
	if err != nil {
		return m, err
	}
	ended, err := tx.Exec(ctx, endSessionsSQL)
	if err != nil {
		return m, err
	}
	m = Move{From: before.Sequence, To: to, EndedSessions: ended.RowsAffected()}
	if _, err := tx.Exec(ctx, writeRestoreSQL, m.From, m.To, o.Seen.Token, m.EndedSessions, o.Operator, o.Reason); err != nil {
		return m, err
	}
	if m.To == m.From {
		return m, nil
	}
	return m, tx.QueryRow(ctx, moveSequenceSQL, m.To).Scan(&m.To) // last, because it is not rolled back
}

func issued(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (i Issued, err error) {
	err = q.QueryRow(ctx, issuedTokensSQL).Scan(&i.Sequence, &i.Rows, &i.Sessions)
	return i, err
}

// explain says what was being done, and what to do where the schema is too old.
func explain(doing string, err error) error {
	var refusal *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal) && (refusal.Code == "42P01" || refusal.Code == "42703"):
		return fmt.Errorf("%s: its schema is older than this program, run lock-server migrate: %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// uncommitted tells a COMMIT that the database refused from one that it did not answer.
func uncommitted(err error) error {
	var refusal *pgconn.PgError
	err = fmt.Errorf("guard lockdb: commit: %w", err)
	if errors.As(err, &refusal) || errors.Is(err, pgx.ErrTxCommitRollback) {
		return err
	}
	return &UnknownError{err}
}
