package guard

import (
	"context"
	_ "embed" // the statement
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/highest_tokens.sql
var highestTokensSQL string

// Limits of talking to a database. Reading every token of paydb reads whole tables.
const (
	connectTimeout   = 5 * time.Second
	statementTimeout = time.Minute
	totalTimeout     = 2 * time.Minute // of a database that does not even say that a statement took too long
)

// ReadPayDB tells the highest token of any kind in the paydb at url. It cannot write there.
func ReadPayDB(ctx context.Context, url string) (s Seen, err error) {
	ctx, cancel := context.WithTimeout(ctx, totalTimeout)
	defer cancel()
	c, err := connect(ctx, url, "on")
	if err != nil {
		return s, fmt.Errorf("read the tokens of paydb: %w", err)
	}
	defer hangUp(c)
	err = c.QueryRow(ctx, highestTokensSQL).Scan(&s.Place, &s.Token)
	if errors.Is(err, pgx.ErrNoRows) {
		return Seen{}, nil
	}
	if err != nil {
		return Seen{}, fmt.Errorf("read the tokens of paydb: %w", err)
	}
	return s, nil
}

// connect opens a connection on which whatever is answered as committed is on the disk.
func connect(ctx context.Context, url, readOnly string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnectTimeout = connectTimeout
	config.RuntimeParams["application_name"] = "lockctl"
	config.RuntimeParams["synchronous_commit"] = "on"
	config.RuntimeParams["default_transaction_isolation"] = "read committed"
	config.RuntimeParams["default_transaction_read_only"] = readOnly
	config.RuntimeParams["statement_timeout"] = fmt.Sprint(statementTimeout.Milliseconds())
	return pgx.ConnectConfig(ctx, config)
}

func hangUp(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // we are done with it
}
