// Package model is the payout protocol as an explicit-state model: one account, its payouts, executors that may take
// several grants each, a reconciler, a rail. A lease may expire, a process may die, a request may be late or doubled and
// a rail's answer may be lost between any two steps.
//
// Everything is a value. Protocol.Successors lists the steps that a State allows; Protocol.Explore visits all states
// breadth first and returns the shortest schedule to every violation. Guards can be switched off one by one, so that the
// model says what each of them is worth: it is the oracle of the tests that drive the real services, and the source of
// what to expect of a broken build.
//
// The lock is taken as perfect: tokens only increase, and at most one grant is live. What is left when the lock does
// everything right is what the two fence points are for.
package model

// Token is a fencing token, small: tests map it onto the real range by adding a base.
type Token uint8

// Money is an amount in the world's own unit.
type Money uint8

// Sizes of a State. They are constants so that a State is one comparable value without pointers.
const (
	Payouts      = 2 // payouts of the account
	MaxExecutors = 3
	MaxLate      = 4 // requests on the way at once
)

// World is what a protocol runs in: how many act, how often, and what the rail may do.
type World struct {
	Executors int // 1 to MaxExecutors
	Grants    int // how many each executor may take
	Late      int // how many requests may stay on the way after their sender gave them up, or be doubled; 0 to MaxLate
	Opening   Money
	Amounts   [Payouts]Money
	TokenStep Token // distance of one grant's token from the next; 0 means 1
	Fates     []Fate
	Operator  bool // an operator may abandon a payout that is PENDING or RAIL_AMBIGUOUS
}

// Scarce and Plenty are the worlds in which the protocol is explored: two executors with two grants each, two payouts of
// equal amount, and funds for one of them or for both and more.
func Scarce() World { return world(3) }

// Plenty is Scarce with funds for both payouts, and for half a payout more.
func Plenty() World { return world(7) }

func world(opening Money) World {
	return World{Executors: 2, Grants: 2, Opening: opening, Amounts: [Payouts]Money{2, 2},
		Fates: []Fate{Acknowledged, ReplyLost, NeverArrived}}
}

// Variant is what is missing from the protocol, or wrong with it. The zero value is the protocol as it should be.
type Variant struct {
	Off      Guards   // guards that are not there
	Mistakes Mistakes // things done wrong
	// PaymentOff and RailOff are the two fencing switches of the experiment: the fence point trusts the lock.
	PaymentOff, RailOff bool
}

// Protocol is a variant of the protocol in a world.
type Protocol struct {
	World
	Variant
}

// on tells whether a guard is in force.
func (p *Protocol) on(g Guard) bool {
	off := p.Off
	if p.PaymentOff {
		off |= tokenGuards
	}
	return !off.Has(g)
}

// Start is the state before anything has happened.
func (p *Protocol) Start() State {
	s := State{NextToken: 1, Copies: uint8(p.Late)}
	s.Balance = p.Opening
	return s
}
