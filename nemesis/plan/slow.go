package plan

import (
	"math/rand/v2"
	"time"

	"fenceproof/checker/contract"
)

// Times of the slow links.
const (
	slowEvery = 1500 * time.Millisecond // from one to the next
	lateEvery = 900 * time.Millisecond  // steps for holders planned per time of drive and second of lease; those that find no time are not taken
)

// How slow links are: hardly more than a busy machine is, longer than a client waits for an answer, and for how long they
// are.
var (
	slightly    = span{60 * time.Millisecond, 120 * time.Millisecond}
	noticeably  = span{150 * time.Millisecond, 400 * time.Millisecond}
	slowWhile   = span{600 * time.Millisecond, 1500 * time.Millisecond}
	atLeastLate = 300 * time.Millisecond // how long a holder's link stays slow beyond its latency
)

// slowness are the steps of nemesis slow: every kind of link in turn, and holders whose requests arrive after their lease.
func slowness(p Plan) ([]Step, error) {
	rng := rand.New(rand.NewPCG(p.Seed, 0x736c6f77)) // one stream of its own: "slow"
	return append(p.slowLinks(rng), p.lateRequests(rng)...), nil
}

// slowLinks make links slow at times, one after the other.
func (p Plan) slowLinks(rng *rand.Rand) []Step {
	kinds := p.kindsOfSlowness(rng)
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	var steps []Step
	for i := 0; ; i++ {
		at := cutFirst + time.Duration(i)*slowEvery + random(rng, 0, cutJitter)
		s := kinds[i%len(kinds)]()
		if at+time.Duration(s.For) > time.Duration(p.Drive)-cutBreak {
			return steps
		}
		s.Fault, s.At = Slow, Duration(at)
		steps = append(steps, s)
	}
}

// kindsOfSlowness make a step each, which has no time yet.
func (p Plan) kindsOfSlowness(rng *rand.Rand) (kinds []func() Step) {
	add := func(how span, kb int, from, to contract.Process) {
		kinds = append(kinds, func() Step {
			latency := random(rng, how.min, how.max)
			n := &Network{Direction: pick(rng, OfRequests, OfAnswers, BothWays), Latency: Duration(latency), Jitter: Duration((latency / 3).Round(time.Millisecond)), KBPerSecond: kb}
			client := from
			if client == "" {
				client = p.somebody(rng)
			}
			return Step{Target: Route{From: client, To: to}.Target(), Network: n, For: Duration(random(rng, slowWhile.min, slowWhile.max))}
		})
	}
	beyond := span{p.Lease() + pastTheEnd.min, p.Lease() + pastTheEnd.max}
	keepers := p.lockBackend()
	add(slightly, 0, "", Anything)
	add(noticeably, 0, "", contract.LockServer)
	add(beyond, 0, "", contract.LockServer)
	add(slightly, 16, "", Anything)
	add(slightly, 0, contract.LockServer, Anything)
	add(noticeably, 0, contract.LockServer, keepers[0])
	add(beyond, 0, contract.LockServer, pick(rng, keepers...))
	if !p.forLocks() {
		add(beyond, 0, "", contract.PaymentResource)
		add(noticeably, 0, "", contract.RailProxy)
		add(slightly, 0, contract.PaymentResource, contract.PayDB)
		add(noticeably, 0, contract.PaymentResource, contract.PayDB)
		add(slightly, 64, contract.RailProxy, contract.PayDB)
		add(noticeably, 0, contract.RailProxy, contract.RailStub)
		add(noticeably, 0, contract.Reconciler, Anything)
	}
	if len(keepers) > 1 {
		add(slightly, 0, pick(rng, keepers...), AnyMember)
		add(noticeably, 0, contract.Process(EtcdLeader), AnyMember)
	}
	return kinds
}

// lateRequests have holders' next requests arrive after their leases.
func (p Plan) lateRequests(rng *rand.Rand) []Step {
	drive := time.Duration(p.Drive)
	on := []Event{SubmittedOK, OutcomeOK, SubmittedOK, ClaimOK, SubmittedOK, SubmitOK}
	first, every := rng.IntN(len(on)), time.Duration(p.Lease().Seconds()*float64(lateEvery))
	var steps []Step
	for i := 0; ; i++ {
		at := time.Duration(i)*every + random(rng, 0, lateEvery/2)
		latency := p.past(rng)
		long := latency + atLeastLate
		if at > max(0, drive-p.Lease()-minPause) {
			return steps
		}
		s := Step{Fault: Slow, At: Duration(at), On: AcquireOK, For: Duration(min(long, drive-at)), Network: &Network{Direction: OfRequests, Latency: Duration(latency)}}
		to := contract.LockServer
		if !p.forLocks() {
			s.On = on[(first+i)%len(on)]
			if to = contract.PaymentResource; s.On == SubmittedOK {
				to = contract.RailProxy
			}
		}
		s.Target = Route{From: contract.Process(Holder), To: to}.Target()
		steps = append(steps, s)
	}
}
