package plan

import (
	"math/rand/v2"
	"time"

	"fenceproof/checker/contract"
)

// Partition is the nemesis that cuts and holds links.
const Partition = "partition"

// Times of the partitions.
const (
	cutFirst  = 1200 * time.Millisecond // work is under way by then
	cutEvery  = 1800 * time.Millisecond // from one to the next
	cutJitter = 300 * time.Millisecond  // so that they do not come in step with anything
	cutBreak  = time.Second             // between the last one and the end of the drive

	holdEvery = 600 * time.Millisecond // steps planned per time of drive, and a third of the lease more; those that find no time are not taken
	holdSpare = 3 * time.Second        // what a held link waits for a successor beyond the lease
)

// How long cuts last: one that everybody feels, one between members of etcd, in which another one may come to lead, and,
// beyond the lease, one that costs a client its keys.
var (
	briefly     = span{150 * time.Millisecond, 450 * time.Millisecond}
	anElection  = span{700 * time.Millisecond, 1500 * time.Millisecond}
	pastTheEnd  = span{100 * time.Millisecond, 500 * time.Millisecond}
	afterAnswer = span{0, 10 * time.Millisecond}
)

// partitions are the steps of nemesis partition: cuts of every kind of link in turn, and holders whose requests are held
// until their successors were accepted, and then delivered.
func partitions(p Plan) ([]Step, error) {
	rng := rand.New(rand.NewPCG(p.Seed, 0x706172746974)) // one stream of its own: "partit"
	return append(p.cuts(rng), p.holds(rng)...), nil
}

// past draws a time that outlasts the lease.
func (p Plan) past(rng *rand.Rand) time.Duration {
	return p.Lease() + random(rng, pastTheEnd.min, pastTheEnd.max)
}

// somebody draws an executor, or a lock client.
func (p Plan) somebody(rng *rand.Rand) contract.Process {
	n, _ := p.holders()
	return p.holder(1 + rng.IntN(n))
}

// cuts cut links at times, one after the other, so that a drive of some length meets every kind.
func (p Plan) cuts(rng *rand.Rand) []Step {
	kinds := p.kindsOfCuts(rng)
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	var steps []Step
	for i := 0; ; i++ {
		at := cutFirst + time.Duration(i)*cutEvery + random(rng, 0, cutJitter)
		s := kinds[i%len(kinds)]()
		if at+time.Duration(s.For) > time.Duration(p.Drive)-cutBreak {
			return steps
		}
		s.Fault, s.At = Cut, Duration(at)
		steps = append(steps, s)
	}
}

// kindsOfCuts make a step each, which has no time yet.
func (p Plan) kindsOfCuts(rng *rand.Rand) (kinds []func() Step) {
	add := func(d Direction, long func() time.Duration, from, to func() contract.Process) {
		kinds = append(kinds, func() Step {
			s := Step{Target: Route{From: from(), To: to()}.Target(), For: Duration(long())}
			if d != BothWays {
				s.Network = &Network{Direction: d}
			}
			return s
		})
	}
	is := func(p contract.Process) func() contract.Process { return func() contract.Process { return p } }
	client := func() contract.Process { return p.somebody(rng) }
	brief := func() time.Duration { return random(rng, briefly.min, briefly.max) }
	past := func() time.Duration { return p.past(rng) }
	keepers := p.lockBackend()
	add(BothWays, past, client, is(contract.LockServer))
	add(OfAnswers, past, client, is(contract.LockServer))
	add(BothWays, brief, is(contract.LockServer), is(Anything))
	add(OfAnswers, brief, is(contract.LockServer), is(Anything))
	if p.forLocks() {
		add(BothWays, past, is(contract.LockServer), is(keepers[0]))
		add(OfRequests, past, client, is(contract.LockServer))
		add(OfAnswers, brief, is(AnyLockClient), is(contract.LockServer))
	} else {
		add(BothWays, past, client, is(Anything))
		add(BothWays, past, client, func() contract.Process { return pick(rng, contract.PaymentResource, contract.RailProxy) })
		add(OfAnswers, brief, client, func() contract.Process { return pick(rng, contract.PaymentResource, contract.RailProxy) })
		add(BothWays, brief, is(contract.PaymentResource), is(contract.PayDB))
		add(OfAnswers, brief, is(contract.RailProxy), func() contract.Process { return pick(rng, contract.PayDB, contract.RailStub) })
		add(BothWays, brief, is(contract.Reconciler), is(Anything))
	}
	if len(keepers) > 1 {
		member := func() contract.Process { return pick(rng, keepers...) }
		apart := func(one contract.Process) func() Step {
			return func() Step {
				return Step{Target: Route{one, AnyMember, true}.Target(), For: Duration(random(rng, anElection.min, anElection.max))}
			}
		}
		kinds = append(kinds, apart(contract.Process(EtcdLeader)), apart(contract.Process(EtcdLeader)), apart(pick(rng, keepers...)))
		add(BothWays, past, is(contract.LockServer), member)
		add(OfRequests, past, member, is(AnyMember))
	}
	return kinds
}

// holds keep back what a holder sends, until his successor has been accepted where it goes to: then it arrives, and is
// stale. Half of the holders lose their leases by it, as nothing that they send arrives anywhere; others can still give their
// keys back. One in eight is cut off from the lock server alone, which he must notice himself.
func (p Plan) holds(rng *rand.Rand) []Step {
	drive := time.Duration(p.Drive)
	first, every := rng.IntN(aims), holdEvery+p.Lease()/3
	var steps []Step
	for i := 0; ; i++ {
		at := time.Duration(i)*every + random(rng, 0, holdEvery/2)
		if at > max(0, drive-p.Lease()-minPause) {
			return steps
		}
		s := Step{Fault: Hold, At: Duration(at), For: Duration(min(p.Lease()+holdSpare, drive-at)), Network: &Network{Direction: OfRequests}}
		p.aim(&s, first+i)
		s.Delay = Duration(random(rng, afterAnswer.min, afterAnswer.max))
		steps = append(steps, s)
	}
}

// aims is how many kinds of steps for holders there are.
const aims = 8

// aim gives the n-th of the steps for holders its link and its events.
func (p Plan) aim(s *Step, n int) {
	to := contract.Process(Anything)
	if p.forLocks() {
		s.On, s.Until, to = AcquireOK, SuccessorGranted, contract.LockServer
	} else {
		switch n % aims {
		case 0, 4:
			s.On = SubmittedOK
		case 2, 6:
			s.On, to = SubmittedOK, contract.RailProxy
		case 1:
			s.On = OutcomeOK
		case 3:
			s.On, to = SubmitOK, contract.PaymentResource
		case 5:
			s.On = ClaimOK
		case 7:
			s.Fault, s.On, to, s.Network = Cut, ClaimOK, contract.LockServer, nil
		}
		s.Until = NextFence(s.On)
	}
	s.Target = Route{From: contract.Process(Holder), To: to}.Target()
}

// pick draws one of several.
func pick[T any](rng *rand.Rand, all ...T) T { return all[rng.IntN(len(all))] }
