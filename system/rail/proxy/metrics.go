package proxy

import "github.com/prometheus/client_golang/prometheus"

// metrics count what the fence point did. No label holds an id or a token.
type metrics struct {
	submissions *prometheus.CounterVec
	fencedOut   *prometheus.CounterVec
	duplicates  prometheus.Counter
}

// The outcomes of an answered submission, besides those of its row.
const (
	outcomeFenced      = "FENCED"
	outcomeDuplicate   = "DUPLICATE"
	outcomeUnavailable = "UNAVAILABLE"
)

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		submissions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rail_submission_total",
			Help: "Submissions answered, by what became of them."}, []string{"outcome"}),
		fencedOut: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lock_fenced_out_total",
			Help: "Writes refused because their fencing token was stale."}, []string{"resource"}),
		duplicates: prometheus.NewCounter(prometheus.CounterOpts{Name: "rail_duplicate_attempted_total",
			Help: "Submissions refused because the payout or a newer token had been here before."}),
	}
	reg.MustRegister(m.submissions, m.fencedOut, m.duplicates)
	for _, o := range []string{string(acked), string(rejected), string(timeout), outcomeFenced, outcomeDuplicate, outcomeUnavailable} {
		m.submissions.WithLabelValues(o) // present at zero from the start
	}
	m.fencedOut.WithLabelValues(resource)
	return m
}
