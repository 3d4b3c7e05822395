package model

import "fmt"

// Payout is what the tables, the rail and the ledger hold of one payout.
type Payout struct {
	State   PayoutState
	Claim   Token   // claim_token, 0 while nobody has claimed
	Attempt Finding // the record of its attempt: NoFinding, Open, Acked, Rejected or Timeout
	Moved   uint8   // transfers at the rail
	Debited uint8   // how often the account was debited for it
}

// Books is what the resources hold: everything that a request can change.
type Books struct {
	Payouts [Payouts]Payout
	Balance Money
	Fence   Token // account.fence: the highest token that is shut out
	Mark    Token // rail_high_water.highest_token, 0 for none
	Highest Token // the highest token of a mutation so far; no resource stores it, INV-01 remembers it
}

// Stage is where an executor stands.
type Stage uint8

// The stages.
const (
	Idle     Stage = iota // without a grant
	Granted               // it has a grant and has not chosen yet
	Looking               // it is about to look for the payout's attempt
	Sending               // it is about to send Next
	Reviving              // by mistake: it is about to take a fresh token for what was refused
)

// Executor is a process that works under grants. In Sending with a Forward it stands for the proxy that works for it.
type Executor struct {
	Stage  Stage
	Grants uint8   // taken so far
	Next   Request // Sending: the request. Granted, Looking: its token and payout. Idle: nothing
}

// Late is a request that its sender no longer waits for: given up, or a copy.
type Late struct {
	Request  Request
	Answered bool // a copy of a request that took effect: its answer is stored
}

// State is everything there is. It is comparable, and equal states have equal futures.
type State struct {
	Books
	Executors [MaxExecutors]Executor
	Late      [MaxLate]Late // sorted, empty places last
	Copies    uint8         // how many more requests may become late
	NextToken Token
	Holder    uint8 // who holds the lock: the executor's number + 1, 0 for nobody
}

// release takes the grant from executor i, if it is still the holder.
func (s *State) release(i int) {
	s.Executors[i] = Executor{Grants: s.Executors[i].Grants}
	if int(s.Holder) == i+1 {
		s.Holder = 0
	}
}

// addLate puts a request on the way.
func (s *State) addLate(l Late) {
	for i := range s.Late {
		if s.Late[i].Request.Op == NoOp || less(l, s.Late[i]) {
			s.Late[i], l = l, s.Late[i]
		}
		if l.Request.Op == NoOp {
			return
		}
	}
	panic("model: more requests are late than a state has room for")
}

// dropLate takes request i off the way.
func (s *State) dropLate(i int) {
	copy(s.Late[i:], s.Late[i+1:])
	s.Late[MaxLate-1] = Late{}
}

// less orders late requests; which order it is does not matter.
func less(a, b Late) bool { return a.rank() < b.rank() }

func (l Late) rank() uint64 {
	q := l.Request
	r := uint64(q.Op)<<40 | uint64(q.Payout)<<32 | uint64(q.Token)<<24 | uint64(q.Expected)<<16 | uint64(q.Finding)<<8
	if l.Answered {
		r++
	}
	return r
}

// onItsWay tells whether money may still move for a payout without anybody asking anew.
func (s *State) onItsWay(payout int) bool {
	for _, e := range s.Executors {
		if e.Stage == Sending && e.Next.Op.Forwards() && int(e.Next.Payout) == payout {
			return true
		}
	}
	for _, l := range s.Late {
		if l.Request.Op.Forwards() && int(l.Request.Payout) == payout {
			return true
		}
	}
	return false
}

// posted tells whether a payout is.
func (b *Books) posted() bool {
	for i := range b.Payouts {
		if b.Payouts[i].State == Posted {
			return true
		}
	}
	return false
}

// String shows the books on one line.
func (b Books) String() string {
	s := fmt.Sprintf("balance %d fence %d mark %d", b.Balance, b.Fence, b.Mark)
	for i, p := range b.Payouts {
		s += fmt.Sprintf(" | P%d %v claim %d attempt %v moved %d debited %d", i, p.State, p.Claim, p.Attempt, p.Moved, p.Debited)
	}
	return s
}
