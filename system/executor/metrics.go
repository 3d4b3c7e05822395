package executor

import "github.com/prometheus/client_golang/prometheus"

// newExecuteSeconds is payout_execute_seconds. No label holds an id or a token.
func newExecuteSeconds(reg prometheus.Registerer) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "payout_execute_seconds",
		Help: "Time from a grant to the end of the work on its payout.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 12)}, []string{"outcome"})
	reg.MustRegister(v)
	for _, r := range results {
		v.WithLabelValues(string(r)) // present at zero from the start
	}
	return v
}
