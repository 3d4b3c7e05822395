package model

// Mask says behind which other guards a guard stands: alone it can go and nothing falls, because each of these refuses
// what it would have refused. Only without all of them its absence shows. A build that lacks a masked guard alone is
// therefore not killed by any schedule, and that is no fault of the checker.
type Mask struct {
	Guard  Guard
	Behind Guards    // all of these must be off as well
	Shows  Violation // and then this falls, which does not while the guard is on
}

// Masks lists what is known to be masked. For every guard there may be more sets than the one named here. Two guards
// are not in it although nothing falls without them, whatever else is missing: Reread is there for progress, and Replay
// for the answer; what they let through is refused elsewhere.
func Masks() []Mask {
	return []Mask{
		{TakeOver, GuardSet(ClaimFloor, OneAttempt), MovedButFailed},
		{ClaimToken, GuardSet(MoveFence, MoveState), Overdrawn},
		{MoveState, GuardSet(ClaimToken, MoveFence), Overdrawn},
		{PostState, GuardSet(PostFence, PostClaim, LedgerLeg), PostedTwice},
		{PostClaim, GuardSet(PostFence, PostState, LedgerLeg), PostedTwice},
		{LedgerLeg, GuardSet(PostFence, PostState, PostClaim), PostedTwice},
		{OneInFlight, GuardSet(ReserveInFlight), Overdrawn},
		{OneInFlight, GuardSet(Mark), StaleAtRail},
		{ReserveInFlight, GuardSet(OneInFlight), Overdrawn},
	}
}

// Bare is the variant in which the mask is off with everything that it stands behind.
func (m Mask) Bare() Variant { return Variant{Off: m.Behind | GuardSet(m.Guard)} }

// Ablation lists the variants of the ablation table: the whole protocol, every guard alone, what the masks stand
// behind, every mistake, and the fencing switches.
func Ablation() []Variant {
	all := []Variant{{}}
	for _, g := range AllGuards() {
		all = append(all, Without(g))
	}
	seen := map[Variant]bool{}
	for _, m := range Masks() {
		if v := m.Bare(); !seen[v] {
			seen[v] = true
			all = append(all, v)
		}
	}
	for m := range mistakeCount {
		all = append(all, With(m))
	}
	all = append(all, Variant{Off: GuardSet(Mark, OneAttempt)}, Variant{Off: GuardSet(OneAttempt), Mistakes: MistakeSet(FreshToken)})
	return append(all, Variant{PaymentOff: true}, Variant{RailOff: true}, Variant{PaymentOff: true, RailOff: true})
}

// Worlds are those of the ablation table: funds for one payout and for both, and so many late requests.
func Worlds(late int) []World {
	scarce, plenty := Scarce(), Plenty()
	scarce.Late, plenty.Late = late, late
	return []World{scarce, plenty}
}
