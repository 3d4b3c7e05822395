package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"fenceproof/checker/contract"
)

// LockWorkload and PayoutWorkload are the workloads.
const (
	PayoutWorkload = "payout"
	LockWorkload   = "lock"
)

// Locks is the load on the lock: clients that take keys and give them back, as the lock workload or beside the payouts.
type Locks struct {
	// Clients is how many client processes there are, each with a link of its own; Sessions is how many sessions each of
	// them has at once; Keys is how many keys they are all at.
	Clients  int `json:"clients"`
	Sessions int `json:"sessions"`
	Keys     int `json:"keys"`
	// Rate is how many turns per second they take together, 0 for as many as they can. A turn is a key taken and given
	// back, or not granted.
	Rate float64 `json:"rate,omitempty"`
	// Hold is for how long a grant is held at most, unless it is to run out.
	Hold Duration `json:"hold,omitempty"`
	// Lapses is the share of turns, 0 to 1, in which a client lets its lease run out, or its session with it.
	Lapses float64 `json:"lapses,omitempty"`
	// Revokes is how many grants per second an operator revokes, 0 for none.
	Revokes float64 `json:"revokes,omitempty"`
}

// AnyLockClient stands in a link for whichever lock client sends the message first.
const AnyLockClient = "lock-client-*"

// Limits of the load on the lock.
const (
	MaxLockClients  = 64
	MaxLockSessions = 64
	MaxLockKeys     = 1_000
	MaxLockHold     = 200 * time.Millisecond // far below the shortest lease
	MaxRevokes      = 100
)

func (l Locks) validate() error {
	var errs []error
	within := func(name string, n, most int) {
		if n < 1 || n > most {
			errs = append(errs, fmt.Errorf("%s is %d; 1 to %d", name, n, most))
		}
	}
	within("clients", l.Clients, MaxLockClients)
	within("sessions", l.Sessions, MaxLockSessions)
	within("keys", l.Keys, MaxLockKeys)
	if !(l.Rate >= 0 && l.Rate <= MaxRate) {
		errs = append(errs, fmt.Errorf("rate is %v turns per second; 0 for no limit, at most %d", l.Rate, MaxRate))
	}
	if l.Hold < 0 || time.Duration(l.Hold) > MaxLockHold || l.Hold%Duration(time.Millisecond) != 0 {
		errs = append(errs, fmt.Errorf("hold is %s; 0 to %s, in whole milliseconds", l.Hold, MaxLockHold))
	}
	if !(l.Lapses >= 0 && l.Lapses <= 1) {
		errs = append(errs, fmt.Errorf("lapses is %v; a share of all turns is 0 to 1", l.Lapses))
	}
	if !(l.Revokes >= 0 && l.Revokes <= MaxRevokes) {
		errs = append(errs, fmt.Errorf("revokes is %v per second; 0 for none, at most %d", l.Revokes, MaxRevokes))
	}
	return errors.Join(errs...)
}

// validateLocks refuses what a plan of the lock workload cannot mean: everything that is about payouts.
func (p Plan) validateLocks() (errs []error) {
	if p.Locks == nil {
		errs = append(errs, fmt.Errorf("workload %s needs \"locks\": {\"clients\": 6, \"sessions\": 3, \"keys\": 4}", LockWorkload))
	}
	for name, given := range map[string]bool{
		"executors": p.Executors != 0, "accounts": p.Accounts != 0, "rate": p.Rate != 0, "payouts": p.Payouts != 0, "funds": p.Funds != 0, "prepare": p.Prepare != 0,
		"declines": p.Declines != 0, "lostReplies": p.LostReplies != 0, "lookupLag": p.LookupLag != 0, "audits": p.Audits != 0,
	} {
		if given {
			errs = append(errs, fmt.Errorf("workload %s has no payouts: leave %q out", LockWorkload, name))
		}
	}
	return errs
}

// forLocks tells whether p is a plan of the lock workload.
func (p Plan) forLocks() bool { return p.Workload == LockWorkload }

// holders is how many processes p has that can be stopped while they hold a key, and what they are called.
func (p Plan) holders() (n int, noun string) {
	if !p.forLocks() {
		return p.Executors, "executors"
	}
	if p.Locks == nil {
		return 0, "lock clients"
	}
	return p.Locks.Clients, "lock clients"
}

// holder is the name of the n-th of them.
func (p Plan) holder(n int) contract.Process {
	if p.forLocks() {
		return contract.LockClient(n)
	}
	return contract.Executor(n)
}

// Times of the pauses of lock clients.
const (
	lockPauseEvery = time.Second
	lockPauseDelay = 5 * time.Millisecond
)

// lockPauses stops lock clients while they hold a key, until somebody else was granted it. What they do next under their
// grant is stale.
func lockPauses(p Plan) []Step {
	rng := rand.New(rand.NewPCG(p.Seed, 0x6c6f636b73)) // one stream of its own: "locks"
	drive := time.Duration(p.Drive)
	var steps []Step
	for i := 0; ; i++ {
		at := time.Duration(i)*lockPauseEvery + random(rng, 0, lockPauseEvery/2)
		if at > max(0, drive-minPause) {
			return steps
		}
		steps = append(steps, Step{Fault: Pause, Target: Holder, At: Duration(at), On: AcquireOK, Delay: Duration(lockPauseDelay),
			Until: SuccessorGranted, For: Duration(min(maxPause, drive-at))})
	}
}

// lockLinks lists the links of the lock workload.
func (p Plan) lockLinks() []Target {
	clients := []contract.Process{contract.Process(Holder), AnyLockClient, contract.LockOperator}
	n, _ := p.holders()
	for i := 1; i <= min(n, MaxLockClients); i++ {
		clients = append(clients, contract.LockClient(i))
	}
	var all []Target
	for _, c := range clients {
		all = append(all, Target(contract.Link{From: c, To: contract.LockServer}.String()))
	}
	return all
}

// anyClient tells whether p stands for whichever client of its kind comes first.
func anyClient(p contract.Process) bool { return strings.HasSuffix(string(p), "-*") }
