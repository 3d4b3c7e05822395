package lockserver

import (
	"errors"
	"net/http"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/wire"
)

// grant is a grant on the wire.
type grant struct {
	Key          string    `json:"key"`
	OwnerID      string    `json:"ownerId"`
	SessionID    string    `json:"sessionId"`
	FencingToken int64     `json:"fencingToken"`
	AcquiredAt   time.Time `json:"acquiredAt"`
	ExpiresAt    time.Time `json:"expiresAt"`
}

func onWire(g lock.Grant) grant {
	return grant{g.Key, g.OwnerID, g.SessionID, g.FencingToken, g.AcquiredAt.UTC(), g.ExpiresAt.UTC()}
}

// renew is L5. Key and token decide; the session only tells a dead client why (410).
func (s *Server) renew(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		SessionID *string `json:"sessionId"`
		TTLMillis *int64  `json:"ttlMillis"`
	}
	key, err1 := lockKey(r)
	_, err2 := owner(r)
	token, err3 := wire.Token(r)
	if err := first(err1, err2, err3, wire.Decode(w, r, &in)); err != nil {
		return err
	}
	session, err1 := sessionID(in.SessionID)
	ttl, err2 := millis("ttlMillis", in.TTLMillis, lock.MinTTL, lock.MaxTTL, 0)
	if err := first(err1, err2); err != nil {
		return err
	}
	g, err := s.store.Renew(r.Context(), key, token, ttl)
	var lost *lock.LostError
	if errors.As(err, &lost) {
		if live, unknown := s.store.SessionLive(r.Context(), session); unknown == nil && !live {
			return lock.ErrSessionExpired
		}
	}
	if err != nil {
		return err
	}
	wire.Reply(w, http.StatusOK, onWire(g))
	return nil
}

// release is L6.
func (s *Server) release(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		SessionID *string `json:"sessionId"`
	}
	key, err1 := lockKey(r)
	ownerID, err2 := owner(r)
	token, err3 := wire.Token(r)
	if err := first(err1, err2, err3, wire.Decode(w, r, &in)); err != nil {
		return err
	}
	if _, err := sessionID(in.SessionID); err != nil {
		return err
	}
	err := s.store.Release(r.Context(), key, token)
	var lost *lock.LostError
	if err == nil || errors.As(err, &lost) {
		s.events.lockReleased(key, ownerID, token, err != nil)
	}
	if err != nil {
		return err
	}
	wire.Reply(w, http.StatusNoContent, nil)
	return nil
}

// inspect is L7. The waiters counted are this process's.
func (s *Server) inspect(w http.ResponseWriter, r *http.Request) error {
	key, err := lockKey(r)
	if err != nil {
		return err
	}
	i, err := s.store.Inspect(r.Context(), key)
	if err != nil {
		return err
	}
	out := struct {
		Held         bool       `json:"held"`
		OwnerID      string     `json:"ownerId,omitempty"`
		FencingToken int64      `json:"fencingToken,omitempty"`
		AcquiredAt   *time.Time `json:"acquiredAt,omitempty"`
		ExpiresAt    *time.Time `json:"expiresAt,omitempty"`
		WaiterCount  int        `json:"waiterCount"`
	}{Held: i.Held, WaiterCount: s.waiting.count(key)}
	if i.Held {
		from, to := i.Grant.AcquiredAt.UTC(), i.Grant.ExpiresAt.UTC()
		out.OwnerID, out.FencingToken, out.AcquiredAt, out.ExpiresAt = i.Grant.OwnerID, i.Grant.FencingToken, &from, &to
	}
	wire.Reply(w, http.StatusOK, out)
	return nil
}

// revoke is L8. It frees the key and raises the floor of later tokens; it does not fence the resource.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Operator      *string `json:"operator"`
		Reason        *string `json:"reason"`
		ExpectedToken *int64  `json:"expectedToken"`
	}
	key, err := lockKey(r)
	if err := first(err, wire.Decode(w, r, &in)); err != nil {
		return err
	}
	operator, err1 := required("operator", in.Operator, 1, wire.MaxOperatorBytes)
	reason, err2 := required("reason", in.Reason, wire.MinReasonCharacters, wire.MaxReasonBytes)
	if err := first(err1, err2); err != nil {
		return err
	}
	expected := int64(0)
	if in.ExpectedToken != nil {
		if expected = *in.ExpectedToken; expected <= 0 {
			return wire.NewError(wire.InvalidRequest, `field "expectedToken" is %d and must be above 0`, expected)
		}
	}
	x, err := s.store.Revoke(r.Context(), key, operator, reason, expected)
	var other *lock.TokenMismatchError
	if errors.As(err, &other) {
		return wire.NewError(wire.FencedOut, "the lock carries token %d, not %d: nothing was revoked", other.StoredToken, expected).
			With(wire.Fenced{PresentedToken: expected, HighestToken: other.StoredToken, ResourceType: "lock", ResourceID: key, OwnerID: operator})
	}
	if err != nil {
		return err
	}
	s.events.lockRevoked(key, operator, reason, x)
	wire.Reply(w, http.StatusOK, struct {
		RevokedToken  int64  `json:"revokedToken"`
		NewTokenFloor int64  `json:"newTokenFloor"`
		RevocationID  string `json:"revocationId"`
	}{x.RevokedToken, x.NewTokenFloor, x.ID})
	return nil
}
