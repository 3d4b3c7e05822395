package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fenceproof/system/lock"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// OpenSession begins a session; its id is a new UUID.
func (s *Store) OpenSession(ctx context.Context, ownerID string, ttl time.Duration) (lock.Session, error) {
	x := lock.Session{ID: uuid.NewString(), OwnerID: ownerID, TTL: ttl}
	if err := s.row(ctx, sessionOpenSQL, []any{x.ID, ownerID, ttl.Seconds()}, &x.ExpiresAt); err != nil {
		return lock.Session{}, fmt.Errorf("open a session: %w", err)
	}
	return x, nil
}

// Heartbeat extends a session by C1's heartbeat. The session's TTL never changes, so that it may be read first.
func (s *Store) Heartbeat(ctx context.Context, sessionID string) (lock.Beat, error) {
	b, err := s.heartbeat(ctx, sessionID)
	if err != nil {
		return lock.Beat{}, fmt.Errorf("heartbeat: %w", err)
	}
	return b, nil
}

func (s *Store) heartbeat(ctx context.Context, sessionID string) (beat lock.Beat, err error) {
	x, live, err := s.session(ctx, sessionID)
	if err != nil {
		return beat, err
	}
	if !live {
		return beat, lock.ErrSessionExpired
	}
	b := &pgx.Batch{}
	b.Queue(sessionHeartbeatSQL, sessionID, x.TTL.Seconds()).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&beat.ExpiresAt)
		if live = err == nil; errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	b.Queue(sessionHeldSQL, sessionID).QueryRow(func(row pgx.Row) error { return row.Scan(&beat.Now, &beat.Held) })
	if err := s.batch(ctx, b); err != nil {
		return beat, err
	}
	if !live {
		return beat, lock.ErrSessionExpired // it ended since it was read
	}
	return beat, nil
}

// CloseSession deletes the session; its grants go with it (C1 1.2, ON DELETE CASCADE).
func (s *Store) CloseSession(ctx context.Context, sessionID string) error {
	if !isID(sessionID) {
		return fmt.Errorf("close a session: %w", lock.ErrSessionUnknown)
	}
	var keys []string
	err := s.row(ctx, sessionCloseSQL, []any{sessionID}, &keys)
	if errors.Is(err, pgx.ErrNoRows) {
		err = lock.ErrSessionUnknown
	}
	if err != nil {
		return fmt.Errorf("close a session: %w", err)
	}
	s.watch.freed(keys...)
	return nil
}

// SessionLive tells whether a session is alive.
func (s *Store) SessionLive(ctx context.Context, sessionID string) (bool, error) {
	_, live, err := s.session(ctx, sessionID)
	if errors.Is(err, lock.ErrSessionUnknown) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read a session: %w", err)
	}
	return live, nil
}

func (s *Store) session(ctx context.Context, sessionID string) (x lock.Session, live bool, err error) {
	if !isID(sessionID) {
		return x, false, lock.ErrSessionUnknown
	}
	x.ID = sessionID
	var ttl int64
	err = s.row(ctx, sessionReadSQL, []any{sessionID}, &x.OwnerID, &ttl, &x.ExpiresAt, &live)
	if errors.Is(err, pgx.ErrNoRows) {
		return x, false, lock.ErrSessionUnknown
	}
	x.TTL = fromMillis(ttl)
	return x, live, err
}

// isID tells whether s has the form of a session id. What has not was never one.
func isID(s string) bool {
	id, err := uuid.Parse(s)
	return err == nil && id.String() == s
}
