// Package payment is payment-resource: payouts, accounts, the ledger, and fence point 1. It decides by the token in the
// request and by nothing else; it never asks the lock service anything, and it never touches rail_high_water, so that the
// two fence points stay independent.
//
// The state machine (package machine) is values in, decision out. Store reads the facts under the account's row lock and
// carries decisions out with the statements of C1 1.6; API is the HTTP side.
package payment

import (
	"time"

	"fenceproof/system/payment/machine"

	"github.com/google/uuid"
)

// command is one request for a transition, with everything that it leaves behind.
type command struct {
	machine.Command
	payoutID string
	owner    string
	key      string // X-Idempotency-Key
	request  string // the body in canonical form: what a replay must equal

	railReference string // post, outcome, resolve
	submissionID  string // post, outcome
	reason        string // outcome, resolve
	operator      string // resolve
	lookedUpAt    string // resolve: when the look-up showed no transfer, RFC 3339
}

// entry is one leg of a posting.
type entry struct {
	EntryID     string `json:"entryId"`
	AccountID   string `json:"accountId"`
	Direction   string `json:"direction"`   // DEBIT or CREDIT
	AmountMinor int64  `json:"amountMinor"` // minor units, > 0
	Fence       int64  `json:"fence"`       // the token that authored the leg
}

// effect is what a command did, or that it was a replay and did nothing.
type effect struct {
	replay    bool // the stored answer was given again, or a higher token found the payout posted
	accountID string
	from, to  machine.State
	reason    machine.Reason // NoFunds for the claim that failed the payout
	amount    int64          // minor units
	currency  string
	fence     int64 // the account's fence afterwards
	attempts  int   // claim: attempt_count afterwards
	balance   int64 // post: the account's balance afterwards, minor units
	entries   []entry

	status int
	body   string
}

// refusal is a command that was refused: nothing was written.
type refusal struct {
	reason    machine.Reason
	resource  string // the fence point that refused a token: account or ledger
	accountID string
	facts     machine.Facts
}

func (r *refusal) Error() string { return string(r.reason) }

// storeTimeout bounds what one request may ask of paydb, its wait for a row lock included. A client that goes away does
// not cut it short: what has begun is finished.
const storeTimeout = 5 * time.Second

// clearingAccounts is how many accounts of a currency share the other side of all postings, so that no single hot row
// puts every payout in one queue.
const clearingAccounts = 16

// clearingNamespace is the name space of the clearing accounts' ids.
var clearingNamespace = uuid.MustParse("5f0c1ea2-1d3b-5c61-9a57-0f6b8f1d2c74")

// ClearingAccount is the id of the clearing account that takes the other side of accountID's postings in currency. It is
// the same for ever, so that it needs no table; the account itself comes to exist with the first post that needs it.
func ClearingAccount(accountID uuid.UUID, currency string) uuid.UUID {
	slot := accountID[15] % clearingAccounts
	return uuid.NewSHA1(clearingNamespace, []byte{currency[0], currency[1], currency[2], slot})
}
