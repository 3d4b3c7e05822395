package payment

import (
	"errors"
	"net/http"

	"fenceproof/system/payment/machine"
	"fenceproof/system/wire"

	"github.com/google/uuid"
)

// fail logs why a request was not carried out and answers the envelope that the contract has for it.
func (a *API) fail(w http.ResponseWriter, r *http.Request, c command, err error) {
	out := a.envelope(c, err)
	out.TraceID = uuid.NewString()
	var no *refusal
	switch {
	case errors.As(err, &no):
		a.tellRefusal(c, no, out.TraceID)
	case errors.Is(err, errOtherRequest), errors.Is(err, errOtherKey):
		a.log.Warn("a transition was refused", "event", "transition_refused", "payoutId", c.payoutID, "ownerId", c.owner,
			"fencingToken", c.Token, "operation", c.Operation, "reason", err.Error(), "traceId", out.TraceID)
	case out.Status >= 500:
		a.log.Error("request failed", "event", "request_failed", "method", r.Method, "path", r.URL.Path, "code", out.Code,
			"error", err, "traceId", out.TraceID)
	}
	wire.Fail(w, out)
}

func (a *API) envelope(c command, err error) *wire.Error {
	var out *wire.Error
	var no *refusal
	switch {
	case errors.As(err, &out):
		return out
	case errors.As(err, &no):
		return no.envelope(c)
	case errors.Is(err, errNotFound):
		return wire.NewError(wire.NotFound, "there is no such payout or account")
	case errors.Is(err, errOtherKey):
		return wire.NewError(wire.InvalidRequest, "header %s is not this payout's key", wire.HeaderIdempotency)
	case errors.Is(err, errOtherRequest):
		return wire.NewError(wire.IdempotencyConflict, "%s of payout %s under token %d was carried out with another body", c.Operation, c.payoutID, c.Token)
	case errors.Is(err, errUnavailable):
		return wire.NewError(wire.StoreUnavailable, "paydb did not answer; whether anything happened is unknown, and the same request may be sent again")
	}
	return &wire.Error{Code: "INTERNAL", Status: http.StatusInternalServerError, Message: "internal error; the log has it under the trace id"}
}

// tellRefusal logs a refused transition: fenced_out as an error, the others as warnings, except that money which has
// moved and cannot be posted is an error too.
func (a *API) tellRefusal(c command, no *refusal, traceID string) {
	if no.reason == machine.FencedOut {
		a.fenceOut.WithLabelValues(no.resource).Inc()
		a.log.Error("a stale token was refused", "event", "fenced_out", "resource", no.resource, "resourceId", no.accountID,
			"presentedToken", c.Token, "highestToken", no.facts.Fence, "ownerId", c.owner,
			"operation", c.Operation, "payoutId", c.payoutID, "traceId", traceID)
		return
	}
	log := a.log.With("payoutId", c.payoutID, "accountId", no.accountID, "ownerId", c.owner, "fencingToken", c.Token,
		"operation", c.Operation, "state", no.facts.State, "claimToken", no.facts.ClaimToken, "traceId", traceID)
	if no.reason == machine.NoFunds {
		log.Error("the rail has moved the money and the account cannot cover it", "event", "post_without_funds",
			"amountMinor", no.facts.Amount, "balanceMinor", no.facts.Balance)
		return
	}
	log.Warn("a transition was refused", "event", "transition_refused", "reason", no.reason)
}
