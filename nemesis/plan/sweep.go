package plan

import (
	"math/rand/v2"
	"slices"
	"time"

	"fenceproof/checker/contract"
)

// Sweep is the nemesis that meets every endpoint of the contract with every fault of a single message that may happen to
// it: its answer is lost, its request is duplicated, its request is delayed past the lease. S1 is never duplicated.
const Sweep = "sweep"

// How a sweep goes about it.
const (
	sweepRounds  = 2           // how often each cell is tried: a duplicate comes soon the first time, and past the lease the second
	sweepEntries = 3           // how often in each round for L4: most who ask for a key do not get it
	sweepFirst   = time.Second // work is under way by then
	sweepRest    = time.Second // between the last fault and the end of the drive
	sweepBeyond  = 200 * time.Millisecond
	sweepRevokes = 8   // revokes per second, at least: the operator's two endpoints need somebody who calls them
	sweepAudits  = 10  // payouts per second that the auditor looks up, at least
	sweepLost    = 0.1 // the share of lost replies, at least: nobody resolves what was never in doubt
)

// sweepable is p with somebody who calls every endpoint.
func sweepable(p Plan) Plan {
	if p.forLocks() {
		locks := *p.Locks
		locks.Revokes = max(locks.Revokes, sweepRevokes)
		p.Locks = &locks
		return p
	}
	p.Audits, p.LostReplies = max(p.Audits, sweepAudits), max(p.LostReplies, sweepLost)
	return p
}

// endpoints are the endpoints of the contract that p's workload is there to put to work, and on whose links. The lock's are
// the lock workload's.
func (p Plan) endpoints() (all []spoken) {
	add := func(from, to contract.Process, ops ...contract.Op) {
		for _, op := range ops {
			all = append(all, spoken{contract.Link{From: from, To: to}, op})
		}
	}
	if p.forLocks() {
		for range sweepEntries - 1 {
			add(AnyLockClient, contract.LockServer, contract.OpAcquire)
		}
		add(AnyLockClient, contract.LockServer, contract.OpOpenSession, contract.OpHeartbeat, contract.OpCloseSession, contract.OpAcquire, contract.OpRenew, contract.OpRelease)
		add(contract.LockOperator, contract.LockServer, contract.OpInspect, contract.OpRevoke)
		return all
	}
	add(AnyExecutor, contract.PaymentResource, contract.OpListPayouts, contract.OpClaim, contract.OpPost)
	add(contract.Auditor, contract.PaymentResource, contract.OpGetPayout, contract.OpGetAccount)
	add(AnyExecutor, contract.PaymentResource, contract.OpSubmitted, contract.OpOutcome)
	add(contract.Reconciler, contract.PaymentResource, contract.OpResolve)
	add(AnyExecutor, contract.RailProxy, contract.OpSubmit)
	add(contract.RailProxy, contract.RailStub, contract.OpTransfer)
	return all
}

// sweeps are the steps of nemesis sweep: all cells in an order that the seed decides, spread over the drive, and once more.
func sweeps(p Plan) ([]Step, error) {
	rng := rand.New(rand.NewPCG(p.Seed, 0x7377656570)) // "sweep"
	late := Duration(p.Lease() + sweepBeyond)
	var steps []Step
	for round := range sweepRounds {
		var cells []Step
		for _, e := range p.endpoints() {
			request, answer := Message{Side: Request, Op: e.op}, Message{Side: Answer, Op: e.op}
			to := Target(e.link.String())
			cells = append(cells, Step{Fault: Drop, Target: to, Message: &answer}, Step{Fault: Delay, Target: to, Message: &request, For: late})
			if e.op != contract.OpTransfer {
				cells = append(cells, Step{Fault: Duplicate, Target: to, Message: &request, Delay: late * Duration(round)})
			}
		}
		rng.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
		// There is one operator, who waits long for each answer that does not come: his turn is first.
		operators := Target(contract.Link{From: contract.LockOperator, To: contract.LockServer}.String())
		slices.SortStableFunc(cells, func(a, b Step) int { return rank(b.Target == operators) - rank(a.Target == operators) })
		steps = append(steps, cells...)
	}
	room := max(0, p.Drive-Duration(sweepFirst)-late-Duration(sweepRest))
	for i := range steps {
		at := Duration(sweepFirst) + room*Duration(i)/Duration(len(steps))
		steps[i].At = at.rounded()
	}
	return steps, nil
}

func rank(first bool) int {
	if first {
		return 1
	}
	return 0
}

// rounded is d in whole milliseconds.
func (d Duration) rounded() Duration { return Duration(time.Duration(d).Round(time.Millisecond)) }
