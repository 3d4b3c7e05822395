package executor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"fenceproof/system/payment/machine"
	"fenceproof/system/payment/paymentclient"
	"fenceproof/system/wire"
)

// inFlight are the states of a payout that a holder has begun; open are those with work to do.
var (
	inFlight = []machine.State{machine.Claimed, machine.RailSubmitted, machine.RailAcked}
	open     = append([]machine.State{machine.Pending}, inFlight...)
)

// services are the servers that an executor calls.
type services struct {
	payments *paymentclient.Client
	rail     *wire.Client
	timeout  time.Duration // of a call, from its send
}

func (s services) close() {
	s.payments.Close()
	s.rail.Close()
}

// list is P1. account "" means all, cursor "" the beginning.
func (s services) list(ctx context.Context, states []machine.State, account, cursor string, limit int) (paymentclient.Page, error) {
	return s.payments.List(ctx, paymentclient.Query{States: states, AccountID: account, Cursor: cursor, Limit: limit})
}

// look is P4: the payout's attempt, and the rail's reference where the payout has one.
func (s services) look(ctx context.Context, payoutID string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var p struct {
		Submissions []record `json:"submissions"`
		Resolution  *struct {
			RailReference string `json:"railReference"`
		} `json:"resolution"`
	}
	if err := s.payments.Do(ctx, wire.Call{Method: http.MethodGet, Path: "/v1/payouts/" + payoutID}, &p); err != nil {
		return answer{}, fmt.Errorf("read payout %s: %w", payoutID, err)
	}
	var a answer
	if i := slices.IndexFunc(p.Submissions, func(r record) bool { return r.Outcome != outcomeFenced }); i >= 0 {
		a.record, a.reference = &p.Submissions[i], p.Submissions[i].RailReference
	}
	if p.Resolution != nil && p.Resolution.RailReference != "" {
		a.reference = p.Resolution.RailReference
	}
	return a, nil
}

// request is a protected call that has not been sent yet.
type request struct {
	to   *wire.Client
	call wire.Call
}

// request builds the protected call of a step.
func (s services) request(did step, p paymentclient.Payout, now situation, owner string, token int64) request {
	r := request{to: s.payments.Client, call: paymentclient.Protected(string(did), p.PayoutID, owner, token, nil)}
	switch did {
	case claim:
		r.call.Body = map[string]any{"expectedState": now.state}
	case submit:
		r.to, r.call.Path = s.rail, "/v1/rail/submissions"
		r.call.Body = map[string]any{"payoutId": p.PayoutID, "accountId": p.AccountID, "amountMinor": p.AmountMinor,
			"currency": p.Currency, "beneficiaryRef": "beneficiary-" + p.PayoutID}
	case report:
		body := map[string]any{"outcome": now.record.finding()}
		if now.record.SubmissionID != "" {
			body["submissionId"] = now.record.SubmissionID
		}
		if now.record.finding() == machine.Acked {
			body["railReference"] = now.record.RailReference
		}
		r.call.Body = body
	case post:
		r.call.Body = map[string]any{"railReference": now.reference, "submissionId": now.record.SubmissionID, "railOutcome": machine.Acked}
	}
	return r
}

// send sends the call, once, and reads its answer. Nothing but the call's own timeout, counted from here, cancels it.
func (s services) send(ctx context.Context, did step, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	var out struct {
		State machine.State `json:"state"`
		record
	}
	err := r.to.Do(ctx, r.call, &out)
	if did == submit {
		return submission(&out.record, err)
	}
	return answer{state: out.State}, err
}

// submission reads R1's answer. A refusal that says what became of the payout's attempt is as good as a success.
func submission(r *record, err error) (answer, error) {
	if err == nil {
		return answer{record: r, reference: r.RailReference}, nil
	}
	var e *wire.Error
	if !errors.As(err, &e) {
		return answer{}, err
	}
	var found record
	switch e.Code {
	case wire.DuplicateSubmission:
		if err := e.Detail(&found); err != nil {
			return answer{}, err
		}
	case wire.Rejected, wire.RailAmbiguous:
		_ = e.Detail(&found) // the submission's id, where the answer has it; without it the outcome stands all the same
		found.Outcome = string(machine.Rejected)
		if e.Code == wire.RailAmbiguous {
			found.Outcome = string(machine.Timeout)
		}
	default:
		return answer{}, err
	}
	return answer{record: &found, reference: found.RailReference}, nil
}
