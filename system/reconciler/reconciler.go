// Package reconciler ends what nobody knows the end of: a payout in RAIL_AMBIGUOUS. It looks the payout up at the rail,
// and where that is evidence it takes the account's lock and resolves the payout with it (P8). An executor posts what the
// rail has moved. The reconciler never submits anything, and repairs nothing silently: what does not fit is an ERROR.
//
// That a transfer is absent is evidence only after the settlement window: nothing of the payout may still be on its way
// to the rail. This is the one assumption about time that fencing cannot remove.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"fenceproof/system/lock/lockclient"
	"fenceproof/system/payment/machine"
	"fenceproof/system/payment/paymentclient"
	"fenceproof/system/wire"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// Options are what a Reconciler is made of.
type Options struct {
	OwnerID            string // as the lock client's
	Locks              *lockclient.Client
	LeaseTTL           time.Duration // of a grant; also how long a grant is waited for
	PaymentResourceURL string
	RailURL            string
	Interval           time.Duration // pause between two rounds
	Window             time.Duration // settlement window
	StepTimeout        time.Duration // of a call, from its send
	Log                *slog.Logger
	Registerer         prometheus.Registerer
}

// Reconciler looks for ambiguous payouts and resolves them.
type Reconciler struct {
	options  Options
	payments *paymentclient.Client
	rail     rail
	seen     sightings // the round's own
	log      *slog.Logger
	metrics  *metrics

	mu     sync.Mutex
	failed error // of the last round
}

// accountsAtOnce is how many accounts a round works on at the same time, so that one whose lock is held long does not
// hold the others up.
const accountsAtOnce = 4

// New makes a reconciler; Run does the work.
func New(o Options) *Reconciler {
	return &Reconciler{
		options:  o,
		payments: paymentclient.New(o.PaymentResourceURL, accountsAtOnce, o.StepTimeout),
		rail:     rail{wire.NewClient(o.RailURL, accountsAtOnce), o.StepTimeout},
		seen:     sightings{},
		log:      o.Log.With("ownerId", o.OwnerID),
		metrics:  newMetrics(o.Registerer),
	}
}

// Ready tells whether payment-resource and the rail answered in the last round.
func (r *Reconciler) Ready(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// Run works until ctx ends. It then begins nothing more, lets the resolutions in flight finish, and gives the grants
// back.
func (r *Reconciler) Run(ctx context.Context) error {
	defer r.payments.Close()
	defer r.rail.Close()
	for ctx.Err() == nil {
		err := r.round(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("the round is not complete", "event", "round_failed", "error", err)
		}
		r.mu.Lock()
		r.failed = err
		r.mu.Unlock()
		rest(ctx, r.options.Interval)
	}
	return ctx.Err()
}

func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// round looks at every ambiguous payout once. The error is that of a server that did not answer.
func (r *Reconciler) round(ctx context.Context) error {
	all, err := r.list(ctx)
	if err != nil {
		return err
	}
	for _, p := range r.seen.see(all, time.Now()) {
		r.log.Info("an ambiguous payout was seen first", "event", "ambiguous_seen", "payoutId", p.PayoutID, "accountId", p.AccountID)
	}
	r.metrics.ambiguous.Set(float64(len(all)))
	byAccount := map[string][]paymentclient.Payout{}
	for _, p := range all {
		byAccount[p.AccountID] = append(byAccount[p.AccountID], p)
	}
	var g errgroup.Group
	g.SetLimit(accountsAtOnce)
	for _, payouts := range byAccount {
		g.Go(func() error {
			var unanswered error
			for _, p := range payouts {
				if ctx.Err() != nil {
					return nil
				}
				end, err := r.look(ctx, p, r.seen[p.PayoutID])
				r.metrics.looks.WithLabelValues(string(end)).Inc()
				unanswered = errors.Join(unanswered, err)
			}
			return unanswered
		})
	}
	return g.Wait()
}

// Bounds of a list: a server that pages for ever is not believed.
const (
	pageSize = 1000
	maxPages = 1000
)

// list reads all ambiguous payouts, or fails: what a list that is not complete leaves out is not over.
func (r *Reconciler) list(ctx context.Context) ([]paymentclient.Payout, error) {
	var all []paymentclient.Payout
	cursor := ""
	for range maxPages {
		page, err := r.payments.List(ctx, paymentclient.Query{States: []machine.State{machine.RailAmbiguous}, Cursor: cursor, Limit: pageSize})
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if cursor = page.NextCursor; cursor == "" {
			return all, nil
		}
	}
	return nil, fmt.Errorf("list payouts: there are more than %d pages of ambiguous payouts", maxPages)
}
