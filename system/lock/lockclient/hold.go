package lockclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// hold is a right that lasts until a deadline on the monotonic clock. Once it is over it stays over, whoever notices
// first: a process that was stopped past its deadline finds it over at its first look, before any timer has fired.
type hold struct {
	usable time.Duration // what a successful request is good for, from its send

	mu    sync.Mutex
	until time.Time
	why   error         // not nil: over, and why
	over  chan struct{} // closed when the right was lost, not when it was given up
}

func newHold(usable time.Duration, sent time.Time) *hold {
	return &hold{usable: usable, until: sent.Add(usable), over: make(chan struct{})}
}

// left is how much of the right is left at now, above 0; the error says why there is none.
func (h *hold) left(now time.Time) (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := h.until.Sub(now)
	if h.why == nil && left <= 0 {
		h.lose(fmt.Errorf("%w: its local deadline passed %s ago", ErrLost, -left))
	}
	return left, h.why
}

// extend counts the deadline from the send of a request that succeeded. What was over by the time of the answer stays
// over.
func (h *hold) extend(sent, now time.Time) error {
	if _, err := h.left(now); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if until := sent.Add(h.usable); until.After(h.until) {
		h.until = until
	}
	return h.why
}

// end makes the right be over: lost, or given up by its holder. The first reason stands.
func (h *hold) end(why error, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.why != nil:
	case lost:
		h.lose(why)
	default:
		h.why = why
	}
}

func (h *hold) lose(why error) { h.why = why; close(h.over) }

// overError wraps the answer that makes a right be over: a fact, not a guess.
type overError struct{ error }

func (e overError) Unwrap() error { return e.error }

// keep sends a request every rhythm, sooner after one that failed, and extends the right, which is for ttl, by each that
// succeeded, until stop is closed or the right is over. A request that is on its way is never called back.
func (h *hold) keep(work context.Context, stop <-chan struct{}, ttl, rhythm time.Duration, send func(context.Context) error) {
	pause := rhythm
	for {
		left, err := h.left(time.Now())
		if err != nil {
			return
		}
		select {
		case <-stop:
			return
		case <-h.over:
			return
		case <-time.After(min(jitter(pause), left)):
		}
		left, err = h.left(time.Now())
		if err != nil {
			return
		}
		pause = rhythm
		switch h.once(work, min(ttl/4, left), send) {
		case over:
			return
		case failed:
			pause = min(rhythm, ttl/16)
		}
	}
}

// attempt is what became of one request that would extend a right.
type attempt int

const (
	extended attempt = iota
	failed           // nobody knows; the right is what it was
	over             // for good
)

// once sends one request, which may take limit.
func (h *hold) once(work context.Context, limit time.Duration, send func(context.Context) error) attempt {
	ctx, cancel := context.WithTimeout(work, limit)
	defer cancel()
	sent := time.Now()
	err := send(ctx)
	var fact overError
	switch {
	case err == nil && h.extend(sent, time.Now()) == nil:
		return extended
	case err == nil:
		return over
	case errors.As(err, &fact):
		h.end(fmt.Errorf("%w: %w", ErrLost, fact.error), true)
		return over
	}
	return failed
}

// jitter spreads d by a tenth, so that the renewals of many leases do not march in step.
func jitter(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5) }
