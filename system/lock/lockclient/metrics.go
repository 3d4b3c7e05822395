package lockclient

import "github.com/prometheus/client_golang/prometheus"

// metrics never bear a key, an id or a token.
type metrics struct {
	sessionsLost prometheus.Counter
	held         prometheus.Gauge
}

// newMetrics registers them where there is somewhere to register.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		sessionsLost: prometheus.NewCounter(prometheus.CounterOpts{Name: "lock_session_lost_total",
			Help: "Sessions that ended without being closed."}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{Name: "lock_held_current", Help: "Leases of this process."}),
	}
	if reg != nil {
		reg.MustRegister(m.sessionsLost, m.held)
	}
	return m
}
