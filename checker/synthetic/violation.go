package synthetic

import (
	"maps"
	"slices"

	"fenceproof/checker/contract"
)

// Violation names what is planted in a history: one guard that one server forgets, once.
type Violation string

// The violations. Breaks says which invariants each of them breaks: these and no others.
const (
	LateWrite       Violation = "late-write"           // submitted under an old token commits after a newer claim
	StaleClaim      Violation = "stale-claim"          // a holder that was stopped claims under its old token
	PaidTwice       Violation = "paid-twice"           // the rail moves money twice for one call
	SubmittedAgain  Violation = "submitted-again"      // rail-proxy forwards a second attempt
	WrongDebit      Violation = "wrong-debit"          // a post debits more than its entry says
	LopsidedLegs    Violation = "lopsided-legs"        // the two legs of a post differ
	PostedUnpaid    Violation = "posted-unpaid"        // ACKED and posted, but the rail was never asked
	FailedPaid      Violation = "failed-paid"          // declined, but money moved
	RepeatedToken   Violation = "repeated-token"       // a key is granted twice with the same token
	LowerToken      Violation = "lower-token"          // a key is granted with a lower token than before
	UnloggedGrant   Violation = "unlogged-grant"       // an acquire is answered with a grant that is in no log
	LoweredFence    Violation = "lowered-fence"        // a claim sets the fence lower than it was
	LoweredMark     Violation = "lowered-mark"         // a submission sets the rail's mark lower than it was
	GrantWhileHeld  Violation = "grant-while-held"     // a key is granted before its grant has ended
	EarlyEnd        Violation = "early-end"            // a grant ends before its expiry, and nobody asked for it
	LapsedRenewal   Violation = "lapsed-renewal"       // a grant is renewed after it has expired
	UngrantedToken  Violation = "ungranted-token"      // a payout is worked on under a token that nobody granted
	LeftTerminal    Violation = "left-terminal"        // a FAILED payout is ABANDONED
	NoEvidence      Violation = "resolved-no-evidence" // an ambiguous payout is resolved without its row of evidence
	NeverEnds       Violation = "never-ends"           // a payout stays where it is
	LateRequest     Violation = "late-request"         // a client works on long after its lease was over
	UnloggedRenewal Violation = "unlogged-renewal"     // a renewal is answered and never committed
	ChangedReplay   Violation = "changed-replay"       // a replay is answered otherwise than its original
)

// violations says what each violation breaks, and the plot that plants it.
var violations = map[Violation]struct {
	Breaks []string
	Plot   func(*plot)
}{
	LateWrite:       {[]string{"INV-01"}, (*plot).lateWrite},
	StaleClaim:      {[]string{"INV-01", "INV-05"}, (*plot).staleClaim},
	PaidTwice:       {[]string{"INV-02"}, (*plot).onePayout},
	SubmittedAgain:  {[]string{"INV-02"}, (*plot).submittedAgain},
	WrongDebit:      {[]string{"INV-03"}, (*plot).onePayout},
	LopsidedLegs:    {[]string{"INV-03"}, (*plot).onePayout},
	PostedUnpaid:    {[]string{"INV-03"}, (*plot).onePayout},
	FailedPaid:      {[]string{"INV-03"}, (*plot).onePayout},
	RepeatedToken:   {[]string{"INV-04", "LIN-01"}, (*plot).regrant},
	LowerToken:      {[]string{"INV-04", "LIN-01"}, (*plot).regrant},
	UnloggedGrant:   {[]string{"INV-04", "DUR-01"}, (*plot).regrant},
	LoweredFence:    {[]string{"INV-05"}, (*plot).loweredFence},
	LoweredMark:     {[]string{"INV-05"}, (*plot).loweredMark},
	GrantWhileHeld:  {[]string{"INV-06", "LIN-01"}, (*plot).grantWhileHeld},
	EarlyEnd:        {[]string{"INV-06"}, (*plot).earlyEnd},
	LapsedRenewal:   {[]string{"INV-06", "LIN-01"}, (*plot).lapsedRenewal},
	UngrantedToken:  {[]string{"INV-07"}, (*plot).ungrantedToken},
	LeftTerminal:    {[]string{"INV-08"}, (*plot).leftTerminal},
	NoEvidence:      {[]string{"INV-08"}, (*plot).noEvidence},
	NeverEnds:       {[]string{"LIVE-01"}, (*plot).neverEnds},
	LateRequest:     {[]string{"SDK-01"}, (*plot).lateRequest},
	UnloggedRenewal: {[]string{"DUR-01"}, (*plot).unloggedRenewal},
	ChangedReplay:   {[]string{"DUR-01"}, (*plot).changedReplay},
}

// Violations lists all of them.
func Violations() []Violation { return slices.Sorted(maps.Keys(violations)) }

// Breaks are the ids of the invariants that v breaks.
func (v Violation) Breaks() []string { return violations[v].Breaks }

// On tells whether v can be seen where the lock's store is backend: etcd's log has no renewals.
func (v Violation) On(backend string) bool { return v != UnloggedRenewal || backend != etcdBackend }

// What a server that forgets a guard does otherwise.

func (v Violation) ignoresFence() bool { return v == LateWrite || v == StaleClaim }

func (v Violation) fence(raised, stands int64) int64 {
	switch {
	case v == LoweredFence:
		return stands - 1
	case raised < stands: // a claim that should have been refused leaves the fence where it is
		return stands
	}
	return raised
}

func (v Violation) debit(amount int64) int64 {
	if v == WrongDebit {
		return amount + 1
	}
	return amount
}

func (v Violation) credit(amount int64) int64 {
	if v == LopsidedLegs {
		return amount - 1
	}
	return amount
}

func (v Violation) replay(body string) string {
	if v == ChangedReplay {
		return body[:len(body)-1] + `,"again":true}`
	}
	return body
}

// fate is what the rail does with a planted payout.
func (v Violation) fate() fate {
	switch v {
	case FailedPaid, LeftTerminal:
		return declines
	case NoEvidence:
		return silent
	}
	return accepts
}

// of gives a call the bug.
func (v Violation) of(op contract.Op) func(*call) {
	return func(c *call) {
		if c.Op == op {
			c.bug = v
		}
	}
}
