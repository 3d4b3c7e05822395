// Package lockserver is the lock service over HTTP: L1 to L8 of the contract on any lock.Store, the queue of those who
// wait for a key, and the reaper. It knows nothing of what its locks protect.
package lockserver

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/wire"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// Options say what a Server is made of.
type Options struct {
	Store      lock.Store
	Backend    string        // the store's name in metrics
	DefaultTTL time.Duration // lease of an acquire that names none
	SessionTTL time.Duration // lease of a session that names none
	MaxWaiters int           // waiters that a key may have in this process
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Server serves the lock contract.
type Server struct {
	store      lock.Store
	defaultTTL time.Duration
	sessionTTL time.Duration
	waiting    *queues
	events     events
	metrics    *metrics
	stopping   chan struct{} // closed when Run ends: nobody waits any more
	stop       sync.Once
}

// New makes a Server; Handler serves it and Run does its work in the background.
func New(o Options) *Server {
	s := &Server{store: o.Store, defaultTTL: o.DefaultTTL, sessionTTL: o.SessionTTL, stopping: make(chan struct{}),
		waiting: newQueues(o.MaxWaiters), events: events{o.Log}}
	s.metrics = newMetrics(o.Registerer, o.Backend, s.waiting.total)
	return s
}

// Handler serves L1 to L8.
func (s *Server) Handler() http.Handler {
	r := chi.NewRouter()
	r.Use(matchEscaped)
	r.Post("/v1/sessions", s.finish(s.openSession))
	r.Post("/v1/sessions/{id}/heartbeat", s.finish(s.heartbeat))
	r.Delete("/v1/sessions/{id}", s.finish(s.closeSession))
	r.Post("/v1/locks/{key}/acquire", s.serve(s.acquire))
	r.Post("/v1/locks/{key}/renew", s.finish(s.renew))
	r.Delete("/v1/locks/{key}", s.finish(s.release))
	r.Get("/v1/locks/{key}", s.serve(s.inspect))
	r.Post("/v1/locks/{key}/revoke", s.finish(s.revoke))
	r.NotFound(wire.NoRoute)
	r.MethodNotAllowed(wire.NoMethod)
	return r
}

// matchEscaped has the path matched as it was sent, so that an encoded "/" is part of a key.
func matchEscaped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chi.RouteContext(r.Context()).RoutePath = r.URL.EscapedPath()
		next.ServeHTTP(w, r)
	})
}

// The reaper's rhythm. passes bounds how often in a row one tick reaps when there is more.
const (
	reapInterval  = 150 * time.Millisecond
	reapPasses    = 10
	countInterval = time.Second
)

// Run reaps and counts until ctx ends. After it nobody waits for a key any more.
func (s *Server) Run(ctx context.Context) error {
	defer s.stop.Do(func() { close(s.stopping) })
	reap, count := time.NewTicker(reapInterval), time.NewTicker(countInterval)
	defer reap.Stop()
	defer count.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reap.C:
			failing = s.events.reaped(s.reap(ctx), failing)
		case <-count.C:
			if n, err := s.store.Held(ctx); err == nil {
				s.metrics.held.Set(float64(n))
			}
		}
	}
}

// reap ends what has expired. After an error the next tick tries again.
func (s *Server) reap(ctx context.Context) error {
	for range reapPasses {
		r, err := s.store.Reap(ctx)
		for _, x := range r.Sessions {
			s.metrics.sessionsLost.Inc()
			s.events.sessionLost(x)
		}
		for _, g := range r.Grants {
			s.lapsed(g)
		}
		if err != nil || !r.More {
			return err
		}
	}
	return nil
}

func (s *Server) lapsed(g lock.Grant) {
	s.metrics.expired.Inc()
	s.events.leaseExpired(g)
}
