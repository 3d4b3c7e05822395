package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func serviceSteps(p Plan) (steps []Step) {
	for _, s := range p.Steps {
		if !s.Target.Executor() {
			steps = append(steps, s)
		}
	}
	return steps
}

func TestTheDefaultPlanStopsEveryOtherProcessInTurnSometimesPastTheLease(t *testing.T) {
	for seed := range uint64(50) {
		p := WithServicePauses(generate(t, example(seed)))
		if err := p.Validate(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		stopped := map[Target]int{}
		long, short := 0, 0
		var last Duration
		for _, s := range serviceSteps(p) {
			stopped[s.Target]++
			if s.For > Duration(time.Second) {
				long++
			} else {
				short++
			}
			if s.At <= last || s.At+s.For >= p.Drive {
				t.Errorf("seed %d: the pause of %s at %s for %s comes before the last one's end at %s, or after the drive", seed, s.Target, s.At, s.For, last)
			}
			last = s.At + s.For
		}
		for _, target := range p.services() {
			if stopped[target] != 1 {
				t.Errorf("seed %d stops %s %d times", seed, target, stopped[target])
			}
		}
		if long < 2 || short < 4 {
			t.Errorf("seed %d: %d pauses outlast the lease, %d do not", seed, long, short)
		}
	}
}

func TestThePausesMeetTheLockBackendThatThePlanHasAndOutlastItsLease(t *testing.T) {
	for _, c := range []struct {
		backend string
		members int
		want    []Target
		lease   time.Duration
	}{
		{"pg", 0, []Target{"lockdb"}, time.Second},
		{"etcd", 0, []Target{"etcd"}, 2 * time.Second},
		{"etcd", 1, []Target{"etcd"}, 2 * time.Second},
		{"etcd", 3, []Target{"etcd-1", "etcd-2", "etcd-3"}, 2 * time.Second},
	} {
		p := example(3)
		p.Backend, p.EtcdMembers, p.Drive = c.backend, c.members, Duration(50*time.Second)
		p = WithServicePauses(p)
		stopped, outlasting := map[Target]bool{}, 0
		for _, s := range serviceSteps(p) {
			if stopped[s.Target] = true; time.Duration(s.For) > c.lease {
				outlasting++
			}
			if err := known("target", s.Target, p.targets()); err != nil {
				t.Error(err)
			}
		}
		for _, target := range []Target{"lockdb", "etcd", "etcd-1", "etcd-2", "etcd-3"} {
			if want := slices.Contains(c.want, target); stopped[target] != want || slices.Contains(p.targets(), target) != want {
				t.Errorf("%s of %d: %s is stopped: %v", c.backend, c.members, target, stopped[target])
			}
		}
		if outlasting < 3 {
			t.Errorf("%s of %d: %d pauses outlast the lease", c.backend, c.members, outlasting)
		}
	}
}

func TestACountOfMembersThatCannotBeMeantIsRefused(t *testing.T) {
	for _, c := range []struct {
		backend string
		members int
		want    string
	}{{"pg", 1, "the backend is pg"}, {"etcd", 2, "1, 3 or 5"}, {"etcd", -1, "1, 3 or 5"}, {"etcd", 7, "1, 3 or 5"}} {
		p := stops()
		p.Backend, p.EtcdMembers = c.backend, c.members
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %d: %v", c.backend, c.members, err)
		}
	}
}

func TestPausesOfServicesTakeNothingFromThoseOfHoldersAndDependOnTheSeedAlone(t *testing.T) {
	p := generate(t, example(7))
	a, b, other := WithServicePauses(p), WithServicePauses(p), WithServicePauses(generate(t, example(8)))
	if text(t, a) != text(t, b) || slices.Equal(serviceSteps(a), serviceSteps(other)) {
		t.Error("one seed makes two plans, or two seeds one")
	}
	holders := slices.DeleteFunc(slices.Clone(a.Steps), func(s Step) bool { return !s.Target.Executor() })
	if !slices.Equal(holders, p.Steps) {
		t.Error("the holders' pauses are not those of before")
	}
	short := example(7)
	short.Drive = Duration(19 * time.Second)
	if p := WithServicePauses(generate(t, short)); len(serviceSteps(p)) != 0 {
		t.Errorf("a short plan stops services: %v", serviceSteps(p))
	}
}

func TestNoGeneratedPlanReachesTheSettlementWindow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := example(rapid.Uint64().Draw(rt, "seed"))
		p.Drive = Duration(rapid.IntRange(20, 600).Draw(rt, "drive in s")) * Duration(time.Second)
		p.LookupLag = Duration(500 * time.Millisecond)
		p, err := Generate(p)
		if err != nil {
			rt.Fatal(err)
		}
		if err := WithServicePauses(p).Validate(); err != nil {
			rt.Fatal(err)
		}
	})
}

// stops is a plan with these steps.
func stops(steps ...Step) Plan {
	p := example(1)
	p.Schema, p.Nemesis, p.Together, p.Steps = Schema, Script, 2, steps
	return p
}

func stop(target Target, at, last time.Duration) Step {
	return Step{Fault: Pause, Target: target, At: Duration(at), For: Duration(last)}
}

const ms = time.Millisecond

func TestAPlanThatHoldsATransferPastTheSettlementWindowIsRefused(t *testing.T) {
	kept := Step{Fault: Delay, Target: "rail-proxy→rail-stub", Message: &Message{Side: Request, Op: "transfer"}, For: Duration(2400 * ms)}
	for name, c := range map[string]struct {
		plan   Plan
		refuse bool
	}{
		"a stop that leaves 1 ms":                        {stops(stop("rail-proxy", 0, 4799*ms)), false},
		"a stop that leaves nothing":                     {stops(stop("rail-proxy", 0, 4800*ms)), true},
		"the rail stopped for as long":                   {stops(stop("rail-stub", 0, 4800*ms)), true},
		"any other process stopped for as long":          {stops(stop("payment-resource", 0, 9*time.Second)), false},
		"first the proxy, then the rail":                 {stops(stop("rail-stub", 3*time.Second, 2400*ms), stop("rail-proxy", 0, 2400*ms)), true},
		"the same, far from one another":                 {stops(stop("rail-stub", 4*time.Second, 2400*ms), stop("rail-proxy", 0, 2400*ms)), false},
		"a long one, and a short one inside it":          {stops(stop("rail-proxy", 0, 3*time.Second), stop("rail-stub", time.Second, 100*ms), stop("rail-stub", 3500*ms, 1400*ms)), true},
		"a message kept on the link, and the rail":       {stops(kept, stop("rail-stub", 9*time.Second, 2400*ms)), true},
		"a message kept on the link":                     {stops(kept), false},
		"no stop at all, and a look-up far behind":       {lagging(stops(), 4800*ms), true},
		"a stop that leaves room, but for the look-up's": {lagging(stops(stop("rail-proxy", 0, 4300*ms)), 500*ms), true},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.plan.Validate()
			if (err != nil) != c.refuse || err != nil && !strings.Contains(err.Error(), "reaches the settlement window (5s)") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func lagging(p Plan, lag time.Duration) Plan {
	p.LookupLag = Duration(lag)
	return p
}

func TestStopsThatCannotBeMeantAreRefused(t *testing.T) {
	onEvent := Step{Fault: Pause, Target: "lock-server", On: ClaimOK, Until: SuccessorGranted, For: Duration(time.Second)}
	onGrant := Step{Fault: Pause, Target: "lock-server", On: AcquireOK, Until: SuccessorClaimed, For: Duration(time.Second)}
	again := Step{Fault: Pause, Target: "rail-stub", On: ClaimOK, For: Duration(2400 * ms)}
	holder := Step{Fault: Pause, Target: Holder, On: ClaimOK, Until: SuccessorClaimed, For: Duration(time.Second)}
	three := stops(stop("executor-1", 0, time.Second), stop("executor-2", 500*ms, time.Second), stop("executor-3", 900*ms, time.Second))
	three.Executors = 3
	two := stops(holder, stop("executor-1", 0, time.Second))
	two.Executors = 3
	unknown := stops()
	unknown.LostReplies = 1.5
	for name, c := range map[string]struct {
		plan Plan
		want string
	}{
		"a payout's event and a key's end":      {stops(onEvent), "successor.granted ends steps that begin on acquire.ok only"},
		"a key's event and a payout's end":      {stops(onGrant), "it may end with successor.granted"},
		"the rail at two events":                {stops(again, again), "reaches the settlement window (5s)"},
		"a mistyped service":                    {stops(stop("lock-sever", 0, time.Second)), `did you mean "lock-server"?`},
		"a database that is stopped already":    {stops(stop("paydb", 0, time.Second), stop("paydb", 500*ms, time.Second)), "paydb is stopped at 0s and is stopped again at 500ms"},
		"the same step twice":                   {stops(stop("lockdb", 0, time.Second), stop("lockdb", 0, time.Second)), "stopped again"},
		"all executors, one after the other":    {three, "nobody is left to take over"},
		"all executors, two of them as holders": {two, "nobody is left to take over"},
		"more lost replies than transfers":      {unknown, "lostReplies is 1.5"},
		"a look-up from the future":             {lagging(stops(), -time.Second), "lookupLag is -1s"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.plan.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
	onEvent.Until, onGrant.Until = SuccessorClaimed, SuccessorGranted
	if err := stops(stop("paydb", 0, time.Second), stop("paydb", time.Second, time.Second), holder, onEvent, onGrant, again).Validate(); err != nil {
		t.Errorf("one after the other, and services at events: %v", err)
	}
}
