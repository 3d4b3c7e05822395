package workloads

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// How often a database that is not to be reached is asked again, and for how long: a crash and the start after it fit in.
const (
	insistEvery = 50 * time.Millisecond
	insistFor   = 30 * time.Second
)

// insist asks a database again while it is not to be reached: killed, on its way up, or without room for anything. again tells a question that was
// put before, and may have been answered without our hearing of it.
func insist(ctx context.Context, ask func(again bool) error) error {
	over := time.Now().Add(insistFor)
	for again := false; ; again = true {
		err := ask(again)
		if err == nil || !unreachable(err) {
			return err
		}
		if time.Now().After(over) {
			return fmt.Errorf("the database was not to be reached for %s: %w", insistFor, err)
		}
		t := time.NewTimer(insistEvery)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
	}
}

// unreachable tells whether err says nothing about the question: the connection broke, the server takes none, whatever its
// reason, or it has no room (class 53).
func unreachable(err error) bool {
	var refused *pgconn.ConnectError
	code := sqlState(err)
	return code == "" || errors.As(err, &refused) || strings.HasPrefix(code, "53") || strings.HasPrefix(code, "57P") || strings.HasPrefix(code, "08")
}

// uniqueViolation is the SQLSTATE of a row that is there already.
const uniqueViolation = "23505"

func sqlState(err error) string {
	var p *pgconn.PgError
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}
