package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"fenceproof/checker/contract"
)

// Clock moves the wall clock of a process. Its monotonic clock goes on as before.
const Clock Fault = "clock"

// Movement says how a clock is moved. One of By and Drift is given.
type Movement struct {
	// By is how far the clock is put ahead, at once; behind, where it is negative.
	By Duration `json:"by,omitempty"`
	// Strobe, where given, has the clock go to and fro between By and the true time, as often as that.
	Strobe Duration `json:"strobe,omitempty"`
	// Drift is how much the clock gains in each second; it loses, where it is negative.
	Drift Duration `json:"drift,omitempty"`
}

// Limits of the movements. A process whose clock is asked over HTTP answers in whole seconds, so less than a second cannot
// be told from none.
const (
	MinShift  = time.Second // of a step, and of what a drift adds up to
	MaxShift  = 30 * 24 * time.Hour
	MinSwing  = 5 * time.Second // of a strobe, each of whose ends must be told from the other by one question
	MinStrobe = 20 * time.Millisecond
	MaxStrobe = 2 * time.Second
	MaxLosing = 900 * time.Millisecond // a clock that loses a second in each stands still
	MaxDrift  = time.Minute
)

// validateClock refuses a movement that is none, that could not be seen, or of a clock that nobody can read.
func (s Step) validateClock(p Plan) error {
	if s.Fault != Clock {
		if s.Clock != nil {
			return fmt.Errorf("\"clock\" belongs to %s, not to %s", Clock, s.Fault)
		}
		return nil
	}
	if s.Clock == nil {
		return fmt.Errorf("%s needs how: \"clock\": {\"by\": \"1h\"}, {\"by\": \"1h\", \"strobe\": \"100ms\"} or {\"drift\": \"500ms\"}", Clock)
	}
	if contract.Process(s.Target).IsLockClient() || p.forLocks() && s.Target == Holder {
		return fmt.Errorf("%s serves nobody, so nobody can ask it for the time", s.Target)
	}
	by, drift, strobe := time.Duration(s.Clock.By), time.Duration(s.Clock.Drift), time.Duration(s.Clock.Strobe)
	switch {
	case (by == 0) == (drift == 0):
		return errors.New("one of \"by\" and \"drift\" must be given, and not both")
	case drift != 0 && (drift < -MaxLosing || drift > MaxDrift):
		return fmt.Errorf("drift is %s a second; -%s to %s", drift, MaxLosing, MaxDrift)
	case drift != 0 && strobe != 0:
		return errors.New("a clock that drifts does not go to and fro: leave \"strobe\" out")
	case drift != 0 && drift.Abs().Seconds()*time.Duration(s.For).Seconds() < (2*MinShift).Seconds():
		return fmt.Errorf("a drift of %s a second for %s is too little to be seen; %s altogether are needed", drift, s.For, 2*MinShift)
	case by != 0 && (by.Abs() < MinShift || by.Abs() > MaxShift):
		return fmt.Errorf("by is %s; %s to %s, ahead or behind", by, MinShift, MaxShift)
	case strobe != 0 && (strobe < MinStrobe || strobe > MaxStrobe || 4*strobe > time.Duration(s.For)):
		return fmt.Errorf("strobe is %s; %s to %s, and four times in the step's time at least", strobe, MinStrobe, MaxStrobe)
	case strobe != 0 && by.Abs() < MinSwing:
		return fmt.Errorf("a strobe is by %s; by at least %s", by, MinSwing)
	}
	return nil
}

// Times of the clocks that are moved: from one to the next, which is longer than any of them lasts.
const (
	clockFirst  = 1200 * time.Millisecond
	clockEvery  = 2500 * time.Millisecond
	clockJitter = 300 * time.Millisecond // so that they do not come in step with anything
	clockBreak  = 2 * time.Second        // from the last one to the end of the drive
	holderClock = 1500 * time.Millisecond
)

// How long a clock stays moved, how long it drifts, and when a holder's is moved after its event: in mid-lease.
var (
	movedFor   = span{700 * time.Millisecond, 1400 * time.Millisecond}
	driftFor   = span{1200 * time.Millisecond, 1600 * time.Millisecond}
	inMidLease = span{5 * time.Millisecond, 25 * time.Millisecond}
)

// clocks are the steps of nemesis clock: of the lock's backend one in three, of everybody else in turn, and of holders
// beside them. What a wrong clock of lockdb's may have done excuses a good deal for a while, so there is more time between
// two of its turns than that lasts; and it does not come first, as LIN-01 judges what came before.
func clocks(p Plan) ([]Step, error) {
	turns := 1 // of what keeps the locks, whose first two movements are those that a pass needs
	if p.Backend == BackendPG {
		turns = 2
	}
	if err := p.tooShort(clockFirst + time.Duration(3*turns-2)*clockEvery + clockJitter + movedFor.max + clockBreak); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(p.Seed, 0x636c6f636b)) // one stream of its own: "clock"
	keepers := p.lockBackend()
	var others []Target
	for _, t := range p.services() {
		if n := contract.Process(t); n != contract.LockDB && !n.IsEtcd() {
			others = append(others, t)
		}
	}
	rng.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	ofKeepers, ofOthers := p.movements(rng), p.movements(rng)
	nth := [2]int{} // of the keepers, and of the others
	var steps []Step
	for i := 0; ; i++ {
		s := Step{Fault: Clock, At: Duration(clockFirst + time.Duration(i)*clockEvery + random(rng, 0, clockJitter))}
		if i%3 == 1 {
			s.Target, s.Clock = Target(keepers[nth[0]%len(keepers)]), ofKeepers(nth[0])
			nth[0]++
		} else {
			s.Target, s.Clock = others[nth[1]%len(others)], ofOthers(nth[1])
			nth[1]++
		}
		s.For = s.Clock.lasts(rng)
		if s.At+s.For > p.Drive-Duration(clockBreak) {
			break
		}
		steps = append(steps, s)
	}
	if p.forLocks() {
		return steps, nil // the clients of the lock serve nobody
	}
	return append(steps, p.holderClocks(rng)...), nil
}

// holderClocks moves the clocks of executors with a key in their hands.
func (p Plan) holderClocks(rng *rand.Rand) (steps []Step) {
	on := []Event{AcquireOK, ClaimOK, SubmittedOK, SubmitOK, OutcomeOK}
	how, first := p.movements(rng), rng.IntN(len(on))
	for i := 0; ; i++ {
		s := Step{Fault: Clock, Target: Holder, Clock: how(i), At: Duration(time.Duration(i)*holderClock + random(rng, 0, clockJitter)),
			On: on[(first+i)%len(on)], Delay: Duration(random(rng, inMidLease.min, inMidLease.max))}
		s.For = s.Clock.lasts(rng)
		if s.At+s.For > p.Drive-Duration(clockBreak) {
			return steps
		}
		steps = append(steps, s)
	}
}

// movements are every kind of movement in turn, in an order that rng decides; what is most to be feared comes first.
func (p Plan) movements(rng *rand.Rand) func(i int) *Movement {
	lease := Duration(p.Lease())
	all := []Movement{
		{By: Duration(time.Hour)}, {By: -Duration(time.Hour)}, {By: lease}, {By: -lease},
		{By: Duration(time.Hour), Strobe: Duration(100 * time.Millisecond)}, {By: -Duration(time.Hour), Strobe: Duration(60 * time.Millisecond)},
		{Drift: Duration(3 * time.Second)}, {Drift: -Duration(MaxLosing)},
	}
	rng.Shuffle(2, func(i, j int) { all[i], all[j] = all[j], all[i] })
	rest := all[2:]
	rng.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	return func(i int) *Movement { m := all[i%len(all)]; return &m }
}

// lasts draws how long a clock is moved like m.
func (m Movement) lasts(rng *rand.Rand) Duration {
	if m.Drift == 0 {
		return Duration(random(rng, movedFor.min, movedFor.max))
	}
	enough := time.Duration(float64(2*MinShift) / time.Duration(m.Drift).Abs().Seconds())
	return Duration(max(enough.Round(time.Millisecond)+100*time.Millisecond, random(rng, driftFor.min, driftFor.max)))
}
