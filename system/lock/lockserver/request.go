package lockserver

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"fenceproof/system/lock"
	"fenceproof/system/wire"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
)

// serve answers with what handle wrote, or with the envelope of its error.
func (s *Server) serve(handle func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := handle(w, r)
		if err == nil {
			return
		}
		e := envelope(err)
		e.TraceID = uuid.NewString()
		if e.Status >= http.StatusInternalServerError {
			s.events.failed(r, e, err)
		}
		wire.Fail(w, e)
	}
}

// finish serves a request that is carried out to its end although its client goes away: what was sent cannot be called
// back, and what it has done is told in the log.
func (s *Server) finish(handle func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return s.serve(func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), backendLimit)
		defer cancel()
		return handle(w, r.WithContext(ctx))
	})
}

// lockKey reads the key in the path, percent-decoded: 1 to 512 bytes of UTF-8 without control characters.
func lockKey(r *http.Request) (string, error) {
	key, err := url.PathUnescape(chi.URLParam(r, "key"))
	if err != nil {
		return "", wire.NewError(wire.InvalidRequest, "the lock key in the path is not percent-encoded properly: %v", err)
	}
	return key, text("the lock key", key, 1, lock.MaxKeyBytes)
}

func owner(r *http.Request) (string, error) {
	o, err := wire.Header(r, wire.HeaderOwner, lock.MaxOwnerBytes)
	if err != nil {
		return "", err
	}
	return o, text("header "+wire.HeaderOwner, o, 1, lock.MaxOwnerBytes)
}

// text checks a name that people read and databases store.
func text(what, s string, least, most int) error {
	switch {
	case len(s) < least || utf8.RuneCountInString(s) < least:
		return wire.NewError(wire.InvalidRequest, "%s has %d characters and needs at least %d", what, utf8.RuneCountInString(s), least)
	case len(s) > most:
		return wire.NewError(wire.InvalidRequest, "%s has %d bytes and may have %d", what, len(s), most)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return wire.NewError(wire.InvalidRequest, "%s must be UTF-8 without control characters", what)
	}
	return nil
}

// required checks a text field of the body. Blanks around it say nothing and do not count.
func required(name string, s *string, least, most int) (string, error) {
	if s == nil {
		return "", wire.NewError(wire.InvalidRequest, "field %q is missing", name)
	}
	return *s, first(text("field "+name, strings.TrimSpace(*s), least, most), text("field "+name, *s, least, most))
}

// sessionID checks the body's session id. Ids are UUIDs in their canonical form.
func sessionID(s *string) (string, error) {
	if s == nil {
		return "", wire.NewError(wire.InvalidRequest, `field "sessionId" is missing`)
	}
	if !wire.IsID(*s) {
		return "", wire.NewError(wire.InvalidRequest, `field "sessionId" is no UUID in lower-case canonical form`)
	}
	return *s, nil
}

// millis reads a duration field; a field that is not there is instead.
func millis(name string, ms *int64, least, most, instead time.Duration) (time.Duration, error) {
	if ms == nil {
		return instead, nil
	}
	if *ms < least.Milliseconds() || *ms > most.Milliseconds() {
		return 0, wire.NewError(wire.InvalidRequest, "field %q is %d and must be from %d to %d", name, *ms, least.Milliseconds(), most.Milliseconds())
	}
	return time.Duration(*ms) * time.Millisecond, nil
}

// first is the first of errs that is one: requests are judged in the order in which their parts are listed.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// retryAfter is when a backend that did not answer may be asked again.
const retryAfter = 200 * time.Millisecond

// envelope says err in the words of the contract. A backend that did not answer is NOT_LEADER, never LOCK_LOST.
func envelope(err error) *wire.Error {
	var known *wire.Error
	var contended *lock.ContendedError
	var lost *lock.LostError
	var other *lock.TokenMismatchError
	var ttl *lock.TTLError
	switch {
	case errors.As(err, &known):
		e := *known
		return &e
	case errors.As(err, &contended):
		return wire.NewError(wire.LockContended, "%v", contended).With(contendedDetails(contended))
	case errors.As(err, &lost):
		return wire.NewError(wire.LockLost, "%v", lost).With(lostDetails{lost.StoredToken})
	case errors.As(err, &other):
		return wire.NewError(wire.FencedOut, "%v", other)
	case errors.Is(err, lock.ErrSessionUnknown):
		return wire.NewError(wire.SessionUnknown, "the session is unknown: open a new one")
	case errors.Is(err, lock.ErrSessionExpired):
		return wire.NewError(wire.SessionExpired, "the session has expired, and its grants with it: open a new one")
	case errors.Is(err, lock.ErrNotHeld):
		return wire.NewError(wire.NotFound, "nobody holds the lock")
	case errors.As(err, &ttl):
		return wire.NewError(wire.InvalidRequest, `field "ttlMillis": %d is no lease that the backend grants; give a multiple of %d, at least %d`,
			ttl.Asked.Milliseconds(), ttl.Step.Milliseconds(), ttl.Minimum.Milliseconds())
	case errors.Is(err, lock.ErrTTLMismatch):
		return wire.NewError(wire.InvalidRequest, `field "ttlMillis" is not the grant's: a renewal keeps the TTL`)
	case errors.Is(err, lock.ErrUnavailable):
		return wire.NewError(wire.NotLeader, "the lock backend did not answer; whether anything happened is not known").After(retryAfter)
	}
	return &wire.Error{Code: "INTERNAL", Status: http.StatusInternalServerError, Message: "internal error; the log has it under the trace id"}
}

type holderDetails struct {
	Holder    string     `json:"holder,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

func contendedDetails(c *lock.ContendedError) any {
	if c.Holder == "" {
		return nil // granted to somebody and over again since
	}
	at := c.ExpiresAt.UTC()
	return holderDetails{c.Holder, &at}
}

type lostDetails struct {
	StoredToken int64 `json:"storedToken,omitempty"` // absent: the key is free
}
