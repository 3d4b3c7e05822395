package lockclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"fenceproof/system/wire"
)

// session is the client's liveness towards the server. When it is lost, so are all its leases.
type session struct {
	id   string
	hold *hold
	quit chan struct{} // closed to end the heartbeat
	once sync.Once
	done chan struct{} // closed when the heartbeat has ended

	mu     sync.Mutex
	leases map[*Lease]struct{}
	ended  error // not nil: no lease joins any more
}

// current is the live session; it opens one where there is none.
func (c *Client) current(ctx context.Context) (*session, error) {
	select {
	case <-c.opening:
	case <-ctx.Done():
		return nil, fmt.Errorf("open a lock session: %w", ctx.Err())
	}
	defer func() { c.opening <- struct{}{} }()
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if s != nil {
		if _, err := s.hold.left(time.Now()); err == nil {
			return s, nil
		}
	}
	return c.open(ctx)
}

func (c *Client) open(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, min(c.ttl, requestLimit))
	defer cancel()
	var out struct {
		SessionID string `json:"sessionId"`
	}
	sent := time.Now()
	err := c.calls.Do(ctx, wire.Call{Method: "POST", Path: "/v1/sessions", Body: map[string]any{
		"ownerId": c.ownerID, "ttlMillis": c.ttl.Milliseconds()}}, &out)
	if err == nil && out.SessionID == "" {
		err = errors.New("the answer has no session id")
	}
	if err != nil {
		return nil, fmt.Errorf("open a lock session: %w", meaning(err))
	}
	s := &session{id: out.SessionID, hold: newHold(c.usable(c.ttl), sent), quit: make(chan struct{}), done: make(chan struct{}),
		leases: map[*Lease]struct{}{}}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.session = s
		c.busy.Go(func() { c.keepSession(s) })
	}
	c.mu.Unlock()
	if closed {
		return nil, errors.Join(ErrClosed, c.endSession(ctx, s.id))
	}
	return s, nil
}

// keepSession is the heartbeat of s. When s is lost it takes the leases along; the next Acquire opens another session.
func (c *Client) keepSession(s *session) {
	defer close(s.done)
	s.hold.keep(c.work, s.quit, c.ttl, c.rhythm(c.ttl), func(ctx context.Context) error {
		err := c.calls.Do(ctx, wire.Call{Method: "POST", Path: sessionPath(s.id) + "/heartbeat"}, nil)
		if sessionDead(err) {
			return overError{err}
		}
		return err
	})
	_, why := s.hold.left(time.Now())
	if errors.Is(why, ErrClosed) {
		return
	}
	c.metrics.sessionsLost.Inc()
	c.log.Warn("lock session lost", "event", "session_lost", "sessionId", s.id, "ownerId", c.ownerID, "reason", why.Error())
	s.end(why)
	if sessionDead(why) {
		return
	}
	// Only our own deadline has passed. The server may still hold the grants for us: others need not wait for that.
	ctx, cancel := context.WithTimeout(c.work, requestLimit)
	defer cancel()
	_ = c.endSession(ctx, s.id) // it ends with its TTL otherwise
}

// end ends the heartbeat and all leases of s, for the reason why.
func (s *session) end(why error) {
	s.hold.end(why, true)
	s.once.Do(func() { close(s.quit) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = why
	}
	for l := range s.leases {
		l.hold.end(fmt.Errorf("its session ended: %w", why), true)
	}
}

// join makes l a lease of s. Another lease of the same key is over from here on: re-entry has made its token stale.
func (s *session) join(l *Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return s.ended
	}
	for other := range s.leases {
		if other.key == l.key {
			other.hold.end(fmt.Errorf("%w: the key was acquired again with token %d", ErrLost, l.token), true)
		}
	}
	s.leases[l] = struct{}{}
	return nil
}

func (s *session) leave(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, l)
}

// awaitSilence waits until neither the heartbeat nor a renewal of s is on its way.
func (s *session) awaitSilence(ctx context.Context) error {
	s.mu.Lock()
	wait := []<-chan struct{}{s.done}
	for l := range s.leases {
		wait = append(wait, l.done)
	}
	s.mu.Unlock()
	for _, done := range wait {
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("wait for requests on their way: %w", ctx.Err())
		}
	}
	return nil
}

// endSession closes the session at the server. A session that is gone already is closed.
func (c *Client) endSession(ctx context.Context, id string) error {
	err := c.patiently(ctx, wire.Call{Method: "DELETE", Path: sessionPath(id)})
	if err != nil && !sessionDead(err) {
		return fmt.Errorf("close the lock session: %w", meaning(err))
	}
	return nil
}

func sessionPath(id string) string { return "/v1/sessions/" + id }

func sessionDead(err error) bool {
	code := wire.CodeOf(err)
	return code == wire.SessionUnknown || code == wire.SessionExpired
}
