package lockserver

import (
	"net/http"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/wire"

	"github.com/go-chi/chi/v5"
)

// openSession is L1.
func (s *Server) openSession(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		OwnerID   *string `json:"ownerId"`
		TTLMillis *int64  `json:"ttlMillis"`
	}
	if err := wire.Decode(w, r, &in); err != nil {
		return err
	}
	ownerID, err := required("ownerId", in.OwnerID, 1, lock.MaxOwnerBytes)
	ttl, err2 := millis("ttlMillis", in.TTLMillis, lock.MinTTL, lock.MaxTTL, s.sessionTTL)
	if err := first(err, err2); err != nil {
		return err
	}
	x, err := s.store.OpenSession(r.Context(), ownerID, ttl)
	if err != nil {
		return err
	}
	wire.Reply(w, http.StatusCreated, struct {
		SessionID string    `json:"sessionId"`
		TTLMillis int64     `json:"ttlMillis"`
		ExpiresAt time.Time `json:"expiresAt"`
	}{x.ID, x.TTL.Milliseconds(), x.ExpiresAt.UTC()})
	return nil
}

// heartbeat is L2.
func (s *Server) heartbeat(w http.ResponseWriter, r *http.Request) error {
	if err := wire.Decode(w, r, &struct{}{}); err != nil {
		return err
	}
	b, err := s.store.Heartbeat(r.Context(), chi.URLParam(r, "id"))
	if err != nil {
		return err
	}
	wire.Reply(w, http.StatusOK, struct {
		ExpiresAt     time.Time `json:"expiresAt"`
		ServerTime    time.Time `json:"serverTime"`
		HeldLockCount int       `json:"heldLockCount"`
	}{b.ExpiresAt.UTC(), b.Now.UTC(), b.Held})
	return nil
}

// closeSession is L3.
func (s *Server) closeSession(w http.ResponseWriter, r *http.Request) error {
	if err := wire.Decode(w, r, &struct{}{}); err != nil {
		return err
	}
	if err := s.store.CloseSession(r.Context(), chi.URLParam(r, "id")); err != nil {
		return err
	}
	wire.Reply(w, http.StatusNoContent, nil)
	return nil
}
