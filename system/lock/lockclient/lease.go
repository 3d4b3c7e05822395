package lockclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"fenceproof/system/wire"
)

// Lease is a grant as its holder may rely on it: until its own or its session's local deadline, whichever is first.
type Lease struct {
	c     *Client
	s     *session
	key   string
	token int64
	ttl   time.Duration
	hold  *hold
	quit  chan struct{} // closed to end the renewals
	once  sync.Once
	done  chan struct{} // closed when the renewals have ended
}

// Key is the lock's key.
func (l *Lease) Key() string { return l.key }

// Token is the grant's fencing token. It goes with every write that the lease protects.
func (l *Lease) Token() int64 { return l.token }

// Lost is closed when the lease is over without having been released: at the deadline, or when the server said so.
// Start nothing more then; what is under way is for the fences to judge.
func (l *Lease) Lost() <-chan struct{} { return l.hold.over }

// CheckStillHeld returns nil when more than need is left of the lease: pass the timeout of the step that would be
// started. Otherwise it is ErrTooLittleLeft, ErrLost or ErrReleased.
func (l *Lease) CheckStillHeld(need time.Duration) error {
	now := time.Now()
	left, err := l.hold.left(now)
	ofSession, gone := l.s.hold.left(now)
	if err == nil && gone != nil {
		err = fmt.Errorf("its session ended: %w", gone)
		l.hold.end(err, true)
	}
	if err != nil {
		return fmt.Errorf("check the lease of %q, token %d: %w", l.key, l.token, err)
	}
	if left = min(left, ofSession); left <= need {
		return fmt.Errorf("check the lease of %q, token %d: %w: %s, and the step may take %s", l.key, l.token, ErrTooLittleLeft, left, need)
	}
	return nil
}

// Release ends the lease and gives the key back. It waits until no renewal is on its way. That the grant was over
// already is no error; it is logged with stale=true. Any other error leaves the grant to its expiry.
func (l *Lease) Release(ctx context.Context) error {
	l.hold.end(ErrReleased, false)
	l.once.Do(func() { close(l.quit) })
	select {
	case <-l.done:
	case <-ctx.Done():
		return fmt.Errorf("release %q, token %d: wait for its renewal: %w", l.key, l.token, ctx.Err())
	}
	err := l.c.giveBack(ctx, l.s.id, l.key, l.token)
	if err != nil {
		return fmt.Errorf("release %q, token %d: %w", l.key, l.token, err)
	}
	return nil
}

// giveBack releases the grant (key, token) and nothing else.
func (c *Client) giveBack(ctx context.Context, sessionID, key string, token int64) error {
	err := c.patiently(ctx, wire.Call{Method: "DELETE", Path: lockPath(key), Owner: c.ownerID, Token: token,
		Body: map[string]any{"sessionId": sessionID}})
	if wire.CodeOf(err) == wire.LockLost {
		c.log.Info("a lease was over before it was released", "event", "lock_released", "key", key, "ownerId", c.ownerID,
			"fencingToken", token, "stale", true)
		return nil
	}
	return meaning(err)
}

// keepLease renews l until it is released or over.
func (c *Client) keepLease(l *Lease) {
	defer close(l.done)
	defer l.s.leave(l)
	c.metrics.held.Inc()
	defer c.metrics.held.Dec()
	l.hold.keep(c.work, l.quit, l.ttl, c.rhythm(l.ttl), func(ctx context.Context) error { return c.renew(ctx, l) })
	if _, why := l.hold.left(time.Now()); errors.Is(why, ErrLost) {
		c.log.Warn("lease over before it was released", "event", "lease_expired", "key", l.key, "ownerId", c.ownerID,
			"fencingToken", l.token, "reason", why.Error())
	}
}

// renew extends the grant at the server. A server that says that the session is dead ends that too.
func (c *Client) renew(ctx context.Context, l *Lease) error {
	err := c.calls.Do(ctx, wire.Call{Method: "POST", Path: lockPath(l.key) + "/renew", Owner: c.ownerID, Token: l.token,
		Body: map[string]any{"sessionId": l.s.id, "ttlMillis": l.ttl.Milliseconds()}}, nil)
	switch {
	case sessionDead(err):
		l.s.end(fmt.Errorf("%w: %w", ErrLost, err))
		return overError{err}
	case wire.CodeOf(err) == wire.LockLost:
		return overError{err}
	}
	return err
}
