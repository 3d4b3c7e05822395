package reconciler

import "github.com/prometheus/client_golang/prometheus"

// result is how a look at one ambiguous payout ended. It is the label of payout_reconcile_total.
type result string

const (
	resultAcked     result = "acked"     // the transfer is there; an executor posts it now
	resultAbsent    result = "absent"    // there is none and none can come
	resultWaiting   result = "waiting"   // there is none yet, and the window is not over
	resultDisputed  result = "disputed"  // transfers of other amounts: a person has to look
	resultFenced    result = "fenced"    // a newer holder has written; a later round
	resultRefused   result = "refused"   // another definite answer stood in the way
	resultContended result = "contended" // another holder has the account, or nobody gave the lock
	resultUnknown   result = "unknown"   // a call got no answer
	resultStopped   result = "stopped"   // too little was left of the lease, or the process ends
)

var results = []result{resultAcked, resultAbsent, resultWaiting, resultDisputed, resultFenced, resultRefused, resultContended,
	resultUnknown, resultStopped}

// metrics hold no id and no token in any label.
type metrics struct {
	looks     *prometheus.CounterVec
	ambiguous prometheus.Gauge
	alarms    prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		looks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "payout_reconcile_total",
			Help: "Looks at an ambiguous payout, by how they ended."}, []string{"outcome"}),
		ambiguous: prometheus.NewGauge(prometheus.GaugeOpts{Name: "payout_ambiguous_current",
			Help: "Payouts that were ambiguous at the last round."}),
		alarms: prometheus.NewCounter(prometheus.CounterOpts{Name: "payout_transfer_mismatch_total",
			Help: "Alarms that the rail shows other transfers than the one that is due."}),
	}
	reg.MustRegister(m.looks, m.ambiguous, m.alarms)
	for _, r := range results {
		m.looks.WithLabelValues(string(r)) // present at zero from the start
	}
	return m
}
