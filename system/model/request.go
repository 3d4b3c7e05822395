package model

import "fmt"

// PayoutState is a state of a payout.
type PayoutState uint8

// The states. Posted, Failed and Abandoned are terminal.
const (
	Pending PayoutState = iota
	Claimed
	RailSubmitted
	RailAcked
	RailAmbiguous
	Posted
	Failed
	Abandoned
	stateCount
)

var stateNames = [stateCount]string{"PENDING", "CLAIMED", "RAIL_SUBMITTED", "RAIL_ACKED", "RAIL_AMBIGUOUS", "POSTED", "FAILED", "ABANDONED"}

// String is the state as the contract spells it.
func (s PayoutState) String() string { return stateNames[s] }

// AllPayoutStates lists the states.
func AllPayoutStates() []PayoutState {
	return []PayoutState{Pending, Claimed, RailSubmitted, RailAcked, RailAmbiguous, Posted, Failed, Abandoned}
}

// inFlight tells whether a holder has begun the payout and its next holder must finish it.
func (s PayoutState) inFlight() bool { return s == Claimed || s == RailSubmitted || s == RailAcked }

// Op is what a request asks for.
type Op uint8

// The operations. Forward and ForwardUnrecorded are the proxy's second half of Submit: the call to the rail, by the
// request that has recorded the attempt, or by one that found another's record and forwards all the same.
const (
	NoOp Op = iota
	Claim
	Submitted
	Outcome
	Post
	Resolve
	Submit
	Forward
	ForwardUnrecorded
	opCount
)

var opNames = [opCount]string{"nothing", "claim", "submitted", "outcome", "post", "resolve", "submit", "forward", "forward-unrecorded"}

func (o Op) String() string { return opNames[o] }

// Forwards tells whether the request is on its way from the proxy to the rail.
func (o Op) Forwards() bool { return o == Forward || o == ForwardUnrecorded }

// Finding is what an outcome or a resolution reports, and what a record at the proxy holds.
type Finding uint8

// The findings. A record that is Open is an attempt whose end is not known yet.
const (
	NoFinding Finding = iota
	Open
	Acked
	Rejected
	Timeout
	Absent
	ByOperator
	findingCount
)

var findingNames = [findingCount]string{"none", "OPEN", "ACKED", "REJECTED", "TIMEOUT", "ABSENT", "ABANDONED"}

// String is the finding as the contract spells it.
func (f Finding) String() string { return findingNames[f] }

// Fate is what becomes of a call to the rail.
type Fate uint8

// The fates of a call.
const (
	Acknowledged Fate = iota // money moves, and the proxy hears of it
	ReplyLost                // money moves, and the answer is lost
	NeverArrived             // no money moves, and nobody says so
	Declined                 // the rail declines: no money moves
	fateCount
)

var fateNames = [fateCount]string{"acknowledged", "reply lost", "never arrived", "declined"}

func (f Fate) String() string { return fateNames[f] }

// Request is one protected call, or the proxy's call to the rail.
type Request struct {
	Op       Op
	Payout   uint8
	Token    Token
	Expected PayoutState // claim
	Finding  Finding     // outcome, resolve
}

func (q Request) String() string {
	s := fmt.Sprintf("%v T%d P%d", q.Op, q.Token, q.Payout)
	switch q.Op {
	case Claim:
		return s + " " + q.Expected.String()
	case Outcome, Resolve:
		return s + " " + q.Finding.String()
	}
	return s
}

// Code is what a request is answered.
type Code uint8

// The codes.
const (
	OK            Code = iota
	AlreadyPosted      // 200: a higher token finds the payout posted; nothing is written
	Replayed           // the stored answer
	FencedOut
	NotClaimable
	Blocked // PAYOUT_NOT_CLAIMABLE with the payout that blocks
	NoFunds // INSUFFICIENT_FUNDS: a claim has failed the payout; a post has written nothing
	LegExists
	Conflict // IDEMPOTENCY_CONFLICT: the token was used for this operation with another body
	Duplicate
	Forwarding // the proxy has recorded the attempt and calls the rail
	Ambiguous
	Declining // REJECTED
	codeCount
)

var codeNames = [codeCount]string{"ok", "posted already", "replayed", "FENCED_OUT", "PAYOUT_NOT_CLAIMABLE", "blocked", "INSUFFICIENT_FUNDS",
	"leg exists", "IDEMPOTENCY_CONFLICT", "DUPLICATE_SUBMISSION", "forwarding", "RAIL_AMBIGUOUS", "REJECTED"}

func (c Code) String() string { return codeNames[c] }

// Answer is what came of a request.
type Answer struct {
	Code    Code
	State   PayoutState // the payout's state afterwards
	Highest Token       // FencedOut: the fence or the mark
	Record  Finding     // Duplicate: the attempt on record
	Guards  Guards      // the guards that refuse the request; the first of them in the order of judgement decides the code
}

func (a Answer) String() string {
	switch a.Code {
	case FencedOut:
		return fmt.Sprintf("%v by %d", a.Code, a.Highest)
	case Duplicate:
		return fmt.Sprintf("%v of %v", a.Code, a.Record)
	}
	return a.Code.String()
}
