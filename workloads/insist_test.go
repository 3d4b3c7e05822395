package workloads

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// full is a paydb whose disk is full at every third question.
type full struct {
	*pgxpool.Pool
	asked int
}

func (f *full) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if f.asked++; f.asked%3 == 0 {
		return pgconn.CommandTag{}, &pgconn.PgError{Code: "53100", Message: "could not extend file: No space left on device"}
	}
	return f.Pool.Exec(ctx, sql, args...)
}

func TestADatabaseThatHasNoRoomForAWhileIsOfferedEveryPayoutOnce(t *testing.T) {
	db := paydb(t)
	p := &Payout{Seed: 3, Accounts: 2, Rate: 100, Drive: time.Second, Limit: 10, Executors: 1}
	if err := p.Open(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	f := &full{Pool: db}
	if n, err := p.Run(t.Context(), f); err != nil || n != 10 || len(all(t, db)) != 10 || f.asked <= 10 {
		t.Errorf("%d offered, %v; %d are there after %d questions", n, err, len(all(t, db)), f.asked)
	}
}

// crashing is a paydb that is killed at every third insertion: after it was committed, and before the answer. It takes
// nothing for the next two questions.
type crashing struct {
	*pgxpool.Pool
	asked int
}

func (c *crashing) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	switch c.asked++; c.asked % 5 {
	case 3:
		if _, err := c.Pool.Exec(ctx, sql, args...); err != nil {
			return pgconn.CommandTag{}, err
		}
		return pgconn.CommandTag{}, io.ErrUnexpectedEOF
	case 4:
		return pgconn.CommandTag{}, &pgconn.PgError{Code: "57P03", Message: "the database system is starting up"}
	default:
		return c.Pool.Exec(ctx, sql, args...)
	}
}

func TestADatabaseThatIsKilledAndComesBackIsOfferedEveryPayoutOnce(t *testing.T) {
	db := paydb(t)
	p := &Payout{Seed: 3, Accounts: 2, Rate: 100, Drive: time.Second, Limit: 10, Executors: 1}
	if err := p.Open(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	c := &crashing{Pool: db}
	if n, err := p.Run(t.Context(), c); err != nil || n != 10 || len(all(t, db)) != 10 || c.asked <= 10 {
		t.Errorf("%d offered, %v; %d are there after %d questions", n, err, len(all(t, db)), c.asked)
	}
}

func TestADatabaseThatIsAwayAtTheEndOfTheDriveIsNoError(t *testing.T) {
	db := paydb(t)
	p := &Payout{Seed: 3, Accounts: 2, Rate: 100, Drive: time.Minute, Executors: 1}
	if err := p.Open(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if n, err := p.Run(ctx, db); err != nil || n != 0 {
		t.Errorf("%d offered, %v", n, err)
	}
}
