package payment

import (
	"encoding/json"
	"fmt"
	"net/http"

	"fenceproof/system/payment/machine"
	"fenceproof/system/wire"

	"github.com/google/uuid"
)

// claimAnswer is P2's.
type claimAnswer struct {
	PayoutID     string        `json:"payoutId"`
	AccountID    string        `json:"accountId"`
	State        machine.State `json:"state"`
	ClaimToken   int64         `json:"claimToken"`
	AccountFence int64         `json:"accountFence"`
	AttemptCount int           `json:"attemptCount"`
}

// postAnswer is P3's.
type postAnswer struct {
	PayoutID     string        `json:"payoutId"`
	State        machine.State `json:"state"`
	Entries      []entry       `json:"entries"`
	BalanceMinor int64         `json:"balanceMinor"`
}

// stateAnswer is that of P6, P7 and P8.
type stateAnswer struct {
	PayoutID string        `json:"payoutId"`
	State    machine.State `json:"state"`
}

// answer is the response to a command that took effect, as it is stored and sent.
func answer(c command, e effect) (int, string, error) {
	status := http.StatusOK
	var v any = stateAnswer{c.payoutID, e.to}
	switch {
	case c.Operation == machine.Claim && e.reason == machine.NoFunds:
		failed := wire.NewError(wire.InsufficientFunds, "payout %s is FAILED: the account's available funds are below its %d %s", c.payoutID, e.amount, e.currency).
			With(noFunds{PayoutID: c.payoutID, State: e.to, AmountMinor: e.amount})
		failed.TraceID = uuid.NewString()
		status, v = failed.Status, failed
	case c.Operation == machine.Claim:
		v = claimAnswer{c.payoutID, e.accountID, e.to, c.Token, e.fence, e.attempts}
	case c.Operation == machine.Post:
		v = postAnswer{c.payoutID, e.to, e.entries, e.balance}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return 0, "", fmt.Errorf("encode the answer: %w", err)
	}
	return status, string(b), nil
}

// noFunds is the details object of INSUFFICIENT_FUNDS.
type noFunds struct {
	PayoutID    string        `json:"payoutId"`
	State       machine.State `json:"state"`
	AmountMinor int64         `json:"amountMinor"`
}

// notClaimable is the details object of PAYOUT_NOT_CLAIMABLE.
type notClaimable struct {
	PayoutID         string        `json:"payoutId"`
	State            machine.State `json:"state"`
	ClaimToken       int64         `json:"claimToken,omitempty"`
	BlockingPayoutID string        `json:"blockingPayoutId,omitempty"`
}

// envelope is a refusal as the client gets it.
func (r *refusal) envelope(c command) *wire.Error {
	switch r.reason {
	case machine.FencedOut:
		return wire.NewError(wire.FencedOut, "token %d is not above %d, the fence of account %s", c.Token, r.facts.Fence, r.accountID).
			With(wire.Fenced{PresentedToken: c.Token, HighestToken: r.facts.Fence, ResourceType: r.resource, ResourceID: r.accountID, OwnerID: c.owner})
	case machine.NoFunds:
		return wire.NewError(wire.InsufficientFunds, "payout %s stays %s: the account does not hold its %d %s", c.payoutID, r.facts.State, r.facts.Amount, r.facts.Currency).
			With(noFunds{PayoutID: c.payoutID, State: r.facts.State, AmountMinor: r.facts.Amount})
	}
	return wire.NewError(wire.PayoutNotClaimable, "%s of payout %s in state %s: %s", c.Operation, c.payoutID, r.facts.State, r.reason).
		With(notClaimable{c.payoutID, r.facts.State, r.facts.ClaimToken, r.blocking()})
}

func (r *refusal) blocking() string {
	if r.reason == machine.Blocked {
		return r.facts.Blocking
	}
	return ""
}
