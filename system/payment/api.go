package payment

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"fenceproof/system/payment/machine"
	"fenceproof/system/service"
	"fenceproof/system/wire"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// API is the HTTP side of payment-resource: P1 to P8 of the contract.
type API struct {
	store    *Store
	fencing  *service.Fencing
	log      *slog.Logger
	fenceOut *prometheus.CounterVec
}

// NewAPI makes the API over store and registers its metrics with reg. fencing is read once per request.
func NewAPI(store *Store, fencing *service.Fencing, log *slog.Logger, reg prometheus.Registerer) *API {
	a := &API{store: store, fencing: fencing, log: log, fenceOut: newFencedOut()}
	reg.MustRegister(a.fenceOut, backlogAge{store})
	return a
}

// Handler is the public API.
func (a *API) Handler() http.Handler {
	r := chi.NewRouter()
	r.NotFound(wire.NoRoute)
	r.MethodNotAllowed(wire.NoMethod)
	r.Get("/v1/payouts", a.read(a.listPayouts))
	r.Get("/v1/payouts/{id}", a.read(a.getPayout))
	r.Get("/v1/accounts/{id}", a.read(a.getAccount))
	r.Post("/v1/payouts/{id}/claim", a.write(decodeClaim))
	r.Post("/v1/payouts/{id}/submitted", a.write(decodeSubmitted))
	r.Post("/v1/payouts/{id}/outcome", a.write(decodeOutcome))
	r.Post("/v1/payouts/{id}/post", a.write(decodePost))
	r.Post("/v1/payouts/{id}/resolve", a.write(decodeResolve))
	return r
}

// read serves a query: the client may go away and take it along.
func (a *API) read(query func(ctx context.Context, r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
		defer cancel()
		v, err := query(ctx, r)
		if err != nil {
			a.fail(w, r, command{}, err)
			return
		}
		wire.Reply(w, http.StatusOK, v)
	}
}

// write serves a command. It is finished even when its client goes away: a request that was sent cannot be called back.
func (a *API) write(decode func(http.ResponseWriter, *http.Request, *command) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		fencing := a.fencing.Enabled()
		c, err := readCommand(w, r, decode)
		if err != nil {
			a.fail(w, r, c, err)
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), storeTimeout)
		defer cancel()
		e, err := a.store.apply(ctx, c, fencing)
		if err != nil {
			a.fail(w, r, c, err)
			return
		}
		a.tell(c, e)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(e.status)
		_, _ = w.Write([]byte(e.body)) // the client is gone: the stored response waits for it
	}
}

// newFencedOut makes lock_fenced_out_total with the resources that this process fences.
func newFencedOut() *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lock_fenced_out_total", Help: "Writes refused because their token was at or below the fence.",
	}, []string{"resource"})
	for _, resource := range []string{"account", "ledger"} {
		v.WithLabelValues(resource)
	}
	return v
}

// backlogAge is the gauge payout_backlog_age_seconds, asked of paydb when it is scraped. Where paydb does not answer in
// time the scrape has no sample.
type backlogAge struct{ store *Store }

var backlogAgeDesc = prometheus.NewDesc("payout_backlog_age_seconds", "Age of the oldest PENDING payout, 0 when there is none.", nil, nil)

const scrapeTimeout = time.Second

func (backlogAge) Describe(ch chan<- *prometheus.Desc) { ch <- backlogAgeDesc }

func (b backlogAge) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var age float64
	if err := b.store.pool.QueryRow(ctx, sqlBacklogAgeSeconds).Scan(&age); err != nil {
		return
	}
	ch <- prometheus.MustNewConstMetric(backlogAgeDesc, prometheus.GaugeValue, max(age, 0))
}

// tell logs what a command did. A replay did nothing.
func (a *API) tell(c command, e effect) {
	if e.replay {
		return
	}
	log := a.log.With("payoutId", c.payoutID, "accountId", e.accountID, "ownerId", c.owner, "fencingToken", c.Token,
		"from", e.from, "to", e.to)
	switch {
	case e.reason == machine.NoFunds:
		log.Warn("claim failed the payout: no funds", "event", "payout_failed", "amountMinor", e.amount)
	case c.Operation == machine.Claim:
		log.Info("payout claimed", "event", "payout_claimed", "attemptCount", e.attempts, "accountFence", e.fence)
	case c.Operation == machine.Post:
		log.Info("payout posted", "event", "payout_posted", "amountMinor", e.amount, "currency", e.currency,
			"balanceMinor", e.balance, "railReference", c.railReference, "submissionId", c.submissionID)
	case e.to == machine.RailAmbiguous:
		log.Warn("nobody knows whether the rail moved the money", "event", "rail_ambiguous", "submissionId", c.submissionID, "reason", c.reason)
	default:
		log.Info("payout moved", "event", "payout_moved", "operation", c.Operation)
	}
}
