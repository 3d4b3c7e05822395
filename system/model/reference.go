package model

// Reference is one run of a protocol that remembers everything the real tables hold: what the model itself can forget,
// because no decision depends on it, and the stored answers.
type Reference struct {
	Protocol Protocol
	State    State
	Notes    [Payouts]Note
	answers  map[answerKey]answered
}

// Note is what the tables hold of a payout besides the books.
type Note struct {
	Claims       int     // attempt_count
	AttemptToken Token   // presented_token of its attempt, 0 for none
	Fenced       int     // submissions that the mark refused
	LegToken     Token   // the token that its legs carry, 0 while it has none
	Resolution   Finding // NoFinding for none
	ResolvedBy   Token   // the token of the resolution
}

type answerKey struct {
	op     Op
	payout uint8
	token  Token
}

type answered struct {
	request Request
	answer  Answer
}

// NewReference begins a run.
func NewReference(p Protocol) *Reference {
	return &Reference{Protocol: p, State: p.Start(), answers: map[answerKey]answered{}}
}

// Take follows a step that the protocol allows in the run's state.
func (r *Reference) Take(s Step) {
	before := r.State
	r.State = s.Next
	switch s.Action.Kind {
	case Send, Arrive:
		if s.Answer.Code != Replayed {
			r.note(before.Books, s.Action.Request, s.Answer)
		}
	}
}

// Deliver lets a request arrive that no executor of the model is about to send: a repetition, or anybody's idea. A
// submission that is let through is then on its way to the rail.
func (r *Reference) Deliver(q Request) Answer {
	if known, ok := r.answers[answerKey{q.Op, q.Payout, q.Token}]; ok {
		a := Answer{Code: Replayed, State: r.State.Payouts[q.Payout].State, Guards: GuardSet(Replay)}
		if known.request != q {
			a.Code = Conflict
		}
		return a
	}
	before := r.State.Books
	var a Answer
	r.State.Books, a, _ = r.Protocol.Apply(before, q, Acknowledged)
	if a.Code == Forwarding {
		r.State.addLate(Late{Request: q.Forwarding(a)})
	}
	r.note(before, q, a)
	if stored(q.Op, a) {
		r.State.answer(q)
	}
	return a
}

// Roomy tells whether one more request may be on the way.
func (s *State) Roomy() bool {
	taken := int(s.Copies)
	for _, l := range s.Late {
		if l.Request.Op != NoOp {
			taken++
		}
	}
	return taken < MaxLate
}

// answer notes that the copies of q are copies of a request that took effect.
func (s *State) answer(q Request) {
	late := s.Late
	s.Late = [MaxLate]Late{}
	for _, l := range late {
		if l.Request.Op != NoOp {
			s.addLate(Late{l.Request, l.Answered || l.Request == q})
		}
	}
}

// note writes down what a request left behind. before are the books that it found.
func (r *Reference) note(before Books, q Request, a Answer) {
	n := &r.Notes[q.Payout]
	if stored(q.Op, a) {
		r.answers[answerKey{q.Op, q.Payout, q.Token}] = answered{q, a}
	}
	switch {
	case q.Op == Submit && a.Code == FencedOut:
		n.Fenced++
	case q.Op == Submit && a.Code == Forwarding && a.Record == NoFinding:
		n.AttemptToken = q.Token
	case !stored(q.Op, a):
	case q.Op == Claim:
		n.Claims++
	case q.Op == Resolve:
		n.Resolution, n.ResolvedBy = q.Finding, q.Token
	case q.Op == Post && before.Payouts[q.Payout].Debited == 0:
		n.LegToken = q.Token
	}
}

// Answers is how many answers are stored for a payout.
func (r *Reference) Answers(payout int) int {
	n := 0
	for k := range r.answers {
		if int(k.payout) == payout {
			n++
		}
	}
	return n
}
