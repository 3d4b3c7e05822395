package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"fenceproof/checker/contract"
)

// DiskFull fills the volume that a database's data is on to its last byte, and frees it again.
const DiskFull Fault = "disk-full"

// Disk is how a fault of storage goes about it.
type Disk struct {
	// Log has the server use up what is left of its write-ahead log as well. Without it whatever needs no further room goes
	// on; with it the server ends, and cannot come back before there is room.
	Log bool `json:"log,omitempty"`
}

// Volume is how large the volume of a database is that is to be filled, in bytes: many times what a run of a minute
// writes, and another one for each further minute. It is made of memory, so there is an end to that.
func (p Plan) Volume() int64 {
	const base, perMinute, most = 192 << 20, 24 << 20, 1 << 30
	return min(most, base+perMinute*int64(time.Duration(p.Drive)/time.Minute))
}

// Volumes are the databases whose data has to be on a volume for the steps of p.
func (p Plan) Volumes() (all []contract.Process) {
	for _, s := range p.Steps {
		if name := contract.Process(s.Target); s.Fault == DiskFull && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// Times of the full disks: from one to the next, which leaves room for a server that ended to read its log again.
const (
	diskFirst  = 1500 * time.Millisecond
	diskEvery  = 3 * time.Second
	diskJitter = 500 * time.Millisecond
	diskBreak  = 2 * time.Second // from the last one to the end of the drive
)

// fullFor is how long a disk stays full.
var fullFor = span{600 * time.Millisecond, 1400 * time.Millisecond}

// fillable are the databases of p's stack.
func (p Plan) fillable() (all []Target) {
	if p.Backend == BackendPG {
		all = append(all, Target(contract.LockDB))
	}
	if !p.forLocks() {
		all = append(all, Target(contract.PayDB))
	}
	return all
}

// diskFulls are the steps of nemesis disk-full: each database in turn, with room in its log and without, in an order that
// the seed decides.
func diskFulls(p Plan) ([]Step, error) {
	rng := rand.New(rand.NewPCG(p.Seed, 0x66756c6c)) // one stream of its own: "full"
	var turn []Step
	for _, t := range p.fillable() {
		turn = append(turn, Step{Fault: DiskFull, Target: t}, Step{Fault: DiskFull, Target: t, Disk: &Disk{Log: true}})
	}
	if len(turn) == 0 {
		return nil, fmt.Errorf("only the disks of databases are filled, and workload %s on %s has none", p.Workload, p.Backend)
	}
	// One turn more than there are databases, in whatever order, meets each of them, and a log.
	if err := p.tooShort(diskFirst + time.Duration(len(p.fillable()))*diskEvery + diskJitter + fullFor.max + diskBreak); err != nil {
		return nil, err
	}
	rng.Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
	var steps []Step
	for i := 0; ; i++ {
		s := turn[i%len(turn)]
		at, full := diskFirst+time.Duration(i)*diskEvery+random(rng, 0, diskJitter), random(rng, fullFor.min, fullFor.max)
		if at+full > time.Duration(p.Drive)-diskBreak {
			return steps, nil
		}
		s.At, s.For = Duration(at), Duration(full)
		steps = append(steps, s)
	}
}

// validateDisk refuses a full disk of what is no database, and a way to fill one with another fault.
func (s Step) validateDisk(p Plan) error {
	switch {
	case s.Fault != DiskFull && s.Disk != nil:
		return fmt.Errorf("\"disk\" belongs to %s, not to %s", DiskFull, s.Fault)
	case s.Fault == DiskFull && !slices.Contains(p.fillable(), s.Target):
		return fmt.Errorf("%s fills the disk of a database of this stack, and %q is none: %v", DiskFull, s.Target, p.fillable())
	case s.Fault == DiskFull && s.Until != "":
		return errors.New("a full disk ends after its time: leave \"until\" out")
	case s.Fault == DiskFull && p.Backend == BackendPG && slices.ContainsFunc(p.Steps, Step.movesLockDB):
		return fmt.Errorf("%s needs every database where it was: put back or promoted, lockdb is on another disk; leave it out, or what moves lockdb", DiskFull)
	}
	return nil
}

// movesLockDB tells whether s has another data directory take the place of lockdb's.
func (s Step) movesLockDB() bool { return s.Fault.OnStore() || s.Fault.OnStandby() }
