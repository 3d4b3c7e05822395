package executor

import "fenceproof/system/payment/machine"

// step is one thing to do with a payout. Every step but look is a protected call.
type step string

const (
	stop      step = "stop"      // nothing more in this pass
	claim     step = "claim"     // P2
	look      step = "look"      // P4, for the record
	submitted step = "submitted" // P6
	submit    step = "submit"    // R1
	report    step = "outcome"   // P7
	post      step = "post"      // P3
)

// record is the payout's one attempt at the rail: a submission whose outcome is not FENCED, as P4 lists it and
// DUPLICATE_SUBMISSION shows it; or what R1 has just answered, which is the same.
type record struct {
	SubmissionID  string `json:"submissionId"`
	Outcome       string `json:"outcome"` // "" while it is open
	RailReference string `json:"railReference"`
}

// outcomeFenced marks a submission that never was an attempt.
const outcomeFenced = "FENCED"

// situation is what a holder knows about its payout.
type situation struct {
	state   machine.State
	claimed bool    // under the holder's own token
	looked  bool    // record is what is known, nil included
	record  *record // nil: there is no attempt
	// reference is the rail's, for a payout in RAIL_ACKED: the record's own, or the one that a resolution found.
	reference string
}

// next decides what to do in a situation. The state decides, and in RAIL_SUBMITTED the record does: an attempt is never
// made again, whatever became of it.
func next(s situation) step {
	if !s.claimed {
		switch s.state {
		case machine.Pending, machine.Claimed, machine.RailSubmitted, machine.RailAcked:
			return claim
		}
		return stop
	}
	switch s.state {
	case machine.Claimed:
		return submitted
	case machine.RailSubmitted:
		switch {
		case !s.looked:
			return look
		case s.record == nil:
			return submit
		}
		return report
	case machine.RailAcked:
		switch {
		case !s.looked:
			return look
		case s.record == nil || s.reference == "":
			return stop // money has moved, and nobody here knows under what name: a person has to look
		}
		return post
	}
	return stop
}

// finding is what the record lets a holder report: an attempt without a definite end is unknown, for good.
func (r *record) finding() machine.Finding {
	switch machine.Finding(r.Outcome) {
	case machine.Acked:
		return machine.Acked
	case machine.Rejected:
		return machine.Rejected
	}
	return machine.Timeout
}

// answer is what a step came back with. A step that was refused or got no answer has none, and ends the pass: the next
// holder finds out from state and record what happened.
type answer struct {
	state     machine.State // claim, submitted, outcome, post: the payout's state now
	record    *record       // look, submit: the attempt; nil: there is none
	reference string        // look: the rail's reference of a payout in RAIL_ACKED
}

// after is the situation that an answer leads to.
func (s situation) after(did step, a answer) situation {
	switch did {
	case claim:
		s.state, s.claimed = a.state, true
		// RAIL_SUBMITTED is set before the proxy is called, so that a payout in CLAIMED has no attempt.
		s.looked = a.state == machine.Claimed
	case look, submit:
		s.looked, s.record, s.reference = true, a.record, a.reference
	default:
		s.state = a.state
	}
	return s
}
