package lockserver

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/wire"

	"github.com/go-chi/chi/v5"
)

// defaultListed is how many a page lists that names no limit.
const defaultListed = 100

// Routes are the operator's questions, for the private listener: GET /locks and GET /sessions. They are no part of the
// lock contract, and an answer is a page: nextAfter, where there is one, is the next page's "after".
func (s *Server) Routes(r chi.Router) {
	r.Get("/locks", s.serve(s.listLocks))
	r.Get("/sessions", s.serve(s.listSessions))
}

// listLocks answers the live grants: ?owner=&prefix=&after=&limit=.
func (s *Server) listLocks(w http.ResponseWriter, r *http.Request) error {
	all, q, err := s.listing(r, "owner", "prefix", "after", "limit")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), backendLimit)
	defer cancel()
	p, err := all.ListGrants(ctx, q)
	if err != nil {
		return err
	}
	items := make([]listedGrant, len(p.Grants))
	for i, g := range p.Grants {
		items[i] = listedGrant{onWire(g), g.TTL.Milliseconds()}
	}
	wire.Reply(w, http.StatusOK, struct {
		Locks     []listedGrant `json:"locks"`
		NextAfter string        `json:"nextAfter,omitempty"`
	}{items, p.After})
	return nil
}

type listedGrant struct {
	grant
	TTLMillis int64 `json:"ttlMillis"`
}

// listSessions answers the live sessions: ?owner=&after=&limit=.
func (s *Server) listSessions(w http.ResponseWriter, r *http.Request) error {
	all, q, err := s.listing(r, "owner", "after", "limit")
	if err != nil {
		return err
	}
	if q.After != "" && !wire.IsID(q.After) {
		return wire.NewError(wire.InvalidRequest, `query parameter "after" is no UUID in lower-case canonical form`)
	}
	ctx, cancel := context.WithTimeout(r.Context(), backendLimit)
	defer cancel()
	p, err := all.ListSessions(ctx, q)
	if err != nil {
		return err
	}
	type session struct {
		SessionID string    `json:"sessionId"`
		OwnerID   string    `json:"ownerId"`
		TTLMillis int64     `json:"ttlMillis"`
		ExpiresAt time.Time `json:"expiresAt"`
		HeldLocks int       `json:"heldLockCount"`
	}
	items := make([]session, len(p.Sessions))
	for i, x := range p.Sessions {
		items[i] = session{x.ID, x.OwnerID, x.TTL.Milliseconds(), x.ExpiresAt.UTC(), x.Held}
	}
	wire.Reply(w, http.StatusOK, struct {
		Sessions  []session `json:"sessions"`
		NextAfter string    `json:"nextAfter,omitempty"`
	}{items, p.After})
	return nil
}

// listing reads what to list, of a store that can.
func (s *Server) listing(r *http.Request, known ...string) (lock.Lister, lock.ListQuery, error) {
	q := lock.ListQuery{Limit: defaultListed}
	all, ok := s.store.(lock.Lister)
	if !ok {
		return nil, q, wire.NewError(wire.NotFound, "this lock backend cannot list what it holds")
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, q, wire.NewError(wire.InvalidRequest, "the query is not well formed")
	}
	for name := range values {
		if err := set(&q, name, values[name], known); err != nil {
			return nil, q, err
		}
	}
	return all, q, nil
}

// set reads one query parameter; an empty one says nothing.
func set(q *lock.ListQuery, name string, values, known []string) (err error) {
	v := values[0]
	switch {
	case !slices.Contains(known, name):
		return wire.NewError(wire.InvalidRequest, "query parameter %q is not known here", name)
	case len(values) != 1:
		return wire.NewError(wire.InvalidRequest, "query parameter %q is given %d times", name, len(values))
	case v == "":
		return nil
	}
	switch name {
	case "owner":
		q.OwnerID = v
		return text("query parameter owner", v, 1, lock.MaxOwnerBytes)
	case "prefix":
		q.KeyPrefix = v
		return text("query parameter prefix", v, 1, lock.MaxKeyBytes)
	case "after":
		q.After = v
		return text("query parameter after", v, 1, lock.MaxKeyBytes)
	}
	q.Limit, err = strconv.Atoi(v)
	if err != nil || q.Limit < 1 || q.Limit > lock.MaxListed {
		return wire.NewError(wire.InvalidRequest, "query parameter \"limit\" is %q and must be from 1 to %d", v, lock.MaxListed)
	}
	return nil
}
