package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"fenceproof/system/model"
	"fenceproof/system/wire"
)

// submission is R1 on its way: the call to the rail that waits for its fate, and the answer that will come.
type submission struct {
	request model.Request // the forwarding that the model speaks of
	call    *call
	answer  chan string
}

// reach sends q, compares the answer with the model's and then the books.
func (u *subject) reach(ctx context.Context, q model.Request, a model.Answer, fate model.Fate) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var told string
	var err error
	switch q.Op {
	case model.Forward, model.ForwardUnrecorded:
		told, err = u.decide(ctx, q, fate)
	case model.Submit:
		told, err = u.submit(ctx, q, q.Forwarding(a))
	default:
		told, err = u.command(ctx, q)
	}
	if err != nil {
		return err
	}
	want := u.want(q, a)
	if told != want {
		return fmt.Errorf("%v was answered\n%s\nand the model says\n%s", q, told, want)
	}
	return u.compare(ctx)
}

// want is the answer that the model's answer stands for. The model has taken the step already.
func (u *subject) want(q model.Request, a model.Answer) string {
	s := u.model.State
	p, n := s.Payouts[q.Payout], u.model.Notes[q.Payout]
	switch a.Code {
	case model.Replayed:
		return u.told[q]
	case model.OK, model.AlreadyPosted, model.NoFunds:
		text := u.success(q, a)
		if a.Code == model.OK || q.Op == model.Claim {
			u.told[q] = text
		}
		return text
	case model.FencedOut:
		at := "account"
		if q.Op == model.Submit {
			at = "rail"
		}
		return fmt.Sprintf("FENCED_OUT at %s %s presented %d highest %d owner %s", at, u.account, u.token(q.Token), u.token(a.Highest), u.owner(q.Token))
	case model.NotClaimable:
		return fmt.Sprintf("PAYOUT_NOT_CLAIMABLE %v claim %d", p.State, u.claimNumber(p.Claim))
	case model.Blocked:
		return fmt.Sprintf("PAYOUT_NOT_CLAIMABLE %v claim %d blocked by P%d", p.State, u.claimNumber(p.Claim), 1-q.Payout)
	case model.Duplicate:
		return fmt.Sprintf("DUPLICATE_SUBMISSION %v by %d", a.Record, u.token(n.AttemptToken))
	}
	return a.Code.String()
}

// success is the wording of an answer that says what took effect, or a claim or a post that found no funds.
func (u *subject) success(q model.Request, a model.Answer) string {
	s := u.model.State
	p, n := s.Payouts[q.Payout], u.model.Notes[q.Payout]
	switch {
	case a.Code == model.NoFunds:
		return fmt.Sprintf("INSUFFICIENT_FUNDS %v", p.State)
	case q.Op == model.Claim:
		return fmt.Sprintf("200 %v claim %d fence %d claims %d", p.State, u.token(q.Token), u.token(s.Fence), n.Claims)
	case q.Op == model.Post:
		leg := fmt.Sprintf("%d by %d", u.amount(int(q.Payout)), u.token(n.LegToken))
		return fmt.Sprintf("200 %v balance %d DEBIT %s CREDIT %s", p.State, unit*int64(s.Balance), leg, leg)
	case q.Op.Forwards():
		return "200 ACKED"
	}
	return fmt.Sprintf("200 %v", p.State)
}

// claimNumber is a claim token as PAYOUT_NOT_CLAIMABLE shows it.
func (u *subject) claimNumber(t model.Token) int64 {
	if t == 0 {
		return 0
	}
	return u.token(t)
}

// command sends a request to payment-resource.
func (u *subject) command(ctx context.Context, q model.Request) (string, error) {
	id := u.payouts[q.Payout]
	var out struct {
		State        string
		ClaimToken   int64
		AccountFence int64
		AttemptCount int
		BalanceMinor int64
		Entries      []struct {
			Direction   string
			AmountMinor int64
			Fence       int64
		}
	}
	off := 0
	if u.model.Protocol.PaymentOff {
		off = 1
	}
	err := u.payment[off].Do(ctx, wire.Call{Method: http.MethodPost, Path: "/v1/payouts/" + id + "/" + q.Op.String(),
		Owner: u.owner(q.Token), Token: u.token(q.Token), Idempotency: "payout-" + id, Body: body(q)}, &out)
	if err != nil {
		return u.refused(err)
	}
	switch q.Op {
	case model.Claim:
		return fmt.Sprintf("200 %s claim %d fence %d claims %d", out.State, out.ClaimToken, out.AccountFence, out.AttemptCount), nil
	case model.Post:
		text := fmt.Sprintf("200 %s balance %d", out.State, out.BalanceMinor)
		for _, e := range out.Entries {
			text += fmt.Sprintf(" %s %d by %d", e.Direction, e.AmountMinor, e.Fence)
		}
		return text, nil
	}
	return "200 " + out.State, nil
}

// submissionID is what outcomes and posts name here; payment-resource keeps it in its log and in the stored request.
const submissionID = "0b9cd5c1-3b0e-4d43-8f2c-2a4c2f6f8a11"

// body is the body of a request to payment-resource: the same request has the same body.
func body(q model.Request) any {
	reference := fmt.Sprintf("rail-%d", q.Payout)
	switch q.Op {
	case model.Claim:
		return map[string]any{"expectedState": q.Expected.String()}
	case model.Outcome:
		b := map[string]any{"outcome": q.Finding.String(), "submissionId": submissionID}
		if q.Finding == model.Acked {
			b["railReference"] = reference
		}
		return b
	case model.Post:
		return map[string]any{"railReference": reference, "submissionId": submissionID, "railOutcome": "ACKED"}
	case model.Resolve:
		b := map[string]any{"resolution": q.Finding.String()}
		switch q.Finding {
		case model.Acked:
			b["railReference"] = reference
		case model.Absent:
			b["lookedUpAt"] = time.Unix(1_700_000_000, 0).UTC().Format(time.RFC3339Nano)
		default:
			b["operator"], b["reason"] = "ops", "given up after a call"
		}
		return b
	}
	return map[string]any{}
}

// refused is the wording of an error envelope; any other error is one.
func (u *subject) refused(err error) (string, error) {
	var e *wire.Error
	if !errors.As(err, &e) {
		return "", err
	}
	switch e.Code {
	case wire.FencedOut:
		var d wire.Fenced
		if err := e.Detail(&d); err != nil {
			return "", err
		}
		return fmt.Sprintf("FENCED_OUT at %s %s presented %d highest %d owner %s", d.ResourceType, d.ResourceID, d.PresentedToken, d.HighestToken, d.OwnerID), nil
	case wire.PayoutNotClaimable, wire.InsufficientFunds:
		var d struct {
			State            string
			ClaimToken       int64
			BlockingPayoutID string
		}
		if err := e.Detail(&d); err != nil {
			return "", err
		}
		if e.Code == wire.InsufficientFunds {
			return fmt.Sprintf("INSUFFICIENT_FUNDS %s", d.State), nil
		}
		text := fmt.Sprintf("PAYOUT_NOT_CLAIMABLE %s claim %d", d.State, d.ClaimToken)
		if i := slices.Index(u.payouts[:], d.BlockingPayoutID); i >= 0 {
			text += fmt.Sprintf(" blocked by P%d", i)
		}
		return text, nil
	case wire.DuplicateSubmission:
		var d struct {
			Outcome        string
			PresentedToken int64
		}
		if err := e.Detail(&d); err != nil {
			return "", err
		}
		if d.Outcome == "" {
			d.Outcome = model.Open.String()
		}
		return fmt.Sprintf("DUPLICATE_SUBMISSION %s by %d", d.Outcome, d.PresentedToken), nil
	}
	return string(e.Code), nil
}

// submit sends R1 and waits until it is answered or has reached the gate, as what the model calls forwarded.
func (u *subject) submit(ctx context.Context, q, forwarded model.Request) (string, error) {
	s := &submission{request: forwarded, answer: make(chan string, 1)}
	go func() { s.answer <- u.send(q) }()
	select {
	case told := <-s.answer:
		return told, nil
	case s.call = <-u.arrivals[q.Payout]:
		u.calls = append(u.calls, s)
		return model.Forwarding.String(), nil
	case <-ctx.Done():
		return "", fmt.Errorf("%v is neither answered nor forwarded: %w", q, ctx.Err())
	}
}

// send is R1; it ends when the proxy answers.
func (u *subject) send(q model.Request) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	defer cancel()
	id := u.payouts[q.Payout]
	off := 0
	if u.model.Protocol.RailOff {
		off = 1
	}
	var out struct{ Outcome, RailReference string }
	err := u.rail[off].Do(ctx, wire.Call{Method: http.MethodPost, Path: "/v1/rail/submissions", Owner: u.owner(q.Token),
		Token: u.token(q.Token), Idempotency: "payout-" + id, Body: map[string]any{"payoutId": id, "accountId": u.account,
			"amountMinor": u.amount(int(q.Payout)), "currency": "EUR", "beneficiaryRef": "beneficiary-" + id}}, &out)
	if err == nil {
		return "200 " + out.Outcome
	}
	told, err := u.refused(err)
	if err != nil {
		return err.Error()
	}
	return told
}

// decide lets the call to the rail meet its fate and waits for R1's answer.
func (u *subject) decide(ctx context.Context, q model.Request, fate model.Fate) (string, error) {
	s := u.takeCall(q)
	if s == nil {
		return "", fmt.Errorf("%v: no such call is on its way", q)
	}
	s.call.fate <- fate
	select {
	case told := <-s.answer:
		return told, nil
	case <-ctx.Done():
		return "", fmt.Errorf("%v got no answer: %w", q, ctx.Err())
	}
}

// takeCall finds the call that the model speaks of, and takes it off the way. Nil: there is none.
func (u *subject) takeCall(q model.Request) *submission {
	i := slices.IndexFunc(u.calls, func(s *submission) bool { return s.request == q })
	if i < 0 {
		return nil
	}
	s := u.calls[i]
	u.calls = slices.Delete(u.calls, i, i+1)
	return s
}

// end ends the calls that nobody decided, and waits for their answers.
func (u *subject) end() {
	for _, s := range append(u.calls, u.lost...) {
		close(s.call.fate)
		<-s.answer
	}
	u.calls, u.lost = nil, nil
}
