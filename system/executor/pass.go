package executor

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"fenceproof/system/payment/machine"
	"fenceproof/system/payment/paymentclient"
	"fenceproof/system/wire"
)

// result is how a pass over one account ended. It is the label of payout_execute_seconds.
type result string

const (
	resultPosted    result = "posted"
	resultFailed    result = "failed"    // declined, or no funds
	resultAmbiguous result = "ambiguous" // nobody knows whether money has moved: for the reconciler
	resultFenced    result = "fenced"    // a fence point refused the token
	resultRefused   result = "refused"   // another definite answer stood in the way
	resultUnknown   result = "unknown"   // a call got no answer
	resultStopped   result = "stopped"   // too little was left of the lease, or the process ends
	resultIdle      result = "idle"      // the account had nothing to do
	resultContended result = "contended" // another holder has the account, or nobody gave the lock
)

var results = []result{resultPosted, resultFailed, resultAmbiguous, resultFenced, resultRefused, resultUnknown, resultStopped}

// ended tells whether the payout needs no executor any more, so that the account's next one can be looked at.
func (r result) ended() bool {
	return r == resultPosted || r == resultFailed || r == resultAmbiguous
}

// maxSteps bounds a pass: claim, submitted or look, submit, outcome, post.
const maxSteps = 5

var errStopping = errors.New("the process is stopping")

// pass is the work of one grant: at most one payout of one account.
type pass struct {
	services
	owner   string
	prepare time.Duration
	lease   Lease
	log     *slog.Logger
}

// run re-reads the account under the lease and works on the payout in flight, or else on the oldest pending one.
func (p pass) run(ctx context.Context, account string) result {
	for _, states := range [][]machine.State{inFlight, {machine.Pending}} {
		found, err := p.list(ctx, states, account, "", 1)
		if err != nil {
			p.log.Warn("the account could not be read", "event", "payout_stopped", "accountId", account, "error", err)
			return resultUnknown
		}
		if len(found.Items) > 0 {
			return p.work(ctx, found.Items[0])
		}
	}
	return resultIdle
}

// work takes one payout as far as it goes.
func (p pass) work(ctx context.Context, on paymentclient.Payout) result {
	log := p.log.With("payoutId", on.PayoutID, "accountId", on.AccountID, "fencingToken", p.lease.Token())
	now := situation{state: on.State}
	for range maxSteps {
		todo := next(now)
		if todo == stop {
			break
		}
		a, err := p.take(ctx, todo, on, now)
		if err != nil {
			return stopped(log, todo, err)
		}
		now = now.after(todo, a)
		progress(log, todo, now)
	}
	switch now.state {
	case machine.Posted:
		return resultPosted
	case machine.Failed:
		return resultFailed
	case machine.RailAmbiguous:
		return resultAmbiguous
	}
	log.Error("the payout cannot be worked on", "event", "payout_stopped", "state", now.state, "attempt", now.record)
	return resultRefused
}

// take carries one step out. Before a protected call the lease is checked for all the time that the call may take, then
// comes what any program does between its last check and its write, then the call; from the check on nothing holds it
// back, because nothing could: a process can be stopped right there. That is why the resource has a fence.
func (p pass) take(ctx context.Context, todo step, on paymentclient.Payout, now situation) (answer, error) {
	if todo == look {
		return p.look(ctx, on.PayoutID)
	}
	if ctx.Err() != nil {
		return answer{}, errStopping
	}
	r := p.request(todo, on, now, p.owner, p.lease.Token())
	if err := p.lease.CheckStillHeld(p.prepare + p.timeout); err != nil {
		return answer{}, &leaseError{err}
	}
	time.Sleep(p.prepare)
	return p.send(ctx, todo, r)
}

// leaseError says that too little was left of the lease to begin a step.
type leaseError struct{ err error }

func (e *leaseError) Error() string { return "the lease does not cover the step: " + e.err.Error() }
func (e *leaseError) Unwrap() error { return e.err }

// stopped is how a pass ends whose step did not come through. None is tried again here: the token that was refused is
// refused for ever, and what got no answer is found in state and record by the next holder.
func stopped(log *slog.Logger, todo step, err error) result {
	var lease *leaseError
	var refusal *wire.Error
	end := resultUnknown
	switch {
	case errors.Is(err, errStopping), errors.As(err, &lease):
		end = resultStopped
	case !errors.As(err, &refusal) || refusal.Status >= http.StatusInternalServerError:
	case refusal.Code == wire.FencedOut:
		end = resultFenced
	case refusal.Code == wire.InsufficientFunds && todo == claim:
		end = resultFailed // the claim has failed the payout
	default:
		end = resultRefused
	}
	log.Warn("the pass over the account ends here", "event", "payout_stopped", "step", todo, "result", end, "error", err)
	return end
}

// progress logs what a step has achieved, in the holder's eyes; the fence points log what they committed.
func progress(log *slog.Logger, did step, now situation) {
	switch {
	case did == claim:
		log.Info("payout claimed", "event", "payout_claimed", "state", now.state)
	case did == submit:
		log.Info("payout submitted", "event", "rail_submitted", "outcome", now.record.finding(), "submissionId", now.record.SubmissionID)
	case now.state == machine.RailAmbiguous:
		log.Warn("nobody knows whether money has moved", "event", "rail_ambiguous", "submissionId", now.record.SubmissionID)
	case now.state == machine.Posted:
		log.Info("payout posted", "event", "payout_posted", "submissionId", now.record.SubmissionID)
	}
}
