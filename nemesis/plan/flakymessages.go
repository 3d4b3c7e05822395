package plan

import (
	"math/rand/v2"
	"time"

	"fenceproof/checker/contract"
)

// Times of the faults of single messages.
const (
	messageEvery  = 280 * time.Millisecond // from one to the next
	messageJitter = 120 * time.Millisecond // so that they do not come in step with anything
	railLate      = 400 * time.Millisecond // a transfer is late by this: past the proxy's timeout, and far from the settlement window
	overtakenIn   = 2 * time.Second        // how long a request waits for one that overtakes it
)

var (
	pastLease = span{150 * time.Millisecond, 400 * time.Millisecond} // beyond the lease
	soonAgain = span{0, 60 * time.Millisecond}                       // a copy that comes while its grant is alive
)

// messages are the faults of single messages: of every kind in turn, each on an operation and a link that the seed draws.
func messages(p Plan) []Step {
	rng := rand.New(rand.NewPCG(p.Seed, 0x6d65737361676573)) // "messages"
	kinds := []func(Plan, *rand.Rand) Step{answerLost, sentAgain, lateAtRail, outOfOrder, lateWrite, answerLost, sentAgainLate, late, requestLost}
	turn := rng.IntN(len(kinds))
	var steps []Step
	for i := 0; ; i++ {
		s := kinds[(turn+i)%len(kinds)](p, rng)
		s.At = Duration(cutFirst + time.Duration(i)*messageEvery + random(rng, 0, messageJitter))
		if time.Duration(s.At) > time.Duration(p.Drive)-cutBreak {
			return steps
		}
		if s.Until != "" {
			s.For = min(s.For, p.Drive-s.At)
		}
		if s.At+s.For+s.Delay <= p.Drive && (s.Until == "" || s.For > Duration(minPause)) { // late in the drive nothing is late
			steps = append(steps, s)
		}
	}
}

func answerLost(p Plan, rng *rand.Rand) Step {
	l, op := p.hit(rng, p.talk())
	return Step{Fault: Drop, Target: l, Message: &Message{Side: Answer, Op: op}}
}

func requestLost(p Plan, rng *rand.Rand) Step {
	l, op := p.hit(rng, p.talk())
	return Step{Fault: Drop, Target: l, Message: &Message{Side: Request, Op: op}}
}

// sentAgain repeats a request while its client is still at it.
func sentAgain(p Plan, rng *rand.Rand) Step {
	l, op := p.hit(rng, p.writes())
	return Step{Fault: Duplicate, Target: l, Message: &Message{Side: Request, Op: op}, Delay: Duration(random(rng, soonAgain.min, soonAgain.max))}
}

// sentAgainLate repeats a request when its client's grant is long over.
func sentAgainLate(p Plan, rng *rand.Rand) Step {
	s := sentAgain(p, rng)
	s.Delay = p.pastLease(rng)
	return s
}

// late delays a message past the lease of its client.
func late(p Plan, rng *rand.Rand) Step {
	l, op := p.hit(rng, p.talk())
	s := Step{Fault: Delay, Target: l, Message: &Message{Side: pick(rng, Request, Request, Answer), Op: op}, For: p.pastLease(rng)}
	if op == contract.OpTransfer {
		s.For = Duration(railLate)
	}
	return s
}

// outOfOrder lets a request arrive after a later one.
func outOfOrder(p Plan, rng *rand.Rand) Step {
	l, op := p.hit(rng, p.writes())
	s := Step{Fault: Reorder, Target: l, Message: &Message{Side: Request, Op: op}, For: Duration(overtakenIn)}
	if aboutPayout(op) {
		s.Message.Behind = pick(rng, BehindLink, BehindPayout)
	}
	return s
}

// lateWrite delays a write of a holder until somebody else has the key, and has been let through where the write goes: it
// arrives as a zombie's.
func lateWrite(p Plan, rng *rand.Rand) Step {
	op, until := pick(rng, contract.OpClaim, contract.OpSubmitted, contract.OpOutcome, contract.OpPost), SuccessorClaimed
	to := contract.Link{From: AnyExecutor, To: contract.PaymentResource}
	if p.forLocks() {
		op, until = pick(rng, contract.OpRenew, contract.OpRelease), SuccessorGranted
		to = contract.Link{From: AnyLockClient, To: contract.LockServer}
	}
	return Step{Fault: Delay, Target: Target(to.String()), Message: &Message{Side: Request, Op: op}, Until: until, For: Duration(maxPause)}
}

// lateAtRail is lateWrite at the other fence point.
func lateAtRail(p Plan, rng *rand.Rand) Step {
	s := lateWrite(p, rng)
	if !p.forLocks() {
		s.Target, s.Message.Op = Target(contract.Link{From: AnyExecutor, To: contract.RailProxy}.String()), contract.OpSubmit
		s.Until = SuccessorAtRail
	}
	return s
}

func (p Plan) pastLease(rng *rand.Rand) Duration {
	return Duration(p.Lease() + random(rng, pastLease.min, pastLease.max))
}

// spoken is an operation on a link.
type spoken struct {
	link contract.Link
	op   contract.Op
}

// hit draws one of the operations.
func (p Plan) hit(rng *rand.Rand, all []spoken) (Target, contract.Op) {
	s := pick(rng, all...)
	return Target(s.link.String()), s.op
}

// talk is all that is said in p's run again and again. Executors open a session when they start and close it when they end.
func (p Plan) talk() (all []spoken) {
	add := func(from, to contract.Process, ops ...contract.Op) {
		for _, op := range ops {
			all = append(all, spoken{contract.Link{From: from, To: to}, op})
		}
	}
	if p.forLocks() {
		add(AnyLockClient, contract.LockServer, operations(contract.Link{From: AnyLockClient, To: contract.LockServer})...)
		if p.Locks.Revokes > 0 {
			add(contract.LockOperator, contract.LockServer, contract.OpInspect, contract.OpRevoke)
		}
		return all
	}
	add(AnyExecutor, contract.LockServer, contract.OpHeartbeat, contract.OpAcquire, contract.OpRenew, contract.OpRelease)
	add(AnyExecutor, contract.PaymentResource, contract.OpListPayouts, contract.OpClaim, contract.OpSubmitted, contract.OpOutcome, contract.OpPost)
	add(AnyExecutor, contract.RailProxy, contract.OpSubmit)
	add(contract.RailProxy, contract.RailStub, contract.OpTransfer)
	if p.LostReplies > 0 {
		add(contract.Reconciler, contract.LockServer, contract.OpAcquire, contract.OpRelease)
		add(contract.Reconciler, contract.PaymentResource, contract.OpListPayouts, contract.OpResolve)
		add(contract.Reconciler, contract.RailStub, contract.OpLookup)
	}
	return all
}

// writes are those of talk that change something and may come twice.
func (p Plan) writes() (all []spoken) {
	for _, s := range p.talk() {
		if !s.op.Read() && s.op != contract.OpTransfer {
			all = append(all, s)
		}
	}
	return all
}
