package guard

import (
	"context"
	_ "embed" // the statement
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed sql/highest_tokens.sql
var highestTokensSQL string

// connectTimeout bounds the opening of a connection.
const connectTimeout = 5 * time.Second

// limit bounds all that is done on a connection, for a database that does not even say that a statement took too long.
func limit(statement time.Duration) time.Duration { return 2*statement + 2*connectTimeout }

// PayDB is the paydb at URL.
type PayDB struct {
	URL              string
	StatementTimeout time.Duration // reading every token reads whole tables
}

// Read tells the highest token of any kind. It cannot write.
func (p PayDB) Read(ctx context.Context) (s Seen, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit(p.StatementTimeout))
	defer cancel()
	c, err := connect(ctx, p.URL, p.StatementTimeout, "on")
	if err != nil {
		return s, fmt.Errorf("read the tokens of paydb: %w", err)
	}
	defer hangUp(c)
	err = c.QueryRow(ctx, highestTokensSQL).Scan(&s.Place, &s.Token)
	if errors.Is(err, pgx.ErrNoRows) {
		return Seen{}, nil
	}
	if err != nil {
		return Seen{}, fmt.Errorf("read the tokens of paydb: %w", tooLong(err, p.StatementTimeout))
	}
	return s, nil
}

// connect opens a connection on which whatever is answered as committed is on the disk.
func connect(ctx context.Context, url string, statement time.Duration, readOnly string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnectTimeout = connectTimeout
	config.RuntimeParams["application_name"] = "lockctl"
	config.RuntimeParams["synchronous_commit"] = "on"
	config.RuntimeParams["default_transaction_isolation"] = "read committed"
	config.RuntimeParams["default_transaction_read_only"] = readOnly
	config.RuntimeParams["statement_timeout"] = fmt.Sprint(statement.Milliseconds())
	return pgx.ConnectConfig(ctx, config)
}

// tooLong says what to do where a statement took longer than it may.
func tooLong(err error, statement time.Duration) error {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == "57014" {
		return fmt.Errorf("a statement took longer than %s, give it more by --statement-timeout: %w", statement, err)
	}
	return err
}

func hangUp(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // we are done with it
}
