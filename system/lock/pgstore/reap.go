package pgstore

import (
	"context"
	"fmt"

	"fenceproof/system/lock"

	"github.com/jackc/pgx/v5"
)

// reapLimit bounds the sessions and the grants that one pass ends.
const reapLimit = 200

// Reap deletes expired sessions, each with its grants in the same commit, and expired grants. Rows that somebody else
// is working on are left for the next pass, so that any number of reapers never wait for one another.
func (s *Store) Reap(ctx context.Context) (r lock.Reaped, err error) {
	var keys []string
	r.Sessions, err = page(ctx, s, reapSessionsSQL, []any{reapLimit}, func(row pgx.CollectableRow) (x lock.Session, err error) {
		var ttl int64
		var freed []string
		err = row.Scan(&x.ID, &x.OwnerID, &ttl, &x.ExpiresAt, &freed)
		x.TTL, keys = fromMillis(ttl), append(keys, freed...)
		return x, err
	})
	if err != nil {
		return lock.Reaped{}, fmt.Errorf("reap sessions: %w", err)
	}
	s.watch.freed(keys...)
	r.Grants, err = page(ctx, s, reapGrantsSQL, []any{reapLimit}, func(row pgx.CollectableRow) (g lock.Grant, err error) {
		var ttl int64
		err = row.Scan(&g.Key, &g.OwnerID, &g.SessionID, &g.FencingToken, &ttl, &g.AcquiredAt, &g.ExpiresAt)
		g.TTL = fromMillis(ttl)
		return g, err
	})
	if err != nil {
		return r, fmt.Errorf("reap grants: %w", err)
	}
	for _, g := range r.Grants {
		s.watch.freed(g.Key)
	}
	r.More = len(r.Sessions) == reapLimit || len(r.Grants) == reapLimit
	return r, nil
}
