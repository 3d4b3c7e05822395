package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"fenceproof/system/lock"

	"github.com/jackc/pgx/v5"
)

// Renew extends the grant (key, token) by C1's renew. The grant's TTL never changes, so that it may be read first.
func (s *Store) Renew(ctx context.Context, key string, token int64, ttl time.Duration) (lock.Grant, error) {
	g, err := s.renew(ctx, key, token, ttl)
	if err != nil {
		return lock.Grant{}, fmt.Errorf("renew: %w", err)
	}
	return g, nil
}

func (s *Store) renew(ctx context.Context, key string, token int64, ttl time.Duration) (lock.Grant, error) {
	g, live, err := s.entry(ctx, key)
	if err != nil {
		return lock.Grant{}, err
	}
	if g == nil || g.FencingToken != token || !live {
		return lock.Grant{}, lostTo(g)
	}
	if ttl != 0 && ttl != g.TTL {
		return lock.Grant{}, fmt.Errorf("%w: %s, not %s", lock.ErrTTLMismatch, g.TTL, ttl)
	}
	err = s.row(ctx, renewSQL, []any{key, token, g.TTL.Seconds()}, &g.FencingToken, &g.ExpiresAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return lock.Grant{}, s.lost(ctx, key)
	}
	return *g, err
}

// lost tells which token the key carries, after it did not carry, or not live, the one that was asked for. Tokens only
// go up: what was lost then is lost still.
func (s *Store) lost(ctx context.Context, key string) error {
	g, _, err := s.entry(ctx, key)
	if err != nil {
		return err
	}
	return lostTo(g)
}

func lostTo(g *lock.Grant) error {
	if g == nil {
		return &lock.LostError{}
	}
	return &lock.LostError{StoredToken: g.FencingToken}
}

// Release deletes the grant (key, token) by C1's compare-and-delete.
func (s *Store) Release(ctx context.Context, key string, token int64) error {
	err := s.row(ctx, releaseSQL, []any{key, token}, &token)
	if errors.Is(err, pgx.ErrNoRows) {
		err = s.lost(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	s.watch.freed(key)
	return nil
}

// Inspect reads the key. A grant that has expired is not held, whether or not the reaper has come by.
func (s *Store) Inspect(ctx context.Context, key string) (lock.Inspection, error) {
	g, live, err := s.entry(ctx, key)
	if err != nil {
		return lock.Inspection{}, fmt.Errorf("inspect: %w", err)
	}
	if g == nil || !live {
		return lock.Inspection{}, nil
	}
	return lock.Inspection{Held: true, Grant: *g}, nil
}

// Revoke ends the key's live grant, moves the token floor and writes the audit in one transaction. The floor is drawn
// under the key's advisory lock: no grant of the key is being made meanwhile, so that every later one is above it. It
// is durable because rows are written with it; a sequence value alone would not be.
func (s *Store) Revoke(ctx context.Context, key, operator, reason string, expected int64) (lock.Revocation, error) {
	r, err := s.revoke(ctx, key, operator, reason, expected)
	if err != nil {
		return lock.Revocation{}, fmt.Errorf("revoke: %w", err)
	}
	s.watch.freed(key)
	return r, nil
}

func (s *Store) revoke(ctx context.Context, key, operator, reason string, expected int64) (r lock.Revocation, err error) {
	var id int64
	var left *lock.Grant
	var live bool
	b := &pgx.Batch{}
	b.Queue(lockKeySQL, key)
	b.Queue(revokeSQL, key, operator, reason, expected).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&id, &r.OwnerID, &r.RevokedToken, &r.NewTokenFloor)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	b.Queue(readEntrySQL, key).QueryRow(func(row pgx.Row) (err error) {
		left, live, err = scanEntry(key, row)
		return err
	})
	switch err := s.batch(ctx, b); {
	case err != nil:
		return r, err
	case id != 0:
		r.ID = strconv.FormatInt(id, 10)
		return r, nil
	case left != nil && live && left.FencingToken != expected:
		return r, &lock.TokenMismatchError{StoredToken: left.FencingToken}
	}
	return r, lock.ErrNotHeld
}

// Held counts the live grants.
func (s *Store) Held(ctx context.Context) (n int, err error) {
	if err := s.row(ctx, countHeldSQL, nil, &n); err != nil {
		return 0, fmt.Errorf("count the grants: %w", err)
	}
	return n, nil
}

// entry reads what the key carries, nil for nothing, and whether that is live.
func (s *Store) entry(ctx context.Context, key string) (g *lock.Grant, live bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	g, live, err = scanEntry(key, s.pool.QueryRow(ctx, readEntrySQL, key))
	return g, live, outcome(err)
}

func scanEntry(key string, row pgx.Row) (*lock.Grant, bool, error) {
	g, ttl, live := lock.Grant{Key: key}, int64(0), false
	err := row.Scan(&g.OwnerID, &g.SessionID, &g.FencingToken, &ttl, &g.AcquiredAt, &g.ExpiresAt, &live)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	g.TTL = fromMillis(ttl)
	return &g, live, nil
}

func fromMillis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
