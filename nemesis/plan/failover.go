package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"fenceproof/checker/contract"
)

// lockdb is lost for good, and its streaming standby is promoted in its place. With Failover every commit waits for the
// standby before it is answered, so that nothing which was answered is lost. With FailoverAsync nothing waits, and the standby
// may lack what was answered last: it may grant tokens a second time.
const (
	Failover      Fault = "failover"
	FailoverAsync Fault = "failover-async"
)

// Times of the failovers.
const (
	failoverFirst  = 1500 * time.Millisecond
	failoverEvery  = 5 * time.Second // from the planned end of one to the next
	asyncEvery     = 9 * time.Second // the same where tokens are lost: workers wait for new ones to come past the fences
	failoverJitter = time.Second
	failoverBreak  = 5 * time.Second // from the planned end of the last one to the end of the drive: copying a server may take longer
)

// How long nothing reaches the standby before its primary is lost. Where commits wait for it nothing is answered meanwhile, so
// it is short. Where nobody waits, far more tokens have to be granted than the 32 by which a sequence is ahead in the log.
var (
	barelyBehind = span{50 * time.Millisecond, 400 * time.Millisecond}
	farBehind    = span{2500 * time.Millisecond, 3500 * time.Millisecond}
	alone        = span{100 * time.Millisecond, 600 * time.Millisecond} // without a standby, afterwards
)

// OnStandby tells whether f is done to lockdb and its standby.
func (f Fault) OnStandby() bool { return f == Failover || f == FailoverAsync }

// failovers are the steps of nemesis failover: every second time, the first one included, commits wait for the standby in vain
// when lockdb is lost, else it has all that lockdb has. Those of failover-async always find the standby behind.
func failovers(p Plan) ([]Step, error) { return p.failovers(Failover, 0x6661696c6f766572) } // "failover"

func asynchronousFailovers(p Plan) ([]Step, error) {
	return p.failovers(FailoverAsync, 0x6173796e63) // "async"
}

func (p Plan) failovers(f Fault, stream uint64) ([]Step, error) {
	if p.Backend == BackendEtcd {
		return nil, fmt.Errorf("it is about a database and its standby, and the backend is %s, whose members take over by themselves", BackendEtcd)
	}
	least := failoverFirst + failoverJitter + alone.max + barelyBehind.max + failoverBreak
	if f == FailoverAsync {
		least += farBehind.max - barelyBehind.max
	}
	if err := p.tooShort(least); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(p.Seed, stream)) // one stream of its own
	var steps []Step
	for i, at := 0, failoverFirst; ; i++ {
		s := Step{Fault: f, Target: Target(contract.LockDB), At: Duration(at + random(rng, 0, failoverJitter)), For: Duration(random(rng, alone.min, alone.max))}
		switch lag := random(rng, barelyBehind.min, barelyBehind.max); {
		case f == FailoverAsync:
			s.Delay = Duration(random(rng, farBehind.min, farBehind.max))
		case i%2 == 0:
			s.Delay = Duration(lag)
		}
		s.For += s.Delay
		if at = time.Duration(s.end()) + failoverEvery; f == FailoverAsync {
			at += asyncEvery - failoverEvery
		}
		if time.Duration(s.end()) > time.Duration(p.Drive)-failoverBreak {
			return steps, nil
		}
		steps = append(steps, s)
	}
}

// HeldByFailover are the processes and links that a failover has in its hands.
func HeldByFailover() []contract.Process {
	return []contract.Process{contract.LockDB, contract.Process(contract.Link{From: contract.LockServer, To: contract.LockDB}.String())}
}

// Standby is the fault of p that needs a standby of lockdb, "" where none does. It says whether commits wait for it.
func (p Plan) Standby() Fault {
	i := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Fault.OnStandby() })
	if i < 0 {
		return ""
	}
	return p.Steps[i].Fault
}

// validateFailover refuses a failover of anything but lockdb, and one of a standby that the plan's other failovers need to be
// of the other kind.
func (s Step) validateFailover(p Plan) error {
	switch {
	case !s.Fault.OnStandby():
		return nil
	case p.Backend == BackendEtcd:
		return fmt.Errorf("%s is about lockdb and its standby, and the backend is %s", s.Fault, BackendEtcd)
	case s.Target != Target(contract.LockDB) || s.On != "" || s.Until != "":
		return fmt.Errorf("%s is about lockdb, and begins at a time: it needs \"target\": %q, and neither \"on\" nor \"until\"", s.Fault, contract.LockDB)
	case s.Fault != p.Standby():
		return fmt.Errorf("%s and %s need different standbys, and a run has one", s.Fault, p.Standby())
	case slices.ContainsFunc(p.Steps, func(o Step) bool { return o.Fault.OnStore() || o.Fault == DiskFull && o.Target == s.Target }):
		return fmt.Errorf("%s cannot stand beside a restore of lockdb, which its standby would not follow, nor beside a full disk of lockdb's: the standby has another", s.Fault)
	case s.For < s.Delay:
		return errors.New("\"for\" is when lockdb gets its next standby, at the earliest: it must be no less than \"delay\", after which it loses this one")
	case s.Fault == FailoverAsync && s.Delay == 0:
		return errors.New("\"delay\" is how long the standby is behind when lockdb is lost: where nobody waits for it, it must be positive")
	}
	return nil
}
