package model

import "fmt"

// Kind is what kind of thing happens in a step.
type Kind uint8

// The kinds.
const (
	Expire  Kind = iota // the lease expires; the holder does not know
	Acquire             // an executor is granted the lock
	Die                 // an executor dies, or stops for good; what it was about to send is never sent
	GiveUp              // an executor gives up, and its request is still on the way
	Pick                // a holder chooses its payout
	Look                // a holder looks for the payout's attempt
	Send                // a request arrives, and its sender gets the answer
	Arrive              // a late request arrives; nobody waits for the answer
	kindCount
)

var kindNames = [kindCount]string{"lease expires", "acquires", "dies", "gives up", "picks", "looks at", "sends", "late"}

func (k Kind) String() string { return kindNames[k] }

// Action is what happens in a step. With the state before it, it says everything.
type Action struct {
	Kind     Kind
	Executor uint8   // all but Expire and Arrive
	Request  Request // Acquire: its token. Pick and Look: token and payout. GiveUp, Send, Arrive: the request
	Fate     Fate    // of a Send or Arrive that calls the rail
	Copied   bool    // Send: a copy stays on the way
}

// Step is one action, what it was answered and what it violates, and the state that it leads to.
type Step struct {
	Action     Action
	Answer     Answer // Send, Arrive
	Violations Violations
	Next       State
}

// String tells the step as a line of a schedule.
func (s Step) String() string {
	a := s.Action
	who := fmt.Sprintf("E%d ", a.Executor)
	switch a.Kind {
	case Expire:
		return "lease expires"
	case Acquire:
		return fmt.Sprintf("%sacquires T%d", who, a.Request.Token)
	case Die:
		return who + "dies"
	case GiveUp:
		return fmt.Sprintf("%sgives up, %v is on the way", who, a.Request)
	case Pick, Look:
		return fmt.Sprintf("%s%v P%d", who, a.Kind, a.Request.Payout)
	case Arrive:
		who = "late "
	}
	told := s.Answer.String()
	if a.Request.Op.Forwards() {
		told = a.Fate.String()
	}
	if a.Copied {
		told += ", a copy is on the way"
	}
	return fmt.Sprintf("%s%v: %s", who, a.Request, told)
}
