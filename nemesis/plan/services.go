package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"fenceproof/checker/contract"
)

// services are the processes of p's stack that are no clients of the lock. A step on one of them begins at a time.
func (p Plan) services() []Target {
	all := []Target{Target(contract.LockServer)}
	if !p.forLocks() {
		all = append(all, Target(contract.PaymentResource), Target(contract.RailProxy), Target(contract.RailStub), Target(contract.Reconciler))
	}
	for _, b := range p.lockBackend() {
		all = append(all, Target(b))
	}
	if !p.forLocks() {
		all = append(all, Target(contract.PayDB))
	}
	return all
}

// lockBackend are the processes that keep the locks of p's stack.
func (p Plan) lockBackend() []contract.Process {
	if p.Backend == BackendEtcd {
		return contract.EtcdMembers(max(p.EtcdMembers, 1))
	}
	return []contract.Process{contract.LockDB}
}

// validateBackend says what is wrong with the number of etcd's members.
func (p Plan) validateBackend() error {
	switch n := p.EtcdMembers; {
	case n == 0 || p.Backend == BackendEtcd && (n == 1 || n == 3 || n == 5):
		return nil
	case p.Backend != BackendEtcd:
		return fmt.Errorf("etcdMembers is %d, and the backend is %s", n, p.Backend)
	default:
		return fmt.Errorf("etcdMembers is %d; 1, 3 or 5: an even number survives no more deaths than one less", n)
	}
}

// Executor tells whether t is an executor, by name or as the holder.
func (t Target) Executor() bool { return t == Holder || contract.Process(t).IsExecutor() }

// holds tells whether t is somebody who holds keys: an executor, a lock client, or the holder.
func (t Target) holds() bool { return t.Executor() || contract.Process(t).IsLockClient() }

// Times of the pauses of services.
const (
	longEnough    = 20 * time.Second       // a plan that drives for less has no time for them
	serviceFirst  = 2 * time.Second        // work is under way by then
	serviceEvery  = 4 * time.Second        // from one to the next; they never overlap
	serviceJitter = 500 * time.Millisecond // so that they do not come in step with anything
	serviceBreak  = time.Second            // between the last one and the end of the drive
)

// span is how long a pause lasts, from its shortest to its longest.
type span struct{ min, max time.Duration }

// serviceLengths are the pauses' lengths: every third one outlasts the lease of the run profile, and none comes near what
// the settlement window leaves (see HeldFor). Together they stay short: what is not paid meanwhile must be paid in the
// drain.
func (p Plan) serviceLengths() [3]span {
	short := span{150 * time.Millisecond, 400 * time.Millisecond}
	return [3]span{{p.Lease() + 50*time.Millisecond, p.Lease() + 300*time.Millisecond}, short, short}
}

// Lease is how long grants and sessions of the run profile last: on etcd, whose leases are whole seconds and begin anew
// with every election, twice as long.
func (p Plan) Lease() time.Duration {
	if p.Backend == BackendEtcd {
		return 2 * time.Second
	}
	return time.Second
}

// LongestLease is the longest lease that anybody in a run of p asks for: lock clients ask for some of three times the
// shortest, so that sessions end before their grants and the other way round.
func (p Plan) LongestLease() time.Duration {
	if p.Locks != nil {
		return longLease * p.Lease()
	}
	return p.Lease()
}

// longLease is how many times the shortest a lock client's longest lease is.
const longLease = 3

// WithServicePauses is p with a pause of every other process in turn, in an order that p's seed decides, where the
// drive is long enough for them. Steps stay in the order of their times.
func WithServicePauses(p Plan) Plan {
	if time.Duration(p.Drive) < longEnough {
		return p
	}
	rng := rand.New(rand.NewPCG(p.Seed, 0x7365727669636573)) // one stream of its own: "services"
	turn, lengths := p.services(), p.serviceLengths()
	rng.Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
	first := rng.IntN(len(lengths))
	steps := slices.Clone(p.Steps)
	for i := 0; ; i++ {
		at := serviceFirst + time.Duration(i)*serviceEvery + random(rng, 0, serviceJitter)
		length := lengths[(i+first)%len(lengths)]
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
