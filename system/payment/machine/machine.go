// Package machine is the payout state machine: what a command may do to a payout, decided from values alone. It knows
// no database and no HTTP; the store reads the facts, asks here, and carries the decision out.
//
// Where a write moves the account's fence (claim, resolve, post), the fence is decided by the row itself, in the
// statement that moves it; the store then asks JudgeBehindFence. Everything else asks Judge.
package machine

// State is a state of a payout.
type State string

// The states. Posted, Failed and Abandoned are terminal.
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

// States lists all states, in the order in which a payout may pass through them.
func States() []State {
	return []State{Pending, Claimed, RailSubmitted, RailAcked, RailAmbiguous, Posted, Failed, Abandoned}
}

// Operation is what a command asks for. The names are those of the stored responses.
type Operation string

// The operations, with the row of the contract's table that defines each.
const (
	Claim     Operation = "claim"     // P2
	Submitted Operation = "submitted" // P6
	Outcome   Operation = "outcome"   // P7
	Post      Operation = "post"      // P3
	Resolve   Operation = "resolve"   // P8
)

// Finding is what an outcome or a resolution reports: Acked, Rejected or Timeout for an outcome, Acked, Absent or
// Operator for a resolution.
type Finding string

// The findings, as the contract spells them.
const (
	Acked    Finding = "ACKED"     // the rail has moved the money
	Rejected Finding = "REJECTED"  // the rail has declined
	Timeout  Finding = "TIMEOUT"   // nobody knows
	Absent   Finding = "ABSENT"    // the rail's look-up shows no transfer after the settlement window
	Operator Finding = "ABANDONED" // an operator gives the payout up
)

// Command is one request for a transition.
type Command struct {
	Operation Operation
	Token     int64   // the fencing token that it presents, > 0
	Expected  State   // claim: the state that the caller believes the payout to be in
	Finding   Finding // outcome, resolve
}

// Facts is what the store knows while it holds the account's row.
type Facts struct {
	State      State
	ClaimToken int64 // 0 while nobody has claimed
	Amount     int64 // minor units, > 0
	Currency   string

	Fence           int64  // the highest token that is shut out of the account
	Balance         int64  // minor units
	AccountCurrency string // the currency that the account is held in
	Reserved        int64  // amounts of the account's other payouts in flight or ambiguous, minor units
	Blocking        string // another payout of the account that is in flight, "" for none
}

// Reason says why a command was not carried out as asked.
type Reason string

// The reasons, in the order in which they are judged.
const (
	None          Reason = ""
	FencedOut     Reason = "the token is at or below the account's fence"
	AlreadyPosted Reason = "the payout is posted already" // not a refusal: a higher token finds the work done
	OtherClaim    Reason = "the payout is claimed under another token"
	WrongState    Reason = "the payout is in another state"
	Blocked       Reason = "another payout of the account is in flight"
	NoFunds       Reason = "the account's available funds do not suffice"
)

// Decision is what becomes of a command. To is the state to commit, "" when nothing may be written. A claim without
// funds is the one decision with both: it is refused, and the refusal is committed as FAILED.
type Decision struct {
	Reason Reason
	To     State
}

// Judge decides command in the contract's order: fence, posted already, claim token, state, funds. With fencing off
// every question about tokens falls away, a post is not asked whether the payout is posted, and it accepts RAIL_ACKED
// and POSTED alike; nothing else changes.
func Judge(c Command, f Facts, fencing bool) Decision {
	if fencing && f.Fence >= c.Token {
		return Decision{Reason: FencedOut}
	}
	return JudgeBehindFence(c, f, fencing)
}

// JudgeBehindFence is Judge for a command whose token has passed the fence already.
func JudgeBehindFence(c Command, f Facts, fencing bool) Decision {
	if fencing && FindsPosted(c, f) {
		return Decision{Reason: AlreadyPosted}
	}
	if fencing && !claimFits(c, f) {
		return Decision{Reason: OtherClaim}
	}
	to, ok := next(c, f.State, fencing)
	if !ok {
		return Decision{Reason: WrongState}
	}
	switch {
	case c.Operation == Claim && f.State == Pending && f.Blocking != "":
		return Decision{Reason: Blocked}
	case c.Operation == Claim && f.State == Pending && !covers(f, f.Reserved):
		return Decision{Reason: NoFunds, To: Failed}
	case c.Operation == Post && !covers(f, 0):
		// The money has moved at the rail: the payout must not become FAILED. It stays, for a person to see.
		return Decision{Reason: NoFunds}
	}
	return Decision{To: to}
}

// FindsPosted tells whether a post comes to a payout that another holder has posted (C1 1.6 c).
func FindsPosted(c Command, f Facts) bool { return c.Operation == Post && f.State == Posted }

// claimFits compares the command's token with the one that the payout is claimed under.
func claimFits(c Command, f Facts) bool {
	switch c.Operation {
	case Claim:
		return f.ClaimToken < c.Token // a take-over needs a higher token; an unclaimed payout has none
	case Submitted, Outcome:
		return f.ClaimToken == c.Token
	case Post:
		return f.ClaimToken <= c.Token
	}
	return true // resolve stamps its own claim
}

// next is the table of transitions: the state that c leads to from s.
func next(c Command, s State, fencing bool) (State, bool) {
	switch c.Operation {
	case Claim:
		return claimed(s), s == c.Expected && claimed(s) != ""
	case Submitted:
		return RailSubmitted, s == Claimed
	case Outcome:
		to := map[Finding]State{Acked: RailAcked, Rejected: Failed, Timeout: RailAmbiguous}[c.Finding]
		return to, s == RailSubmitted && to != ""
	case Post:
		return Posted, s == RailAcked || (!fencing && s == Posted)
	case Resolve:
		to := map[Finding]State{Acked: RailAcked, Absent: Failed, Operator: Abandoned}[c.Finding]
		return to, to != "" && (s == RailAmbiguous || (s == Pending && c.Finding == Operator))
	}
	return "", false
}

// claimed is the state after a claim in state s: a take-over leaves it as it is. "" where no claim is possible.
func claimed(s State) State {
	switch s {
	case Pending:
		return Claimed
	case Claimed, RailSubmitted, RailAcked:
		return s
	}
	return ""
}

// covers tells whether the account holds the payout's currency and, less reserved, its amount.
func covers(f Facts, reserved int64) bool {
	return f.AccountCurrency == f.Currency && f.Balance-reserved >= f.Amount
}
