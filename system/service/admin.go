package service

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"fenceproof/system/wire"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Admin is the private listener: /healthz, /readyz, /metrics, and PUT /fencing where the process is a fence point.
type Admin struct {
	// Ready, where not nil, asks the backend; /readyz fails when it does. /healthz never asks it.
	Ready func(ctx context.Context) error
	// Fencing, where not nil, is this process's kill switch.
	Fencing *Fencing
	// Routes, where not nil, adds what only this process has.
	Routes func(chi.Router)
}

const readyTimeout = time.Second

func (a Admin) handler(reg *prometheus.Registry) http.Handler {
	r := chi.NewRouter()
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { wire.Reply(w, 200, map[string]string{"status": "ok"}) })
	r.Get("/readyz", func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), readyTimeout)
		defer cancel()
		if a.Ready != nil {
			if err := a.Ready(ctx); err != nil {
				wire.Reply(w, http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": err.Error()})
				return
			}
		}
		wire.Reply(w, 200, map[string]string{"status": "ready"})
	})
	r.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	if a.Fencing != nil {
		r.Get("/fencing", a.Fencing.get)
		r.Put("/fencing", a.Fencing.put)
	}
	if a.Routes != nil {
		a.Routes(r)
	}
	return r
}

// Fencing is the kill switch of one fence point. Off means that the fence point trusts the lock; it exists only so that
// the corruption can be shown inside a named experiment.
type Fencing struct {
	on  atomic.Bool
	log *slog.Logger
}

// NewFencing makes the switch and logs fencing_disabled (WARN) when it starts off.
func NewFencing(on bool, log *slog.Logger) *Fencing {
	f := &Fencing{log: log}
	f.on.Store(on)
	f.warn()
	return f
}

// Enabled tells whether the fence point refuses stale tokens now. A request reads it once.
func (f *Fencing) Enabled() bool { return f.on.Load() }

func (f *Fencing) warn() {
	if !f.Enabled() {
		f.log.Warn("fencing is off: stale tokens are not refused here", "event", "fencing_disabled")
	}
}

type fencingState struct {
	Enabled *bool `json:"enabled"`
}

func (f *Fencing) get(w http.ResponseWriter, _ *http.Request) {
	on := f.Enabled()
	wire.Reply(w, http.StatusOK, fencingState{&on})
}

func (f *Fencing) put(w http.ResponseWriter, r *http.Request) {
	var in fencingState
	if err := wire.Decode(w, r, &in); err != nil {
		wire.Fail(w, err)
		return
	}
	if in.Enabled == nil {
		wire.Fail(w, wire.NewError(wire.InvalidRequest, `field "enabled" is missing: true or false`))
		return
	}
	f.on.Store(*in.Enabled)
	f.warn()
	f.get(w, r)
}
