package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/lock/lockclient"
	"fenceproof/system/payment/machine"
	"fenceproof/system/payment/paymentclient"
	"fenceproof/system/wire"
)

// look looks one payout up at the rail and, where that is evidence, resolves it. The error is that of a rail that did
// not answer.
func (r *Reconciler) look(ctx context.Context, p paymentclient.Payout, s *sighting) (result, error) {
	log := r.log.With("payoutId", p.PayoutID, "accountId", p.AccountID)
	lookedUp := time.Now() // before the send: what the answer shows is at least as new
	found, err := r.rail.transfers(ctx, p.PayoutID)
	if err != nil {
		return resultUnknown, err
	}
	d := decide(p, found, lookedUp.Sub(s.first), r.options.Window)
	if d.alarm != "" && d.alarm != s.alarm {
		r.metrics.alarms.Inc()
		log.Error("the rail's transfers do not fit the payout: "+d.alarm, "event", "transfer_mismatch",
			"amountMinor", p.AmountMinor, "currency", p.Currency, "transfers", found)
	}
	s.alarm = d.alarm
	switch {
	case d.finding != "":
		return r.underGrant(ctx, p, d, lookedUp, log), nil
	case d.alarm != "":
		return resultDisputed, nil
	}
	return resultWaiting, nil
}

// underGrant takes the account's lock, resolves the payout and gives the lock back on every path. It waits for the lock
// as long as a dead holder's lease can last: an account that is always busy would never be free at a mere look.
func (r *Reconciler) underGrant(ctx context.Context, p paymentclient.Payout, d decision, lookedUp time.Time, log *slog.Logger) result {
	wait := min(r.options.LeaseTTL, lock.MaxWait)
	c, cancel := context.WithTimeout(ctx, wait+r.options.StepTimeout)
	defer cancel()
	lease, err := r.options.Locks.Acquire(c, paymentclient.LockKey(p.AccountID), r.options.LeaseTTL, wait)
	if err != nil {
		var contended *lock.ContendedError
		if !errors.As(err, &contended) && ctx.Err() == nil {
			log.Warn("no lock was given", "event", "lock_unavailable", "error", err)
		}
		return resultContended
	}
	defer r.release(ctx, lease, log)
	return r.resolve(ctx, p, d, lookedUp, lease, log.With("fencingToken", lease.Token()))
}

func (r *Reconciler) release(ctx context.Context, lease *lockclient.Lease, log *slog.Logger) {
	c, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.options.StepTimeout)
	defer cancel()
	if err := lease.Release(c); err != nil {
		log.Warn("the lock could not be given back and will expire", "event", "release_failed", "fencingToken", lease.Token(), "error", err)
	}
}

// resolve is P8. Nothing but the call's own timeout cancels it once the lease was checked. What is refused, or gets no
// answer, is left to a later round: it finds out from the payout's state.
func (r *Reconciler) resolve(ctx context.Context, p paymentclient.Payout, d decision, lookedUp time.Time, lease *lockclient.Lease, log *slog.Logger) result {
	body := map[string]any{"resolution": d.finding}
	end := resultAcked
	if d.finding == machine.Absent {
		end = resultAbsent
		body["lookedUpAt"] = lookedUp.UTC().Format(time.RFC3339Nano)
	} else {
		body["railReference"] = d.reference
	}
	if ctx.Err() != nil {
		return resultStopped
	}
	if err := lease.CheckStillHeld(r.options.StepTimeout); err != nil {
		log.Warn("the lease does not cover the resolution", "event", "resolution_stopped", "result", resultStopped, "error", err)
		return resultStopped
	}
	c, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.options.StepTimeout)
	defer cancel()
	err := r.payments.Do(c, paymentclient.Protected("resolve", p.PayoutID, r.options.OwnerID, lease.Token(), body), nil)
	if err != nil {
		end = refusal(err)
		log.Warn("the payout was not resolved", "event", "resolution_stopped", "result", end, "error", err)
		return end
	}
	log.Info("payout resolved", "event", "payout_resolved", "resolution", d.finding, "railReference", d.reference, "lookedUpAt", lookedUp.UTC())
	return end
}

// refusal is what an error of P8 means.
func refusal(err error) result {
	var e *wire.Error
	switch {
	case !errors.As(err, &e) || e.Status >= http.StatusInternalServerError:
		return resultUnknown
	case e.Code == wire.FencedOut:
		return resultFenced
	}
	return resultRefused
}
