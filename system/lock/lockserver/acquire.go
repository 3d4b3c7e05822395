package lockserver

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/wire"
)

const (
	// poll is the mean pause between two attempts of a key's first waiter when nothing wakes it: a lease that expires
	// announces nothing before the reaper has come by.
	poll = 150 * time.Millisecond
	// recheck is the mean pause between two looks at a waiter's session while others are before it.
	recheck = 2 * time.Second
	// backendLimit bounds work that must be finished although the client may be gone.
	backendLimit = 5 * time.Second
)

// errGone says that the client went away: it is owed no answer.
var errGone = errors.New("the client is gone")

// request is a valid L4.
type request struct {
	key, ownerID, sessionID string
	ttl, wait               time.Duration
}

func (s *Server) acquireRequest(w http.ResponseWriter, r *http.Request) (q request, err error) {
	var in struct {
		SessionID  *string `json:"sessionId"`
		TTLMillis  *int64  `json:"ttlMillis"`
		WaitMillis *int64  `json:"waitMillis"`
	}
	var err1, err2, err3 error
	q.key, err1 = lockKey(r)
	q.ownerID, err2 = owner(r)
	if err := first(err1, err2, wire.Decode(w, r, &in)); err != nil {
		return q, err
	}
	q.sessionID, err1 = sessionID(in.SessionID)
	q.ttl, err2 = millis("ttlMillis", in.TTLMillis, lock.MinTTL, lock.MaxTTL, s.defaultTTL)
	q.wait, err3 = millis("waitMillis", in.WaitMillis, 0, lock.MaxWait, 0)
	return q, first(err1, err2, err3)
}

// acquire is L4. A grant that its client cannot receive is given back at once.
func (s *Server) acquire(w http.ResponseWriter, r *http.Request) error {
	q, err := s.acquireRequest(w, r)
	if err != nil {
		return err
	}
	arrived := time.Now()
	a, err := s.obtain(r.Context(), q)
	s.metrics.acquired(time.Since(arrived), err)
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	s.events.lockGranted(a.Grant, time.Since(arrived))
	if a.Lapsed != nil {
		s.lapsed(*a.Lapsed)
	}
	if r.Context().Err() != nil {
		return s.giveBack(r, a.Grant)
	}
	wire.Reply(w, http.StatusOK, onWire(a.Grant))
	// An answer that could not be written reached nobody. After it was written the client's going away means nothing:
	// it may have read the answer and be working under it.
	if err := http.NewResponseController(w).Flush(); err != nil {
		return s.giveBack(r, a.Grant)
	}
	return nil
}

// giveBack releases a grant that nobody knows of. Should it fail, the grant ends with its lease.
func (s *Server) giveBack(r *http.Request, g lock.Grant) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), backendLimit)
	defer cancel()
	err := s.store.Release(ctx, g.Key, g.FencingToken)
	var lost *lock.LostError
	if err == nil || errors.As(err, &lost) {
		s.events.lockReleased(g.Key, g.OwnerID, g.FencingToken, err != nil)
	}
	return nil
}

// obtain tries once, and then, where the client would wait, in its turn until a grant, a refusal or the end of the wait.
func (s *Server) obtain(ctx context.Context, q request) (lock.Acquired, error) {
	expiry := time.NewTimer(q.wait)
	defer expiry.Stop()
	a, err := s.try(ctx, q)
	if !contended(err) || q.wait == 0 {
		return a, err
	}
	place, ok := s.waiting.join(q.key)
	if !ok {
		return a, wire.NewError(wire.ContentionExceeded, "the lock already has %d waiters", s.waiting.limit).After(time.Second)
	}
	defer place.leave()
	if err := s.awaitTurn(ctx, q, place, expiry, err); err != nil {
		return a, err
	}
	return s.tryUntil(ctx, q, expiry)
}

func contended(err error) bool {
	var c *lock.ContendedError
	return errors.As(err, &c)
}

// try runs to its end even when the client goes away meanwhile: only then is it known whether there is a grant to give
// back.
func (s *Server) try(ctx context.Context, q request) (lock.Acquired, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backendLimit)
	defer cancel()
	return s.store.TryAcquire(ctx, q.key, q.ownerID, q.sessionID, q.ttl)
}

// awaitTurn waits until nobody is before this waiter; last is what its first attempt was told.
func (s *Server) awaitTurn(ctx context.Context, q request, place *place, expiry *time.Timer, last error) error {
	for {
		select {
		case <-place.first:
			return nil
		case <-time.After(jitter(recheck)):
			live, err := s.store.SessionLive(ctx, q.sessionID)
			if err == nil && !live {
				return lock.ErrSessionExpired
			}
		case <-expiry.C:
			return last
		case <-ctx.Done():
			return errGone
		case <-s.stopping:
			return lock.ErrUnavailable
		}
	}
}

// tryUntil is what the first waiter of a key does: it tries whenever the key may have become free, and now and then.
func (s *Server) tryUntil(ctx context.Context, q request, expiry *time.Timer) (lock.Acquired, error) {
	wake, cancel := s.store.Watch(q.key)
	defer cancel()
	for {
		a, err := s.try(ctx, q)
		if !contended(err) {
			return a, err
		}
		select {
		case <-wake:
		case <-time.After(jitter(poll)):
		case <-expiry.C:
			return a, err
		case <-ctx.Done():
			return a, errGone
		case <-s.stopping:
			return a, lock.ErrUnavailable
		}
	}
}

// jitter spreads d over 0.5 d to 1.5 d, so that waiters of several processes do not march in step.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
