// Package lockclient is the SDK of the lock service. A process has one session; every grant is a Lease that the SDK
// renews and that is held until a deadline on this process's own monotonic clock:
//
//	time when the request was sent + lease × (1 − margin)
//
// never counted from the reply and never from a wall clock, and never extended by a request that failed. That is
// liveness: it keeps a process from starting what it cannot finish. Safety is the business of the fences, which the
// Lease's token is for.
package lockclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/lock/turns"
	"fenceproof/system/wire"

	"github.com/prometheus/client_golang/prometheus"
)

// Options say whose Client it is and how careful.
type Options struct {
	BaseURL    string        // of lock-server
	OwnerID    string        // 1 to 64 bytes
	SessionTTL time.Duration // 1 s to 60 s
	Margin     float64       // share of a lease that is not used, 0 to 0.9
	// LongestStep is the most that the caller will pass to CheckStillHeld, 0 where it asks for nothing: renewals come
	// so often that a lease which is renewed in time covers it.
	LongestStep time.Duration
	Log         *slog.Logger
	Registerer  prometheus.Registerer
}

// Errors of a Lease, and of a Client that was closed.
var (
	// ErrLost says that the lease is over: start nothing more under it.
	ErrLost = errors.New("the lease is over")
	// ErrTooLittleLeft says that the lease is held, but ends before the step could be finished.
	ErrTooLittleLeft = errors.New("too little of the lease is left")
	// ErrReleased says that the lease was released by its own holder.
	ErrReleased = errors.New("the lease was released")
	// ErrClosed says that the client was closed.
	ErrClosed = errors.New("the lock client is closed")
)

// idlePerHost bounds the idle connections to lock-server.
const idlePerHost = 16

// caller sends one request at most once.
type caller interface {
	Do(ctx context.Context, call wire.Call, out any) error
	Close()
}

// Client is one process's session with the lock service, opened by the first Acquire. It is safe for use by several
// goroutines.
type Client struct {
	calls   caller
	ownerID string
	ttl     time.Duration
	margin  float64
	// longestStep is what every lease must be able to cover.
	longestStep time.Duration
	log         *slog.Logger
	metrics     *metrics

	turns   *turns.Turns  // one acquire per key at a time
	opening chan struct{} // holds one token while nobody opens a session

	work    context.Context // ends when Close gives up on requests
	giveUp  context.CancelFunc
	closing chan struct{} // closed by Close

	mu      sync.Mutex
	session *session // nil while there is none
	closed  bool
	busy    sync.WaitGroup // every goroutine of the client; joined under mu while not closed
}

// New makes a Client. It opens nothing.
func New(o Options) (*Client, error) {
	switch {
	case o.OwnerID == "" || len(o.OwnerID) > lock.MaxOwnerBytes:
		return nil, fmt.Errorf("make a lock client: owner id %q has %d bytes and needs 1 to %d", o.OwnerID, len(o.OwnerID), lock.MaxOwnerBytes)
	case o.SessionTTL < lock.MinTTL || o.SessionTTL > lock.MaxTTL:
		return nil, fmt.Errorf("make a lock client: session TTL %s is not from %s to %s", o.SessionTTL, lock.MinTTL, lock.MaxTTL)
	case !(o.Margin >= 0 && o.Margin <= 0.9):
		return nil, fmt.Errorf("make a lock client: safety margin %v is not from 0 to 0.9", o.Margin)
	case o.LongestStep < 0 || o.LongestStep >= usable(o.SessionTTL, o.Margin):
		return nil, fmt.Errorf("make a lock client: a session of %s counts for %s with safety margin %v, which does not cover a step of %s: make the session longer or the step's timeout shorter",
			o.SessionTTL, usable(o.SessionTTL, o.Margin), o.Margin, o.LongestStep)
	}
	return newClient(o, wire.NewClient(o.BaseURL, idlePerHost)), nil
}

func newClient(o Options, calls caller) *Client {
	c := &Client{calls: calls, ownerID: o.OwnerID, ttl: o.SessionTTL, margin: o.Margin, longestStep: o.LongestStep, log: o.Log, metrics: newMetrics(o.Registerer),
		turns: turns.New(), opening: make(chan struct{}, 1), closing: make(chan struct{})}
	c.opening <- struct{}{}
	c.work, c.giveUp = context.WithCancel(context.Background())
	return c
}

// Close ends the client: it starts nothing more, all leases are lost, and the session is closed, which ends its grants
// at the server in one step. Where ctx ends before that is done, the grants end with the session's TTL.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	s := c.session
	c.session = nil
	c.mu.Unlock()
	close(c.closing)
	defer func() {
		c.giveUp()
		c.busy.Wait()
		c.calls.Close()
	}()
	if s == nil {
		return nil
	}
	s.end(ErrClosed)
	if err := s.awaitSilence(ctx); err != nil {
		return fmt.Errorf("close the lock client: %w", err)
	}
	if err := c.endSession(ctx, s.id); err != nil {
		return fmt.Errorf("close the lock client: %w", err)
	}
	return nil
}

// start runs f as a goroutine that Close waits for; it tells whether it did.
func (c *Client) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.busy.Go(f)
	return true
}

// usable is how long a lease of ttl counts as held, from the send of the request that won or renewed it.
func (c *Client) usable(ttl time.Duration) time.Duration { return usable(ttl, c.margin) }

func usable(ttl time.Duration, margin float64) time.Duration {
	return time.Duration(float64(ttl) * (1 - margin))
}

// rhythm is the pause between two renewals of a lease of ttl: a quarter of it, or so little that what is left before
// the next one still covers the longest step, with as much again for the way there and back.
func (c *Client) rhythm(ttl time.Duration) time.Duration {
	return min(ttl/4, max((c.usable(ttl)-c.longestStep)/2, ttl/64))
}
