// Package proxy is fence point 2: it refuses a stale token before the payment rail, which cannot refuse anything, is
// called. The highest token per account is persisted in paydb, so that a restart forgets nothing.
package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"fenceproof/system/service"
	"fenceproof/system/wire"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// resource is the fence point's name in FENCED_OUT, logs and metrics.
const resource = "rail"

// recordTimeout bounds the tries to commit an outcome. It runs after the submission's own time: what is known about
// money is worth more than the answer to a caller that has given up.
const recordTimeout = 5 * time.Second

// Options are what a Proxy is made of.
type Options struct {
	Store      *Store
	RailURL    string        // of rail-stub, without a path
	Timeout    time.Duration // from a request's arrival; covers commit and forwarding
	Fencing    *service.Fencing
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Proxy serves R1.
type Proxy struct {
	store   *Store
	rail    *rail
	timeout time.Duration
	fencing *service.Fencing
	log     *slog.Logger
	metrics *metrics

	recordTimeout time.Duration
	working       sync.WaitGroup
}

// New makes a proxy; Close releases it and its store.
func New(o Options) *Proxy {
	return &Proxy{store: o.Store, rail: newRail(o.RailURL), timeout: o.Timeout, fencing: o.Fencing, log: o.Log,
		metrics: newMetrics(o.Registerer), recordTimeout: recordTimeout}
}

// Close waits for the submissions at work, which their own time bounds, and closes the connections.
func (p *Proxy) Close() {
	p.working.Wait()
	p.rail.close()
	p.store.Close()
}

// Handler is the proxy's HTTP API: POST /v1/rail/submissions (R1).
func (p *Proxy) Handler() http.Handler {
	mux := chi.NewRouter()
	mux.NotFound(wire.NoRoute)
	mux.MethodNotAllowed(wire.NoMethod)
	mux.Post("/v1/rail/submissions", p.submit)
	return mux
}

// accepted is the answer to an acknowledged submission.
type accepted struct {
	SubmissionID  string  `json:"submissionId"`
	Outcome       outcome `json:"outcome"`
	RailReference string  `json:"railReference"`
}

// submit is R1. The work does not end with the caller's patience: from the arrival on, its own time bounds it.
func (p *Proxy) submit(w http.ResponseWriter, r *http.Request) {
	p.working.Add(1)
	defer p.working.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), p.timeout)
	defer cancel()
	in, err := p.read(w, r)
	if err != nil {
		wire.Fail(w, err)
		return
	}
	answer, err := p.execute(ctx, in)
	if err != nil {
		wire.Fail(w, err)
		return
	}
	wire.Reply(w, http.StatusOK, answer)
}

// read takes the request apart within the submission's time, however slowly the body comes.
func (p *Proxy) read(w http.ResponseWriter, r *http.Request) (request, error) {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(p.timeout)) // a connection that has no deadlines is bounded by intend
	defer func() { _ = conn.SetReadDeadline(time.Time{}) }()
	return read(w, r)
}

// execute judges and records the submission, then forwards it once, then records what became of it.
func (p *Proxy) execute(ctx context.Context, r request) (*accepted, error) {
	in, err := p.store.intend(ctx, r, p.fencing.Enabled())
	var refusal *wire.Error
	switch {
	case errors.As(err, &refusal):
		return nil, refusal
	case errors.Is(err, errCommitUnknown):
		return nil, p.ambiguous(r, in.id, "the commit of the attempt got no answer, so nothing was forwarded", err)
	case err != nil:
		p.metrics.submissions.WithLabelValues(outcomeUnavailable).Inc()
		p.log.Error("the attempt could not be recorded", "event", "rail_unavailable", "payoutId", r.PayoutID, "error", err)
		return nil, wire.NewError(wire.RailUnavailable, "the attempt could not be recorded, and nothing was")
	}
	switch in.ruling {
	case fenced:
		return nil, p.refuseStale(r, in)
	case duplicate:
		return nil, p.refuseDuplicate(r, in)
	}
	return p.forward(ctx, r, in)
}

// forward sends the recorded attempt and commits its outcome before it answers.
func (p *Proxy) forward(ctx context.Context, r request, in intent) (*accepted, error) {
	result, reference, why := p.rail.forward(ctx, transfer{ClientRef: r.PayoutID, AmountMinor: r.AmountMinor, Currency: r.Currency})
	if in.own {
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.recordTimeout)
		defer cancel()
		if err := p.store.record(c, in.id, result, reference); err != nil {
			return nil, p.ambiguous(r, in.id, "the outcome could not be recorded", errors.Join(err, why))
		}
	}
	switch result {
	case acked:
		p.metrics.submissions.WithLabelValues(string(acked)).Inc()
		p.log.Info("submission acknowledged", "event", "rail_submitted", "outcome", result, "submissionId", in.id,
			"payoutId", r.PayoutID, "accountId", r.AccountID, "fencingToken", r.token, "ownerId", r.owner, "railReference", reference)
		return &accepted{in.id, acked, reference}, nil
	case rejected:
		p.metrics.submissions.WithLabelValues(string(rejected)).Inc()
		p.log.Info("submission declined by the rail", "event", "rail_submitted", "outcome", result, "submissionId", in.id,
			"payoutId", r.PayoutID, "accountId", r.AccountID, "fencingToken", r.token, "ownerId", r.owner)
		return nil, wire.NewError(wire.Rejected, "the rail declined the transfer; no money has moved").With(submissionRef{in.id})
	}
	return nil, p.ambiguous(r, in.id, "whether the rail has moved the money is not known", why)
}

// submissionRef is the details object of REJECTED and RAIL_AMBIGUOUS.
type submissionRef struct {
	SubmissionID string `json:"submissionId"`
}

// ambiguous answers that nobody knows.
func (p *Proxy) ambiguous(r request, id, message string, why error) error {
	p.metrics.submissions.WithLabelValues(string(timeout)).Inc()
	p.log.Warn(message, "event", "rail_ambiguous", "submissionId", id, "payoutId", r.PayoutID, "accountId", r.AccountID,
		"fencingToken", r.token, "ownerId", r.owner, "error", why)
	return wire.NewError(wire.RailAmbiguous, "%s", message).With(submissionRef{id})
}

// refuseStale answers a token that is not above the mark (C1 1.6 d, no row).
func (p *Proxy) refuseStale(r request, in intent) error {
	p.duplicateAttempted(r, in.id, "mark")
	p.metrics.submissions.WithLabelValues(outcomeFenced).Inc()
	p.metrics.fencedOut.WithLabelValues(resource).Inc()
	p.log.Error("stale token refused at the rail", "event", "fenced_out", "resource", resource, "resourceId", r.AccountID,
		"presentedToken", r.token, "highestToken", in.highest, "ownerId", r.owner, "payoutId", r.PayoutID)
	return wire.NewError(wire.FencedOut, "token %d is not above %d, which has submitted for this account", r.token, in.highest).
		With(wire.Fenced{PresentedToken: r.token, HighestToken: in.highest, ResourceType: resource, ResourceID: r.AccountID, OwnerID: r.owner})
}

// refuseDuplicate answers a second attempt for a payout; the raise of the mark stays.
func (p *Proxy) refuseDuplicate(r request, in intent) error {
	p.duplicateAttempted(r, in.attempt.SubmissionID, "attempt")
	p.metrics.submissions.WithLabelValues(outcomeDuplicate).Inc()
	return wire.NewError(wire.DuplicateSubmission, "the payout has an attempt on record, made under token %d", in.attempt.PresentedToken).With(in.attempt)
}

// duplicateAttempted logs and counts a submission that must not reach the rail; guard is what held it, mark or attempt.
func (p *Proxy) duplicateAttempted(r request, id, guard string) {
	p.metrics.duplicates.Inc()
	p.log.Error("a submission that must not be forwarded", "event", "duplicate_rail_submission_attempted", "guard", guard,
		"submissionId", id, "payoutId", r.PayoutID, "accountId", r.AccountID, "presentedToken", r.token, "ownerId", r.owner)
}
