package lockserver

import (
	"errors"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/wire"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics never bear a key, an id or a token.
type metrics struct {
	acquire      *prometheus.HistogramVec
	expired      prometheus.Counter
	sessionsLost prometheus.Counter
	held         prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, backend string, waiters func() int) *metrics {
	on := prometheus.Labels{"backend": backend}
	m := &metrics{
		acquire: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "lock_acquire_seconds",
			Help: "Time that acquires took, waiting included, by outcome.", ConstLabels: on,
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}}, []string{"outcome"}),
		expired: prometheus.NewCounter(prometheus.CounterOpts{Name: "lock_lease_expired_total",
			Help: "Grants whose lease ran out.", ConstLabels: on}),
		sessionsLost: prometheus.NewCounter(prometheus.CounterOpts{Name: "lock_session_lost_total",
			Help: "Sessions that ended without being closed."}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{Name: "lock_held_current", Help: "Live grants."}),
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "lock_waiters_current",
		Help: "Acquires that wait for a key."}, func() float64 { return float64(waiters()) })
	reg.MustRegister(m.acquire, m.expired, m.sessionsLost, m.held, waiting)
	return m
}

func (m *metrics) acquired(took time.Duration, err error) {
	m.acquire.WithLabelValues(acquireOutcome(err)).Observe(took.Seconds())
}

func acquireOutcome(err error) string {
	var ttl *lock.TTLError
	switch {
	case err == nil:
		return "granted"
	case contended(err):
		return "contended"
	case wire.CodeOf(err) == wire.ContentionExceeded:
		return "contention_exceeded"
	case errors.Is(err, lock.ErrSessionUnknown), errors.Is(err, lock.ErrSessionExpired):
		return "session_dead"
	case errors.Is(err, errGone):
		return "client_gone"
	case errors.As(err, &ttl):
		return "refused"
	}
	return "unavailable"
}
