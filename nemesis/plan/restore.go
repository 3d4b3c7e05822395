package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"fenceproof/checker/contract"
)

// What keeps the locks is lost and put back as it was some time before. Restore goes by the operator's procedure: whoever was
// granted something since is waited out, and the store is moved past every token that was used. RestoreUnguarded only puts
// the backup back, which has the store grant tokens a second time.
const (
	Restore          Fault = "restore"
	RestoreUnguarded Fault = "restore-unguarded"
)

// LockStore is what keeps the locks, all of it, with the lock server before it.
const LockStore Target = "lock-store"

// Times of the restores. From its At on a step has a backup; Delay later the store is lost.
const (
	restoreFirst  = time.Second
	restoreEvery  = 11 * time.Second // from one to the next, at least
	restoreTakes  = 7 * time.Second  // of that, beside the longest lease
	restoreJitter = time.Second
	restoreBreak  = 3 * time.Second // from the last one to the end of the drive: what is granted then is what it is about
)

// restoreAge is how old a backup is when it is needed: it lacks far more tokens than the 32 that a sequence may skip.
var restoreAge = span{3500 * time.Millisecond, 4500 * time.Millisecond}

// OnStore tells whether f is done to what keeps the locks, as a whole.
func (f Fault) OnStore() bool { return f == Restore || f == RestoreUnguarded }

// restores are the steps of nemesis restore, and unguarded ones those of restore-unguarded. There is one of the latter: a
// second one would be about tokens that the first has spoilt. In a mix there is one of the former as well: while a store is
// put back, and the longest lease waited for, nothing else is met by anybody.
func restores(p Plan) ([]Step, error) {
	steps, err := p.restores(Restore, 0x726573746f7265) // "restore"
	if len(p.Nemeses()) > 1 {
		steps = steps[:min(1, len(steps))]
	}
	return steps, err
}

func unguardedRestores(p Plan) ([]Step, error) {
	steps, err := p.restores(RestoreUnguarded, 0x756e67756172) // "unguar"
	return steps[:min(1, len(steps))], err
}

func (p Plan) restores(f Fault, stream uint64) ([]Step, error) {
	rng := rand.New(rand.NewPCG(p.Seed, stream)) // one stream of its own
	every := max(restoreEvery, restoreTakes+p.LongestLease())
	least := restoreFirst + restoreJitter + restoreAge.max + serviceDown.max + restoreBreak
	if f == Restore {
		least += p.LongestLease()
	}
	if err := p.tooShort(least); err != nil {
		return nil, err
	}
	var steps []Step
	for i := 0; ; i++ {
		s := Step{Fault: f, Target: LockStore, At: Duration(restoreFirst + time.Duration(i)*every + random(rng, 0, restoreJitter)),
			Delay: Duration(random(rng, restoreAge.min, restoreAge.max)), For: Duration(random(rng, serviceDown.min, serviceDown.max))}
		if f == Restore {
			s.For += Duration(p.LongestLease())
		}
		if time.Duration(s.end()) > time.Duration(p.Drive)-restoreBreak {
			return steps, nil
		}
		steps = append(steps, s)
	}
}

// end is when s is over, at the latest.
func (s Step) end() Duration {
	end := s.At + s.For
	if s.Fault == Duplicate || s.Fault.OnStore() {
		end += s.Delay
	}
	return end
}

// Held are the processes and links that a step on the lock's store has in its hands from the loss on: the lock server, what
// keeps the locks, and the links to it. The procedure reads paydb as well.
func (p Plan) Held(f Fault) []contract.Process {
	held := append([]contract.Process{contract.LockServer}, p.lockBackend()...)
	if f == Restore {
		held = append(held, contract.PayDB)
	}
	var links []contract.Process
	for _, l := range p.stackLinks() {
		if slices.Contains(p.lockBackend(), l.To) {
			links = append(links, contract.Process(l.String()))
		}
	}
	slices.Sort(links) // whoever takes several takes them in this order
	return append(held, links...)
}

// errBothRestores says why a run has one kind of restore.
var errBothRestores = fmt.Errorf("%s and %s are about one and the same store: tokens that the second one has granted twice are laid to the first; run one of them", Restore, RestoreUnguarded)

// BackedUp are the processes among them that it has in its hands while it takes a backup.
func (p Plan) BackedUp() []contract.Process { return p.lockBackend() }

// validateRestore refuses a restore of anything else, and one that would not wait for those who were granted something after
// the backup.
func (s Step) validateRestore(p Plan) error {
	switch {
	case !s.Fault.OnStore() && s.Target == LockStore:
		return fmt.Errorf("%q is the target of %s and %s only", LockStore, Restore, RestoreUnguarded)
	case !s.Fault.OnStore():
		return nil
	case s.Target != LockStore || s.On != "" || s.Until != "":
		return fmt.Errorf("%s is about what keeps the locks, and begins at a time: it needs \"target\": %q, and neither \"on\" nor \"until\"", s.Fault, LockStore)
	case slices.ContainsFunc(p.Steps, func(o Step) bool { return o.Fault.OnStore() && o.Fault != s.Fault }):
		return errBothRestores
	case s.Delay <= 0:
		return errors.New("\"delay\" is how old the backup is when it is needed: it must be positive")
	case s.Fault == Restore && s.For < Duration(p.LongestLease()):
		return fmt.Errorf("the procedure waits for the longest lease, %s, from the stop of the lock server on: \"for\" must be no less", p.LongestLease())
	}
	return nil
}
