package synthetic

import (
	"maps"
	"slices"

	"fenceproof/checker/contract"
)

// Violation names what is planted in a history: one guard that one server forgets, once.
type Violation string

// The violations. Says tells what each is; Breaks which invariants it breaks, and no others of those that every history is judged
// by. Where locks alone are judged, LIN-01 may fall as well: golden.All says with which.
const (
	LateWrite       Violation = "late-write"
	StaleClaim      Violation = "stale-claim"
	PaidTwice       Violation = "paid-twice"
	SubmittedAgain  Violation = "submitted-again"
	WrongDebit      Violation = "wrong-debit"
	LopsidedLegs    Violation = "lopsided-legs"
	PostedUnpaid    Violation = "posted-unpaid"
	FailedPaid      Violation = "failed-paid"
	RepeatedToken   Violation = "repeated-token"
	LowerToken      Violation = "lower-token"
	UnloggedGrant   Violation = "unlogged-grant"
	LoweredFence    Violation = "lowered-fence"
	LoweredMark     Violation = "lowered-mark"
	GrantWhileHeld  Violation = "grant-while-held"
	EarlyEnd        Violation = "early-end"
	LapsedRenewal   Violation = "lapsed-renewal"
	UngrantedToken  Violation = "ungranted-token"
	LeftTerminal    Violation = "left-terminal"
	NoEvidence      Violation = "resolved-no-evidence"
	NeverEnds       Violation = "never-ends"
	LateRequest     Violation = "late-request"
	UnloggedRenewal Violation = "unlogged-renewal"
	ChangedReplay   Violation = "changed-replay"
)

// violations says what each violation breaks, and the plot that plants it.
var violations = map[Violation]struct {
	Breaks []string
	Plot   func(*plot)
	Says   string
}{
	LateWrite:       {[]string{"INV-01"}, (*plot).lateWrite, "submitted under an old token commits after a newer claim"},
	StaleClaim:      {[]string{"INV-01", "INV-05"}, (*plot).staleClaim, "a holder that was stopped claims under its old token"},
	PaidTwice:       {[]string{"INV-02"}, (*plot).onePayout, "the rail moves money twice for one call"},
	SubmittedAgain:  {[]string{"INV-02"}, (*plot).submittedAgain, "rail-proxy forwards a second attempt"},
	WrongDebit:      {[]string{"INV-03"}, (*plot).onePayout, "a post debits more than its entry says"},
	LopsidedLegs:    {[]string{"INV-03"}, (*plot).onePayout, "the two legs of a post differ"},
	PostedUnpaid:    {[]string{"INV-03"}, (*plot).onePayout, "ACKED and posted, but the rail was never asked"},
	FailedPaid:      {[]string{"INV-03"}, (*plot).onePayout, "declined, but money moved"},
	RepeatedToken:   {[]string{"INV-04", "LIN-01"}, (*plot).regrant, "a key is granted twice with the same token"},
	LowerToken:      {[]string{"INV-04", "LIN-01"}, (*plot).regrant, "a key is granted with a lower token than before"},
	UnloggedGrant:   {[]string{"INV-04", "DUR-01"}, (*plot).regrant, "an acquire is answered with a grant that is in no log"},
	LoweredFence:    {[]string{"INV-05"}, (*plot).loweredFence, "a claim sets the fence lower than it was"},
	LoweredMark:     {[]string{"INV-05"}, (*plot).loweredMark, "a submission sets the rail's mark lower than it was"},
	GrantWhileHeld:  {[]string{"INV-06", "LIN-01"}, (*plot).grantWhileHeld, "a key is granted before its grant has ended"},
	EarlyEnd:        {[]string{"INV-06"}, (*plot).earlyEnd, "a grant ends before its expiry, and nobody asked for it"},
	LapsedRenewal:   {[]string{"INV-06", "LIN-01"}, (*plot).lapsedRenewal, "a grant is renewed after it has expired"},
	UngrantedToken:  {[]string{"INV-07"}, (*plot).ungrantedToken, "a payout is worked on under a token that nobody granted"},
	LeftTerminal:    {[]string{"INV-08"}, (*plot).leftTerminal, "a FAILED payout is ABANDONED"},
	NoEvidence:      {[]string{"INV-08"}, (*plot).noEvidence, "an ambiguous payout is resolved without its row of evidence"},
	NeverEnds:       {[]string{"LIVE-01"}, (*plot).neverEnds, "a payout stays where it is"},
	LateRequest:     {[]string{"SDK-01"}, (*plot).lateRequest, "a client works on long after its lease was over"},
	UnloggedRenewal: {[]string{"DUR-01"}, (*plot).unloggedRenewal, "a renewal is answered and never committed"},
	ChangedReplay:   {[]string{"DUR-01"}, (*plot).changedReplay, "a replay is answered otherwise than its original"},
}

// Violations lists all of them.
func Violations() []Violation { return slices.Sorted(maps.Keys(violations)) }

// Breaks are the ids of the invariants that v breaks.
func (v Violation) Breaks() []string { return violations[v].Breaks }

// Says is what v is, in one sentence.
func (v Violation) Says() string { return violations[v].Says }

// On tells whether v can be seen where the lock's store is backend: etcd's log has no renewals.
func (v Violation) On(backend string) bool { return v != UnloggedRenewal || backend != etcdBackend }

// OfLocks tells whether v can be planted where nobody pays: it needs a lock and nothing else.
func (v Violation) OfLocks() bool {
	switch v {
	case RepeatedToken, LowerToken, UnloggedGrant, GrantWhileHeld, EarlyEnd, LapsedRenewal, UnloggedRenewal:
		return true
	}
	return false
}

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
