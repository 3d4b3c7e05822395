package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fenceproof/system/lock"

	"github.com/jackc/pgx/v5"
)

// TryAcquire is C1's acquire behind the key's advisory lock, in one transaction and one round trip.
//
// Without that lock C1's acquire breaks INV-04: it draws its token before it waits for a concurrent release of the
// row, and inserts that token after others were granted newer ones. The schema refuses a dead session (V4).
func (s *Store) TryAcquire(ctx context.Context, key, ownerID, sessionID string, ttl time.Duration) (lock.Acquired, error) {
	a, err := s.tryAcquire(ctx, key, ownerID, sessionID, ttl)
	if err != nil {
		return lock.Acquired{}, fmt.Errorf("acquire: %w", err)
	}
	return a, nil
}

func (s *Store) tryAcquire(ctx context.Context, key, ownerID, sessionID string, ttl time.Duration) (lock.Acquired, error) {
	if !isID(sessionID) {
		return lock.Acquired{}, lock.ErrSessionUnknown
	}
	waiting, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	done, err := s.turns.Take(waiting, key)
	if err != nil {
		return lock.Acquired{}, fmt.Errorf("%w: wait for earlier acquires of the key: %w", lock.ErrUnavailable, err)
	}
	defer done()
	t := attempt{grant: lock.Grant{Key: key, TTL: ttl}}
	if err := s.batch(ctx, t.batch(ownerID, sessionID)); err != nil {
		return lock.Acquired{}, err
	}
	if !t.granted {
		return lock.Acquired{}, t.contended()
	}
	if t.dead() {
		return lock.Acquired{}, s.takeBack(ctx, &t)
	}
	a := lock.Acquired{Grant: t.grant}
	if t.before != nil && !t.beforeLive && t.before.SessionID != sessionID {
		a.Lapsed = t.before
	}
	return a, nil
}

// attempt is one run of the acquire's batch.
type attempt struct {
	before     *lock.Grant // what the key carried when the advisory lock was held, nil for nothing
	beforeLive bool
	granted    bool
	grant      lock.Grant
	now        time.Time  // the database's clock after the statement, not the transaction's start
	sessionEnd *time.Time // nil: the session is gone
}

func (t *attempt) batch(ownerID, sessionID string) *pgx.Batch {
	b, key := &pgx.Batch{}, t.grant.Key
	b.Queue(lockKeySQL, key)
	b.Queue(readEntrySQL, key).QueryRow(func(row pgx.Row) (err error) {
		t.before, t.beforeLive, err = scanEntry(key, row)
		return err
	})
	b.Queue(acquireSQL, key, ownerID, sessionID, t.grant.TTL.Seconds()).QueryRow(func(row pgx.Row) error {
		g := &t.grant
		err := row.Scan(&g.FencingToken, &g.OwnerID, &g.SessionID, &g.AcquiredAt, &g.ExpiresAt)
		if t.granted = err == nil; errors.Is(err, pgx.ErrNoRows) {
			return nil // held by a live, different holder
		}
		return err
	})
	b.Queue(clockAndSessionSQL, sessionID, key).QueryRow(func(row pgx.Row) error { return row.Scan(&t.now, &t.sessionEnd, nil) })
	return b
}

func (t *attempt) contended() error {
	if t.before == nil {
		return &lock.ContendedError{} // granted, outside this batch, after the key was read
	}
	return &lock.ContendedError{Holder: t.before.OwnerID, ExpiresAt: t.before.ExpiresAt}
}

// dead tells whether nothing is left of the grant. now() is the transaction's start, and the batch may have waited
// longer than the TTL since, or longer than the session had left.
func (t *attempt) dead() bool { return !t.grant.ExpiresAt.After(t.now) || t.sessionDead() }

func (t *attempt) sessionDead() bool { return t.sessionEnd == nil || !t.sessionEnd.After(t.now) }

// takeBack releases a grant that was dead before it could be returned (rule 8). When the release fails the row is
// expired all the same, or dies with its session, and the reaper takes it.
func (s *Store) takeBack(ctx context.Context, t *attempt) error {
	err := s.Release(ctx, t.grant.Key, t.grant.FencingToken)
	var lost *lock.LostError
	if err != nil && !errors.As(err, &lost) {
		return err
	}
	if t.sessionDead() {
		return lock.ErrSessionExpired
	}
	return &lock.ContendedError{}
}
