package contract

import "strings"

// Op names an operation of the HTTP contract. Triggers of a plan are written "<op>.<type>", for example "claim.ok".
type Op string

// The operations of the contract, with the row of the contract's table that defines each.
const (
	OpOpenSession  Op = "open_session"  // L1
	OpHeartbeat    Op = "heartbeat"     // L2
	OpCloseSession Op = "close_session" // L3
	OpAcquire      Op = "acquire"       // L4
	OpRenew        Op = "renew"         // L5
	OpRelease      Op = "release"       // L6
	OpInspect      Op = "inspect"       // L7
	OpRevoke       Op = "revoke"        // L8
	OpListPayouts  Op = "list_payouts"  // P1
	OpClaim        Op = "claim"         // P2
	OpPost         Op = "post"          // P3
	OpGetPayout    Op = "get_payout"    // P4
	OpGetAccount   Op = "get_account"   // P5
	OpSubmitted    Op = "submitted"     // P6
	OpOutcome      Op = "outcome"       // P7
	OpResolve      Op = "resolve"       // P8
	OpSubmit       Op = "submit"        // R1
	OpTransfer     Op = "transfer"      // S1
	OpLookup       Op = "lookup"        // S2
	OpUnknown      Op = "unknown"       // a request that is none of the contract's
)

// Read tells whether op only reads: it changes nothing, whatever became of its answer.
func (op Op) Read() bool {
	switch op {
	case OpInspect, OpListPayouts, OpGetPayout, OpGetAccount, OpLookup:
		return true
	}
	return false
}

// Fenced tells whether op is a write that a fence point judges by the token in its header.
func (op Op) Fenced() bool { return op.AtPayment() || op == OpSubmit }

// AtPayment tells whether op is a mutating request of payment-resource, fence point 1.
func (op Op) AtPayment() bool {
	switch op {
	case OpClaim, OpPost, OpSubmitted, OpOutcome, OpResolve:
		return true
	}
	return false
}

// Classify finds the operation of a request and the subject in its path: the lock key, payout, account or session id,
// "" where the path has none. The subject is still percent-encoded as the path had it. path carries no query.
func Classify(method, path string) (op Op, subject string) {
	seg := strings.Split(strings.TrimPrefix(path, "/"), "/")
	at := func(i int) string {
		if i < len(seg) {
			return seg[i]
		}
		return ""
	}
	switch {
	case method == "POST" && path == "/submit":
		return OpTransfer, ""
	case method == "GET" && path == "/transfers":
		return OpLookup, ""
	case at(0) != "v1":
		return OpUnknown, ""
	}
	type shape struct {
		method, noun, verb string
		n                  int
	}
	switch (shape{method, at(1), at(3), len(seg)}) {
	case shape{"POST", "sessions", "", 2}:
		return OpOpenSession, ""
	case shape{"DELETE", "sessions", "", 3}:
		return OpCloseSession, at(2)
	case shape{"POST", "sessions", "heartbeat", 4}:
		return OpHeartbeat, at(2)
	case shape{"POST", "locks", "acquire", 4}:
		return OpAcquire, at(2)
	case shape{"POST", "locks", "renew", 4}:
		return OpRenew, at(2)
	case shape{"POST", "locks", "revoke", 4}:
		return OpRevoke, at(2)
	case shape{"DELETE", "locks", "", 3}:
		return OpRelease, at(2)
	case shape{"GET", "locks", "", 3}:
		return OpInspect, at(2)
	case shape{"GET", "payouts", "", 2}:
		return OpListPayouts, ""
	case shape{"GET", "payouts", "", 3}:
		return OpGetPayout, at(2)
	case shape{"POST", "payouts", "claim", 4}:
		return OpClaim, at(2)
	case shape{"POST", "payouts", "post", 4}:
		return OpPost, at(2)
	case shape{"POST", "payouts", "submitted", 4}:
		return OpSubmitted, at(2)
	case shape{"POST", "payouts", "outcome", 4}:
		return OpOutcome, at(2)
	case shape{"POST", "payouts", "resolve", 4}:
		return OpResolve, at(2)
	case shape{"GET", "accounts", "", 3}:
		return OpGetAccount, at(2)
	case shape{"POST", "rail", "", 3}:
		if at(2) == "submissions" {
			return OpSubmit, ""
		}
	}
	return OpUnknown, ""
}
