package pgstore

import (
	"context"
	_ "embed" // the statements
	"fmt"

	"fenceproof/system/lock"

	"github.com/jackc/pgx/v5"
)

// What an operator asks.
var (
	//go:embed sql/list_grants.sql
	listGrantsSQL string
	//go:embed sql/list_sessions.sql
	listSessionsSQL string
)

var _ lock.Lister = (*Store)(nil)

// firstSession is before every session id.
const firstSession = "00000000-0000-0000-0000-000000000000"

// ListGrants lists live grants by the database's clock and in its order of keys.
func (s *Store) ListGrants(ctx context.Context, q lock.ListQuery) (p lock.GrantPage, err error) {
	p.Grants, err = page(ctx, s, listGrantsSQL, []any{q.After, q.OwnerID, q.KeyPrefix, q.Limit},
		func(row pgx.CollectableRow) (g lock.Grant, err error) {
			var ttl int64
			err = row.Scan(&g.Key, &g.OwnerID, &g.SessionID, &g.FencingToken, &ttl, &g.AcquiredAt, &g.ExpiresAt)
			g.TTL = fromMillis(ttl)
			return g, err
		})
	if err != nil {
		return lock.GrantPage{}, fmt.Errorf("list the grants: %w", err)
	}
	if n := len(p.Grants); n == q.Limit {
		p.After = p.Grants[n-1].Key
	}
	return p, nil
}

// ListSessions lists live sessions by the database's clock.
func (s *Store) ListSessions(ctx context.Context, q lock.ListQuery) (p lock.SessionPage, err error) {
	after := q.After
	if after == "" {
		after = firstSession
	}
	p.Sessions, err = page(ctx, s, listSessionsSQL, []any{after, q.OwnerID, q.Limit},
		func(row pgx.CollectableRow) (x lock.HeldSession, err error) {
			var ttl int64
			err = row.Scan(&x.ID, &x.OwnerID, &ttl, &x.ExpiresAt, &x.Held)
			x.TTL = fromMillis(ttl)
			return x, err
		})
	if err != nil {
		return lock.SessionPage{}, fmt.Errorf("list the sessions: %w", err)
	}
	if n := len(p.Sessions); n == q.Limit {
		p.After = p.Sessions[n-1].ID
	}
	return p, nil
}

func page[T any](ctx context.Context, s *Store, statement string, args []any, scan pgx.RowToFunc[T]) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, statement, args...)
	if err != nil {
		return nil, outcome(err)
	}
	all, err := pgx.CollectRows(rows, scan)
	return all, outcome(err)
}
