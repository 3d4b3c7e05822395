package plan

import (
	"math/rand/v2"
	"slices"
	"time"

	"fenceproof/checker/contract"
)

// services are the processes of a stack that are no executors. A step on one of them begins at a time.
func services() []Target {
	var all []Target
	for _, p := range []contract.Process{contract.LockServer, contract.PaymentResource, contract.RailProxy, contract.RailStub,
		contract.Reconciler, contract.LockDB, contract.PayDB} {
		all = append(all, Target(p))
	}
	return all
}

// Executor tells whether t is an executor, by name or as the holder.
func (t Target) Executor() bool { return t == Holder || contract.Process(t).IsExecutor() }

// Times of the pauses of services.
const (
	longEnough    = 20 * time.Second       // a plan that drives for less has no time for them
	serviceFirst  = 2 * time.Second        // work is under way by then
	serviceEvery  = 4 * time.Second        // from one to the next; they never overlap
	serviceJitter = 500 * time.Millisecond // so that they do not come in step with anything
	serviceBreak  = time.Second            // between the last one and the end of the drive
)

// The pauses' lengths: every third one outlasts the lease of the run profile (1 s), and none comes near what the
// settlement window leaves (see HeldFor). Together they stay short: what is not paid meanwhile must be paid in the drain.
var serviceLengths = [3]struct{ min, max time.Duration }{
	{1050 * time.Millisecond, 1300 * time.Millisecond},
	{150 * time.Millisecond, 400 * time.Millisecond},
	{150 * time.Millisecond, 400 * time.Millisecond},
}

// WithServicePauses is p with a pause of every other process in turn, in an order that p's seed decides, where the
// drive is long enough for them. Steps stay in the order of their times.
func WithServicePauses(p Plan) Plan {
	if time.Duration(p.Drive) < longEnough {
		return p
	}
	rng := rand.New(rand.NewPCG(p.Seed, 0x7365727669636573)) // one stream of its own: "services"
	turn := services()
	rng.Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
	first := rng.IntN(len(serviceLengths))
	steps := slices.Clone(p.Steps)
	for i := 0; ; i++ {
		at := serviceFirst + time.Duration(i)*serviceEvery + random(rng, 0, serviceJitter)
		length := serviceLengths[(i+first)%len(serviceLengths)]
		last := random(rng, length.min, length.max)
		if at+last > time.Duration(p.Drive)-serviceBreak {
			break
		}
		steps = append(steps, Step{Fault: Pause, Target: turn[i%len(turn)], At: Duration(at), For: Duration(last)})
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return int(a.At - b.At) })
	p.Steps = steps
	return p
}

// random draws a duration of whole milliseconds.
func random(rng *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rng.Int64N(int64(most-least))).Round(time.Millisecond)
}
