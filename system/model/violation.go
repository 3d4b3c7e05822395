package model

// Violation is one way in which a step breaks an invariant.
type Violation uint8

// The violations.
const (
	TokenWentDown   Violation = iota // INV-01: a mutation under a token below one that was accepted before
	PaidTwice                        // INV-02: the rail moved a payout's money twice
	PostedTwice                      // INV-03: a payout was debited twice
	MovedButFailed                   // INV-03: a FAILED payout's money has moved
	StaleAtAccount                   // INV-05: the fence went down, or a post passed at or below it
	StaleAtRail                      // INV-05: a submission at or below the mark went to the rail
	FailedPosted                     // INV-08: a FAILED payout was posted
	Overdrawn                        // LIVE-01: money has moved, and the account can never cover it
	UnfencedClaim                    // INV-05: a stale claim got another answer than FENCED_OUT
	UnfencedMove                     // INV-05: so did a stale submitted or outcome
	UnfencedPost                     // INV-05: so did a stale post
	UnfencedResolve                  // INV-05: so did a stale resolve
	UnfencedSubmit                   // INV-05: so did a stale submission
	NeverPosted                      // LIVE-01: no schedule at all posts a payout; it has no schedule
	violationCount
)

var violations = [violationCount]struct{ name, invariant string }{
	{"token-went-down", "INV-01"}, {"paid-twice", "INV-02"}, {"posted-twice", "INV-03"}, {"moved-but-failed", "INV-03"},
	{"stale-at-account", "INV-05"}, {"stale-at-rail", "INV-05"}, {"failed-posted", "INV-08"}, {"overdrawn", "LIVE-01"},
	{"unfenced-claim", "INV-05"}, {"unfenced-move", "INV-05"}, {"unfenced-post", "INV-05"}, {"unfenced-resolve", "INV-05"},
	{"unfenced-submit", "INV-05"}, {"never-posted", "LIVE-01"},
}

func (v Violation) String() string { return violations[v].name }

// Invariant is the id of the invariant that falls with v.
func (v Violation) Invariant() string { return violations[v].invariant }

// Violations is a set of violations.
type Violations uint16

// ViolationSet is the set of these violations.
func ViolationSet(vs ...Violation) Violations {
	var s Violations
	for _, v := range vs {
		s.add(v)
	}
	return s
}

// Has tells whether v is in the set.
func (s Violations) Has(v Violation) bool { return s&(1<<v) != 0 }

func (s *Violations) add(v Violation) { *s |= 1 << v }

func (s *Violations) addIf(cond bool, v Violation) {
	if cond {
		s.add(v)
	}
}

// List is the set in the order of declaration.
func (s Violations) List() []Violation {
	var in []Violation
	for v := range violationCount {
		if s.Has(v) {
			in = append(in, v)
		}
	}
	return in
}
