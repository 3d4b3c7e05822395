// Package lock is the lock contract: grants, sessions, errors and the Store that every backend implements. It imports
// the standard library only. The rules are those of docs/contract.md, "The lock contract"; one suite of tests runs them
// against every Store.
package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxKeyBytes is the longest lock key, in bytes; a key is not empty.
const MaxKeyBytes = 512

// MaxOwnerBytes is the longest owner id, in bytes.
const MaxOwnerBytes = 64

// Limits of a lease and of a wait (contract L1, L4).
const (
	MinTTL  = 1 * time.Second
	MaxTTL  = 60 * time.Second
	MaxWait = 30 * time.Second
)

// Grant is the right to work on Key until ExpiresAt by the backend's clock. It proves nothing to the resource: only
// FencingToken does.
type Grant struct {
	Key          string
	OwnerID      string
	SessionID    string
	FencingToken int64         // > 0, strictly increasing per key over the key's whole life; gaps are fine
	TTL          time.Duration // the lease that was asked for; a renewal extends by as much
	AcquiredAt   time.Time     // the backend's clock
	ExpiresAt    time.Time     // the backend's clock
}

// Session is a client's liveness towards the backend: when it ends, all its grants end in the same step.
type Session struct {
	ID        string
	OwnerID   string
	TTL       time.Duration
	ExpiresAt time.Time
}

// Beat is the answer to a heartbeat.
type Beat struct {
	ExpiresAt time.Time
	Now       time.Time // the backend's clock
	Held      int       // live grants of the session
}

// Acquired is a grant as TryAcquire made it.
type Acquired struct {
	Grant
	// Lapsed is the expired grant of another holder that this one took over, nil when the key was free: whoever takes
	// over is the one who sees that lease expire.
	Lapsed *Grant
}

// Reaped is what one pass of Reap has ended.
type Reaped struct {
	Sessions []Session // expired, each gone with all its grants
	Grants   []Grant   // expired while their session lived
	More     bool      // the pass was full: more may be due
}

// Inspection is what the backend knows of a key at one instant of its own clock.
type Inspection struct {
	Held  bool
	Grant Grant // zero when not held; TTL may be zero
}

// Revocation is the audited end of a grant by an operator.
type Revocation struct {
	ID            string
	OwnerID       string // who held the grant
	RevokedToken  int64
	NewTokenFloor int64 // above RevokedToken; every later grant of the key is at or above it
}

// Errors that are facts about the lock. A backend that did not answer is ErrUnavailable, never ErrLost: "lost" is a
// fact, not a guess (contract rule 7).
var (
	ErrSessionUnknown = errors.New("session unknown")
	ErrSessionExpired = errors.New("session expired")
	ErrNotHeld        = errors.New("lock not held")
	ErrUnavailable    = errors.New("lock backend unavailable")
	ErrTTLMismatch    = errors.New("renewal asks for another TTL than the grant's")
)

// TTLError says that the backend has no lease as long as the one that was asked for. It is refused: a lease is never
// stretched or cut in silence.
type TTLError struct {
	Asked   time.Duration
	Minimum time.Duration // the shortest lease that the backend grants
	Step    time.Duration // leases are whole multiples of it
}

func (e *TTLError) Error() string {
	return fmt.Sprintf("the backend grants no lease of %s: its leases are whole multiples of %s and at least %s", e.Asked, e.Step, e.Minimum)
}

// ContendedError says that a live grant of another holder stands in the way.
type ContendedError struct {
	Holder    string // owner id of the holder; "" when not known
	ExpiresAt time.Time
}

func (e *ContendedError) Error() string { return fmt.Sprintf("lock held by %q", e.Holder) }

// LostError says that the grant (key, token) is over. StoredToken is the token that the key carries now, 0 for none.
type LostError struct{ StoredToken int64 }

func (e *LostError) Error() string {
	if e.StoredToken == 0 {
		return "lock lost: the key is free"
	}
	return fmt.Sprintf("lock lost: the key carries token %d", e.StoredToken)
}

// TokenMismatchError says that a revoke expected another token than the key carries.
type TokenMismatchError struct{ StoredToken int64 }

func (e *TokenMismatchError) Error() string {
	return fmt.Sprintf("the key carries token %d", e.StoredToken)
}

// Store is a lock backend. All times and all expiry are by the backend's own clock. Every method may return an error
// that wraps ErrUnavailable: nothing happened, or nobody knows.
type Store interface {
	// OpenSession begins a session of ttl for ownerID.
	OpenSession(ctx context.Context, ownerID string, ttl time.Duration) (Session, error)
	// Heartbeat extends a session to its TTL from now. ErrSessionUnknown or ErrSessionExpired: it is dead, and its grants with it.
	Heartbeat(ctx context.Context, sessionID string) (Beat, error)
	// CloseSession ends a session and all its grants in one step. ErrSessionUnknown when there is none.
	CloseSession(ctx context.Context, sessionID string) error
	// TryAcquire grants key to the session, or returns *ContendedError at once. The grant is live when it is returned
	// (rule 8); re-entry by the same session mints a higher token (rule 9).
	TryAcquire(ctx context.Context, key, ownerID, sessionID string, ttl time.Duration) (Acquired, error)
	// Renew extends the live grant (key, token) to its own TTL from now and keeps its token. A lapsed grant is *LostError,
	// even by 1 ms (rule 3). ttl 0 means the grant's; another one is ErrTTLMismatch.
	Renew(ctx context.Context, key string, token int64, ttl time.Duration) (Grant, error)
	// Release ends the grant (key, token) and nothing else (rule 4). *LostError when the key does not carry token.
	Release(ctx context.Context, key string, token int64) error
	// Inspect reads the key.
	Inspect(ctx context.Context, key string) (Inspection, error)
	// Revoke ends the key's grant, raises its token floor and writes the audit in one step (rule 6). expected 0 means
	// any. ErrNotHeld when there is no live grant, *TokenMismatchError when the key carries another token.
	Revoke(ctx context.Context, key, operator, reason string, expected int64) (Revocation, error)
	// SessionLive tells whether a session is alive by the backend's clock.
	SessionLive(ctx context.Context, sessionID string) (bool, error)
	// Watch wakes the receiver when a key may have become free; it may wake without reason and may miss a wake-up, so a
	// waiter polls as well. cancel releases it.
	Watch(key string) (wake <-chan struct{}, cancel func())
	// Reap ends expired sessions, with their grants, and expired grants, a bounded number of each.
	Reap(ctx context.Context) (Reaped, error)
	// Held counts the live grants of all keys.
	Held(ctx context.Context) (int, error)
	// Ping answers whether the backend answers (readyz).
	Ping(ctx context.Context) error
	// Close ends the store's goroutines and connections.
	Close()
}
