package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"fenceproof/checker/contract"
)

// validateMix refuses mixes that cannot be, whatever their steps are.
func (p Plan) validateMix() error {
	has := func(faults ...Fault) Fault {
		for _, f := range faults {
			if slices.Contains(p.Nemeses(), string(f)) {
				return f
			}
		}
		return ""
	}
	back, standby := has(Restore, RestoreUnguarded), has(Failover, FailoverAsync)
	switch moves := cmp.Or(standby, back); {
	case has(Restore) != "" && has(RestoreUnguarded) != "":
		return errBothRestores
	case has(Failover) != "" && has(FailoverAsync) != "":
		return fmt.Errorf("%s and %s need different standbys, and a run has one", Failover, FailoverAsync)
	case back != "" && standby != "":
		return fmt.Errorf("%s cannot stand beside %s of lockdb, which its standby would not follow", standby, back)
	case has(DiskFull) != "" && moves != "" && p.Backend == BackendPG:
		return fmt.Errorf("%s cannot stand beside %s on %s: put back or promoted, lockdb is on another disk than the one to be filled", DiskFull, moves, BackendPG)
	}
	return nil
}

// mixLeast is how long a mix has to be driven of two nemeses that have few turns, each of which needs what keeps the locks or a
// database for itself: in less some seeds find no time for all of them.
const mixLeast = 28 * time.Second

// validateRoom refuses a drive that is too short for a mix, whatever its seed.
func (p Plan) validateRoom() error {
	var few []string
	for _, name := range p.Nemeses() {
		if f := Fault(name); f == Clock || f == DiskFull || f.OnStore() || f.OnStandby() {
			few = append(few, name)
		}
	}
	if len(few) < 2 {
		return nil
	}
	if err := p.tooShort(mixLeast); err != nil {
		return fmt.Errorf("%s together: %w", strings.Join(few, " and "), err)
	}
	return nil
}

// How long steps have in their hands what they hit, beyond their own time: what has been put back, promoted, freed or put
// right has to serve again first. A plan leaves room for that; should it take longer, the engine waits.
const (
	backUpTakes  = time.Second
	putBackTakes = time.Second
	renewTakes   = 2 * time.Second
	freeingTakes = 500 * time.Millisecond
	rightTakes   = 500 * time.Millisecond
)

// clockRest is how long after the end of one of its turns lockdb's clock is left alone at least: what it may have done while it
// was wrong excuses a good deal for 3 s.
const clockRest = 4500 * time.Millisecond

// clockOfLockDB stands for lockdb's clock among what steps have in their hands.
const clockOfLockDB Target = "the clock of lockdb"

// heldBefore is how long nothing keeps anybody from lockdb before its clock is far off: whoever is to be refused then has to have
// a session by that time, or he begins one by the wrong clock.
const heldBefore = 1500 * time.Millisecond

// without stands for lockdb, for the lock server and for the link between them, where they keep the lock's clients from lockdb.
func without(t Target) Target { return "without " + t }

// grip is what a step has in its hands for some time.
type grip struct {
	target   Target
	from, to Duration
}

func (g grip) overlaps(o grip) bool { return g.target == o.target && g.from < o.to && o.from < g.to }

// grips are those of a step by time, with room for what follows on its end where that is asked for.
func (p Plan) grips(s Step, room bool) (all []grip) {
	add := func(from, to Duration, after time.Duration, targets ...Target) {
		if room {
			to += Duration(after)
		}
		for _, t := range targets {
			all = append(all, grip{t, from, to})
		}
	}
	switch {
	case s.Fault.OnStore():
		lost := s.At + s.Delay
		add(s.At, min(lost, s.At+Duration(backUpTakes)), 0, named(p.BackedUp())...)
		add(lost, s.end(), putBackTakes, named(p.Held(s.Fault))...)
	case s.Fault.OnStandby():
		add(s.At, s.end(), renewTakes, p.hits(s)...)
	case s.Fault == DiskFull:
		add(s.At, s.end(), freeingTakes, s.Target)
	case s.Fault == Clock && s.Target == Target(contract.LockDB) && room:
		add(s.At, s.end(), rightTakes, s.Target)
		add(s.At, s.end(), clockRest, clockOfLockDB)
		if p.farOff(s) {
			for _, t := range HeldByFailover() {
				add(s.At-Duration(heldBefore), s.end(), 0, without(Target(t)))
			}
			add(s.At-Duration(heldBefore), s.end(), 0, without(Target(contract.LockServer)))
		}
	default:
		add(s.At, s.end(), 0, p.hits(s)...)
	}
	if room && s.Fault != Clock {
		for _, g := range slices.Clone(all) {
			all = append(all, grip{without(g.target), g.from, g.to})
		}
	}
	return all
}

func named(all []contract.Process) (targets []Target) {
	for _, name := range all {
		targets = append(targets, Target(name))
	}
	return targets
}

// rank orders steps that cannot be at the same time, from the one that stays: of what a run is about there are few, and the
// times between them are part of it.
func (p Plan) rank(s Step) int {
	switch {
	case s.Fault.OnStore(), s.Fault.OnStandby():
		return 0
	case p.farOff(s):
		return 1
	case s.Fault == DiskFull:
		return 2
	}
	return 3
}

// farOff tells whether s has the clock of what keeps the locks wrong all the while, by far more than any lease.
func (p Plan) farOff(s Step) bool {
	return s.Fault == Clock && s.Clock.Strobe == 0 && time.Duration(s.Clock.By).Abs() >= time.Minute && s.Timed() &&
		slices.Contains(p.lockBackend(), contract.Process(s.Target))
}

// untangled are p's steps without those by time that would hit somebody or a link that is in another one's hands. Of two of
// one rank the one that begins first stays. A clock that a pass needs to be far off goes to another time.
func (p Plan) untangled() []Step {
	order := make([]int, len(p.Steps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return p.rank(p.Steps[a]) - p.rank(p.Steps[b]) })
	var taken []grip
	left := map[int]Step{}
	for _, i := range order {
		s := p.Steps[i]
		if !s.Timed() {
			left[i] = s
			continue
		}
		if !p.free(s, taken) {
			var found bool
			if s, found = p.placed(s, taken); !found {
				continue
			}
		}
		left[i] = s
		taken = append(taken, p.grips(s, true)...)
	}
	var steps []Step
	for i := range p.Steps {
		if s, ok := left[i]; ok {
			steps = append(steps, s)
		}
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return steps
}

// free tells whether nobody else has in his hands what s hits.
func (p Plan) free(s Step, taken []grip) bool {
	return !slices.ContainsFunc(p.grips(s, true), func(g grip) bool { return slices.ContainsFunc(taken, g.overlaps) })
}

// placed is s at another time, the next one at which it is free, or else the last one before. It does not come before the
// first of its kind would.
func (p Plan) placed(s Step, taken []grip) (Step, bool) {
	if !p.farOff(s) {
		return s, false
	}
	first, last := Duration(clockFirst+clockEvery), p.Drive-Duration(clockBreak)-s.For
	at := []Duration{first}
	for _, t := range taken {
		for _, g := range p.grips(s, true) { // it begins where the other one ends, or ends where that begins
			at = append(at, t.to+(s.At-g.from), t.from-(g.to-s.At))
		}
	}
	slices.SortFunc(at, func(a, b Duration) int {
		if later := rank(a < s.At) - rank(b < s.At); later != 0 {
			return later
		}
		return cmp.Compare(max(a-s.At, s.At-a), max(b-s.At, s.At-b))
	})
	for _, s.At = range at {
		if s.At >= first && s.At <= last && p.free(s, taken) {
			return s, true
		}
	}
	return s, false
}

// validateMet refuses a plan that was generated and does not have what a pass of its nemeses needs.
func (p Plan) validateMet() error {
	var lacks []string
	need := func(what string, is func(Step) bool) {
		if !slices.ContainsFunc(p.Steps, is) {
			lacks = append(lacks, what)
		}
	}
	for _, name := range p.Nemeses() {
		switch f := Fault(name); {
		case f == Clock && p.Backend == BackendPG:
			need("lockdb's clock far ahead", func(s Step) bool { return p.farOff(s) && s.Clock.By > 0 })
			need("lockdb's clock far behind", func(s Step) bool { return p.farOff(s) && s.Clock.By < 0 })
		case f == Clock:
			need("the clock of a member of etcd", func(s Step) bool { return s.Fault == Clock && contract.Process(s.Target).IsEtcd() })
		case f == DiskFull:
			for _, t := range p.fillable() {
				need("a full disk of "+string(t), func(s Step) bool { return s.Fault == DiskFull && s.Target == t })
			}
			need("a log without room", func(s Step) bool { return s.Disk != nil && s.Disk.Log })
		case f.OnStore(), f.OnStandby():
			need("a "+name, func(s Step) bool { return s.Fault == f && (s.Delay > 0 || f.OnStore()) })
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("nemesis %s finds no time within %s for %s, which a pass needs: give it a longer drive", p.Nemesis, p.Drive, strings.Join(lacks, ", "))
}

// tooShort refuses a drive in which a nemesis cannot do what a pass needs, whatever its seed.
func (p Plan) tooShort(least time.Duration) error {
	if time.Duration(p.Drive) >= least {
		return nil
	}
	return fmt.Errorf("a drive of %s is too short for it: give it %s or more", p.Drive, (least + time.Second - 1).Truncate(time.Second))
}
