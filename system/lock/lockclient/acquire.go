package lockclient

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/wire"
)

// requestLimit bounds a request beyond the time that it asks the server to wait.
const requestLimit = 5 * time.Second

// Acquire asks for key with a lease of ttl (1 s to 60 s) and lets the server wait for it up to wait (0 to 30 s). It opens
// the session where there is none. Nothing is held unless the error is nil; *lock.ContendedError says that somebody else
// holds the key, lock.ErrUnavailable that nobody knows. A caller whose ctx ends is not kept waiting: should a grant arrive
// after that, it is given back.
func (c *Client) Acquire(ctx context.Context, key string, ttl, wait time.Duration) (*Lease, error) {
	l, err := c.acquire(ctx, key, ttl, wait)
	if err != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, err)
	}
	return l, nil
}

func (c *Client) acquire(ctx context.Context, key string, ttl, wait time.Duration) (*Lease, error) {
	switch {
	case key == "" || len(key) > lock.MaxKeyBytes:
		return nil, fmt.Errorf("a lock key has 1 to %d bytes, not %d", lock.MaxKeyBytes, len(key))
	case ttl < lock.MinTTL || ttl > lock.MaxTTL || ttl%time.Millisecond != 0:
		return nil, fmt.Errorf("a lease of %s is not from %s to %s in whole milliseconds", ttl, lock.MinTTL, lock.MaxTTL)
	case c.usable(ttl) <= c.longestStep:
		return nil, fmt.Errorf("a lease of %s counts for %s, which does not cover a step of %s", ttl, c.usable(ttl), c.longestStep)
	case wait < 0 || wait > lock.MaxWait:
		return nil, fmt.Errorf("a wait of %s is not from 0 to %s", wait, lock.MaxWait)
	}
	done, err := c.turns.Take(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("wait for an earlier acquire of the key: %w", err)
	}
	type answer struct {
		lease *Lease
		err   error
	}
	answered := make(chan answer) // unbuffered: an answer is taken, or it is not
	started := c.start(func() {
		defer done()
		l, err := c.obtain(key, ttl, wait)
		select {
		case answered <- answer{l, err}:
		case <-ctx.Done():
			c.abandon(l)
		case <-c.closing:
			c.abandon(l)
		}
	})
	if !started {
		done()
		return nil, ErrClosed
	}
	select {
	case a := <-answered:
		return a.lease, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.closing:
		return nil, ErrClosed
	}
}

// abandon gives a grant back whose caller has given up.
func (c *Client) abandon(l *Lease) {
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.work, requestLimit)
	defer cancel()
	if err := l.Release(ctx); err != nil {
		c.log.Warn("a grant that arrived late was not given back; it ends with its lease", "key", l.key, "fencingToken", l.token, "error", err.Error())
	}
}

// obtain does what Acquire says, whether or not its caller still waits. A session that the server calls dead is replaced
// once.
func (c *Client) obtain(key string, ttl, wait time.Duration) (*Lease, error) {
	ctx, cancel := context.WithTimeout(c.work, wait+requestLimit)
	defer cancel()
	for again := true; ; again = false {
		s, err := c.current(ctx)
		if err != nil {
			return nil, err
		}
		l, err := c.ask(ctx, s, key, ttl, wait)
		if err == nil || !sessionDead(err) || !again {
			return l, meaning(err)
		}
		s.end(fmt.Errorf("%w: %w", ErrLost, err))
	}
}

// ask sends one acquire and makes a lease of the grant.
func (c *Client) ask(ctx context.Context, s *session, key string, ttl, wait time.Duration) (*Lease, error) {
	var grant struct {
		FencingToken int64 `json:"fencingToken"`
	}
	sent := time.Now()
	err := c.calls.Do(ctx, wire.Call{Method: "POST", Path: lockPath(key) + "/acquire", Owner: c.ownerID, Body: map[string]any{
		"sessionId": s.id, "ttlMillis": ttl.Milliseconds(), "waitMillis": wait.Milliseconds()}}, &grant)
	if err == nil && grant.FencingToken <= 0 {
		err = errors.New("the answer has no fencing token")
	}
	if err != nil {
		return nil, err
	}
	l := &Lease{c: c, s: s, key: key, token: grant.FencingToken, ttl: ttl, hold: newHold(c.usable(ttl), sent),
		quit: make(chan struct{}), done: make(chan struct{})}
	if err := c.freshen(ctx, l, sent); err != nil {
		return nil, c.refuse(l, err)
	}
	if err := s.join(l); err != nil {
		return nil, c.refuse(l, err)
	}
	if !c.start(func() { c.keepLease(l) }) {
		s.leave(l)
		close(l.done)
		return nil, c.refuse(l, ErrClosed)
	}
	return l, nil
}

// freshen renews a grant that was long in coming: a part of its lease was spent in the queue or on the way, and the
// deadline counts from the send. The renewal's send counts instead.
func (c *Client) freshen(ctx context.Context, l *Lease, sent time.Time) error {
	if time.Since(sent) <= l.ttl/8 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.ttl/4)
	defer cancel()
	again := time.Now()
	switch err := c.renew(ctx, l); {
	case wire.CodeOf(err) == wire.LockLost:
		return fmt.Errorf("%w: it ran out while its holder still waited for it: %w", ErrLost, err)
	case err != nil:
		return err
	}
	l.hold = newHold(c.usable(l.ttl), again)
	return nil
}

// refuse gives back a grant that cannot be used, for the reason why. The acquire's own time may be over.
func (c *Client) refuse(l *Lease, why error) error {
	ctx, cancel := context.WithTimeout(c.work, requestLimit)
	defer cancel()
	if err := c.giveBack(ctx, l.s.id, l.key, l.token); err != nil {
		c.log.Warn("a grant that cannot be used was not given back; it ends with its lease", "key", l.key, "fencingToken", l.token, "error", err.Error())
	}
	return why
}

// attempts and between are how often and at what distance a request is sent that may safely be sent again.
const (
	attempts = 3
	between  = 50 * time.Millisecond
)

// patiently sends a request whose effect is the same once or twice (a release, a session's end), again while its answer
// leaves open whether anything happened.
func (c *Client) patiently(ctx context.Context, call wire.Call) (err error) {
	for n := range attempts {
		if n > 0 {
			select {
			case <-ctx.Done():
				return err
			case <-time.After(jitter(between << n)):
			}
		}
		try, cancel := context.WithTimeout(ctx, requestLimit)
		err = c.calls.Do(try, call, nil)
		cancel()
		if err == nil || (wire.CodeOf(err) != "" && wire.CodeOf(err) != wire.NotLeader) {
			return err
		}
	}
	return err
}

// meaning says in the words of package lock what an answer means. An answer that is none, or that only the transport
// made, is lock.ErrUnavailable: nothing happened, or nobody knows.
func meaning(err error) error {
	var e *wire.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrLost), errors.Is(err, ErrClosed), errors.Is(err, lock.ErrUnavailable):
		return err
	case !errors.As(err, &e):
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	}
	switch e.Code {
	case wire.LockContended:
		var d struct {
			Holder    string    `json:"holder"`
			ExpiresAt time.Time `json:"expiresAt"`
		}
		if e.Details != nil && e.Detail(&d) != nil {
			return err
		}
		return fmt.Errorf("%w (%w)", &lock.ContendedError{Holder: d.Holder, ExpiresAt: d.ExpiresAt}, err)
	case wire.NotLeader:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	case wire.SessionUnknown:
		return fmt.Errorf("%w: %w", lock.ErrSessionUnknown, err)
	case wire.SessionExpired:
		return fmt.Errorf("%w: %w", lock.ErrSessionExpired, err)
	}
	return err
}

func lockPath(key string) string { return "/v1/locks/" + url.PathEscape(key) }
