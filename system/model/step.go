package model

// Successors appends every step that s allows to steps and returns it, always in the same order.
func (p *Protocol) Successors(s State, steps []Step) []Step {
	b := builder{p, s, steps}
	if s.Holder != 0 {
		next := s
		next.Holder = 0
		b.add(Step{Action: Action{Kind: Expire}, Next: next})
	}
	for i := range s.Late {
		if s.Late[i].Request.Op != NoOp {
			b.arrive(i)
		}
	}
	for i := range p.Executors {
		b.act(i)
	}
	return b.steps
}

// builder collects the steps that one state allows.
type builder struct {
	*Protocol
	s     State
	steps []Step
}

func (b *builder) add(s Step) { b.steps = append(b.steps, s) }

// fates are what may become of q: one for a request, those of the world for a call to the rail.
func (b *builder) fates(q Request) []Fate {
	if q.Op.Forwards() {
		return b.Fates
	}
	return []Fate{Acknowledged}
}

// arrive lets late request i arrive.
func (b *builder) arrive(i int) {
	late := b.s.Late[i]
	for _, fate := range b.fates(late.Request) {
		step := Step{Action: Action{Kind: Arrive, Request: late.Request, Fate: fate}, Next: b.s}
		step.Next.dropLate(i)
		if late.Answered {
			step.Answer = Answer{Code: Replayed, State: b.s.Payouts[late.Request.Payout].State, Guards: GuardSet(Replay)}
			b.add(step)
			continue
		}
		step.Next.Books, step.Answer, step.Violations = b.Apply(b.s.Books, late.Request, fate)
		if step.Answer.Code == Forwarding {
			step.Next.addLate(Late{Request: late.Request.Forwarding(step.Answer)})
		}
		b.add(step)
	}
}

// Forwarding is the call to the rail that follows the submission q, which was answered a.
func (q Request) Forwarding(a Answer) Request {
	q.Op = Forward
	if a.Record != NoFinding {
		q.Op = ForwardUnrecorded
	}
	return q
}

// act lets executor i do what it may do next.
func (b *builder) act(i int) {
	e := b.s.Executors[i]
	if e.Stage == Idle {
		if b.s.Holder == 0 && int(e.Grants) < b.World.Grants {
			e.Grants++
			b.acquire(i, Executor{Stage: Granted, Grants: e.Grants})
		}
		return
	}
	b.end(Step{Action: Action{Kind: Die, Executor: uint8(i)}, Next: b.s})
	switch e.Stage {
	case Granted:
		b.reconcile(i, e.Next.Token)
		b.pick(i, e)
	case Looking:
		b.look(i, e)
	case Reviving:
		if b.s.Holder == 0 {
			b.acquire(i, Executor{Stage: Sending, Grants: e.Grants, Next: Request{Op: Submit, Payout: e.Next.Payout}})
		}
	case Sending:
		if b.s.Copies > 0 {
			step := Step{Action: Action{Kind: GiveUp, Executor: uint8(i), Request: e.Next}, Next: b.s}
			step.Next.Copies--
			step.Next.addLate(Late{Request: e.Next})
			b.end(step)
		}
		for _, fate := range b.fates(e.Next) {
			b.send(i, fate)
		}
	}
}

// end adds a step with which its executor's grant ends.
func (b *builder) end(s Step) {
	s.Next.release(int(s.Action.Executor))
	b.add(s)
}

// acquire grants the lock to executor i, which goes on as e says.
func (b *builder) acquire(i int, e Executor) {
	next := b.s
	e.Next.Token = next.NextToken
	next.NextToken += max(b.TokenStep, 1)
	next.Holder, next.Executors[i] = uint8(i+1), e
	b.add(Step{Action: Action{Kind: Acquire, Executor: uint8(i), Request: Request{Token: e.Next.Token}}, Next: next})
}

// reconcile lets the holder act as the reconciler, or as the operator: one payout, and then it releases.
func (b *builder) reconcile(i int, t Token) {
	for k, at := range b.s.Payouts {
		q := Request{Op: Resolve, Payout: uint8(k), Token: t}
		if at.State == RailAmbiguous {
			switch {
			case at.Moved > 0:
				q.Finding = Acked
				b.resolve(i, q)
			case !b.on(Settled) || !b.s.onItsWay(k):
				q.Finding = Absent
				b.resolve(i, q)
			}
		}
		if b.Operator && (at.State == RailAmbiguous || at.State == Pending) {
			q.Finding = ByOperator
			b.resolve(i, q)
		}
	}
}

func (b *builder) resolve(i int, q Request) {
	step := Step{Action: Action{Kind: Send, Executor: uint8(i), Request: q}, Next: b.s}
	step.Next.Books, step.Answer, step.Violations = b.Apply(b.s.Books, q, Acknowledged)
	b.end(step)
}

// pick lets the holder choose: what is in flight first, and only then a payout that nobody has begun.
func (b *builder) pick(i int, e Executor) {
	inFlight := false
	for _, at := range b.s.Payouts {
		inFlight = inFlight || at.State.inFlight()
	}
	for k, at := range b.s.Payouts {
		if !at.State.inFlight() && (at.State != Pending || (inFlight && b.on(Reread))) {
			continue
		}
		q := Request{Op: Claim, Payout: uint8(k), Token: e.Next.Token, Expected: at.State}
		b.goOn(Pick, i, Executor{Stage: Sending, Grants: e.Grants, Next: q})
	}
}

// look lets the record of the attempt decide what a holder does with a payout in RAIL_SUBMITTED.
func (b *builder) look(i int, e Executor) {
	e.Stage = Sending
	record := b.s.Payouts[e.Next.Payout].Attempt
	e.Next.Op = Submit
	if record != NoFinding && !b.Mistakes.Has(Resubmit) {
		e.Next = outcome(e.Next, record)
	}
	b.goOn(Look, i, e)
}

// goOn adds a step of executor i that no resource sees.
func (b *builder) goOn(kind Kind, i int, e Executor) {
	next := b.s
	next.Executors[i] = e
	b.add(Step{Action: Action{Kind: kind, Executor: uint8(i), Request: Request{Token: e.Next.Token, Payout: e.Next.Payout}}, Next: next})
}

// outcome is the request that reports a record. One without a definite end is unknown, for good.
func outcome(q Request, record Finding) Request {
	if record != Acked && record != Rejected {
		record = Timeout
	}
	return Request{Op: Outcome, Payout: q.Payout, Token: q.Token, Finding: record}
}

// send lets executor i's request arrive and the answer come back; a copy may stay on the way.
func (b *builder) send(i int, fate Fate) {
	q := b.s.Executors[i].Next
	step := Step{Action: Action{Kind: Send, Executor: uint8(i), Request: q, Fate: fate}, Next: b.s}
	step.Next.Books, step.Answer, step.Violations = b.Apply(b.s.Books, q, fate)
	if e, on := b.after(b.s.Executors[i], step.Answer); on {
		step.Next.Executors[i] = e
		if e.Stage == Reviving && int(step.Next.Holder) == i+1 {
			step.Next.Holder = 0
		}
	} else {
		step.Next.release(i)
	}
	b.add(step)
	if b.s.Copies > 0 && !q.Op.Forwards() {
		step.Action.Copied = true
		step.Next.Copies--
		step.Next.addLate(Late{q, b.on(Replay) && stored(q.Op, step.Answer)})
		b.add(step)
	}
}

// stored tells whether the answer to a request is kept: it took effect, at a resource that keeps answers.
func stored(op Op, a Answer) bool {
	return op < Submit && (a.Code == OK || (op == Claim && a.Code == NoFunds))
}

// after is how an executor goes on after an answer; false: it releases its grant.
func (b *builder) after(e Executor, a Answer) (Executor, bool) {
	q := e.Next
	e.Next = Request{Payout: q.Payout, Token: q.Token}
	switch {
	case q.Op == Claim && a.Code == OK:
		switch a.State {
		case Claimed:
			e.Next.Op = Submitted
		case RailSubmitted:
			e.Stage = Looking
		default:
			e.Next.Op = Post
		}
	case q.Op == Submitted && a.Code == OK:
		e.Next.Op = Submit
	case q.Op == Submit && a.Code == Forwarding:
		e.Next = q.Forwarding(a)
	case q.Op == Submit && a.Code == Duplicate, q.Op.Forwards():
		e.Next = outcome(q, a.Record)
	case q.Op == Outcome && a.Code == OK && q.Finding == Acked:
		e.Next.Op = Post
	case q.Op == Submit && a.Code == FencedOut && b.Mistakes.Has(FreshToken):
		e.Stage, e.Next.Token = Reviving, 0
	default:
		return e, false
	}
	return e, true
}
