package model

import "strings"

// Guard is one comparison that keeps the protocol safe.
type Guard uint8

// The guards. Each is one predicate of one statement, or one rule of a caller.
const (
	ClaimFence       Guard = iota // claim and resolve need fence < T
	ClaimFloor                    // claim and resolve raise the fence to T − 1
	TakeOver                      // a claim needs a token above the one that the payout is claimed under
	ClaimToken                    // submitted and outcome need claim_token = T
	MoveFence                     // submitted and outcome need fence < T
	MoveState                     // submitted only from CLAIMED, outcome only from RAIL_SUBMITTED
	PostFence                     // post needs fence < T (C1 1.6 a)
	PostState                     // post only from RAIL_ACKED, once (C1 1.6 c)
	PostClaim                     // post needs claim_token <= T (C1 1.6 c)
	LedgerLeg                     // one leg per payout, account and direction (ledger_leg_uq)
	OneInFlight                   // a PENDING payout is not claimable while another of the account is in flight
	ReserveInFlight               // amounts in flight are not available
	ReserveAmbiguous              // amounts in RAIL_AMBIGUOUS are not available
	Mark                          // the proxy needs highest_token < T (C1 1.6 d)
	OneAttempt                    // one attempt per payout (rail_submission_attempt_uidx)
	Reread                        // a holder finishes what is in flight before it begins something
	Settled                       // absent is evidence only when nothing can still be on its way to the rail
	Replay                        // a request that took effect gets its stored answer again and has no second effect
	guardCount
)

var guardNames = [guardCount]string{"claim-fence", "claim-floor", "take-over", "claim-token", "move-fence", "move-state",
	"post-fence", "post-state", "post-claim", "ledger-leg", "one-in-flight", "reserve-in-flight", "reserve-ambiguous", "mark",
	"one-attempt", "reread", "settled", "replay"}

func (g Guard) String() string { return guardNames[g] }

// AllGuards lists the guards.
func AllGuards() []Guard {
	all := make([]Guard, guardCount)
	for i := range all {
		all[i] = Guard(i)
	}
	return all
}

// Guards is a set of guards.
type Guards uint32

// GuardSet is the set of these guards.
func GuardSet(guards ...Guard) Guards {
	var s Guards
	for _, g := range guards {
		s |= 1 << g
	}
	return s
}

// tokenGuards are those that compare tokens at fence point 1.
var tokenGuards = GuardSet(ClaimFence, TakeOver, ClaimToken, MoveFence, PostFence, PostClaim)

// Has tells whether g is in the set.
func (s Guards) Has(g Guard) bool { return s&(1<<g) != 0 }

// String joins the names with "+"; the empty set is "none".
func (s Guards) String() string { return join(s.Has, guardNames[:]) }

// join names the members of a set of small numbers.
func join[T ~uint8](has func(T) bool, names []string) string {
	var in []string
	for i, name := range names {
		if has(T(i)) {
			in = append(in, name)
		}
	}
	if in == nil {
		return "none"
	}
	return strings.Join(in, "+")
}
