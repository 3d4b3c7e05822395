// Package contract names what the suite can see of any implementation of the payout system: its processes, the links
// between them, the operations of its HTTP contract, their error codes and the states of a payout.
//
// It is a leaf: it imports nothing of the suite and nothing of the system, so that the suite stays a black box and can
// judge another implementation of the same contract.
package contract

import (
	"fmt"
	"strconv"
	"strings"
)

// Process names one process of a stack, for example "lock-server" or "executor-2".
type Process string

// The processes every stack has. Executors are numbered from 1; see Executor.
const (
	LockServer      Process = "lock-server"
	PaymentResource Process = "payment-resource"
	RailProxy       Process = "rail-proxy"
	RailStub        Process = "rail-stub"
	Reconciler      Process = "reconciler"
	LockDB          Process = "lockdb"
	PayDB           Process = "paydb"
)

const executorPrefix = "executor-"

// Executor is the name of the n-th payout executor; n counts from 1.
func Executor(n int) Process { return Process(executorPrefix + strconv.Itoa(n)) }

// IsExecutor tells whether p is one of the payout executors.
func (p Process) IsExecutor() bool {
	rest, ok := strings.CutPrefix(string(p), executorPrefix)
	if !ok {
		return false
	}
	n, err := strconv.Atoi(rest)
	return err == nil && n > 0
}

// Link names one network hop, from its client to its server.
type Link struct {
	From Process `json:"from"`
	To   Process `json:"to"`
}

// String is the link's name as plans, logs and reports show it: "executor-2→rail-proxy".
func (l Link) String() string { return string(l.From) + "→" + string(l.To) }

// ParseLink reads a name made by Link.String; "->" stands for the arrow where a keyboard has none.
func ParseLink(s string) (Link, error) {
	for _, arrow := range []string{"→", "->"} {
		if from, to, ok := strings.Cut(s, arrow); ok && from != "" && to != "" {
			return Link{Process(from), Process(to)}, nil
		}
	}
	return Link{}, fmt.Errorf("%q is no link: write it as client→server, for example executor-2→rail-proxy", s)
}

// State is a state of a payout (page 1.3 of the contract).
type State string

// The payout states.
const (
	Pending       State = "PENDING"
	Claimed       State = "CLAIMED"
	RailSubmitted State = "RAIL_SUBMITTED"
	RailAcked     State = "RAIL_ACKED"
	RailAmbiguous State = "RAIL_AMBIGUOUS"
	Posted        State = "POSTED"
	Failed        State = "FAILED"
	Abandoned     State = "ABANDONED"
)

// Terminal tells whether a payout that reached s stays there for ever.
func (s State) Terminal() bool { return s == Posted || s == Failed || s == Abandoned }

// Code is an error code of the contract's envelope.
type Code string

// The error codes of the contract.
const (
	InvalidRequest      Code = "INVALID_REQUEST"
	InvalidToken        Code = "INVALID_TOKEN"
	NotFound            Code = "NOT_FOUND"
	MethodNotAllowed    Code = "METHOD_NOT_ALLOWED"
	SessionUnknown      Code = "SESSION_UNKNOWN"
	SessionExpired      Code = "SESSION_EXPIRED"
	LockContended       Code = "LOCK_CONTENDED"
	ContentionExceeded  Code = "CONTENTION_EXCEEDED"
	LockLost            Code = "LOCK_LOST"
	NotLeader           Code = "NOT_LEADER"
	FencedOut           Code = "FENCED_OUT"
	PayoutNotClaimable  Code = "PAYOUT_NOT_CLAIMABLE"
	InsufficientFunds   Code = "INSUFFICIENT_FUNDS"
	IdempotencyConflict Code = "IDEMPOTENCY_CONFLICT"
	StoreUnavailable    Code = "STORE_UNAVAILABLE"
	DuplicateSubmission Code = "DUPLICATE_SUBMISSION"
	CodeRailAmbiguous   Code = "RAIL_AMBIGUOUS"
	Rejected            Code = "REJECTED"
	RailUnavailable     Code = "RAIL_UNAVAILABLE"
)
