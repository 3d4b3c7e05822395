package plan

import (
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
)

// apart is more than the 3 s for which what a wrong clock of lockdb's may have done excuses something.
const apart = 5 * time.Second

func TestAClockPlanMovesTheClocksOfTheLockStoreOfEveryServiceAndOfHoldersInEveryWay(t *testing.T) {
	for seed := range uint64(20) {
		for name, p := range killing(seed) {
			p.Nemesis = string(Clock)
			p = generate(t, p)
			targets, ways, holders := map[Target]int{}, map[string]int{}, map[Event]int{}
			over := -Duration(apart) + Duration(3*time.Second) // LIN-01 judges what comes before the first one
			for _, s := range p.Steps {
				if s.Fault != Clock || s.At+s.For > p.Drive-Duration(clockBreak) {
					t.Fatalf("%s, seed %d: step %+v", name, seed, s)
				}
				targets[s.Target]++
				if s.Target == Holder {
					holders[s.On]++
				}
				if s.Target == Target(contract.LockDB) {
					if s.At < over+Duration(apart) {
						t.Errorf("%s, seed %d: lockdb's clock is moved at %s, and was until %s", name, seed, s.At, over)
					}
					over = s.At + s.For
				}
				if s.Target == Target(p.lockBackend()[0]) {
					ways[way(s.Clock)]++
				}
			}
			for _, target := range p.services() {
				if targets[target] == 0 {
					t.Errorf("%s, seed %d: nobody moves the clock of %s: %v", name, seed, target, targets)
				}
			}
			if p.EtcdMembers < 3 && (ways["1h"] == 0 || ways["-1h"] == 0) {
				t.Errorf("%s, seed %d: the store's clock is moved %v", name, seed, ways)
			}
			if want := 5; !p.forLocks() && len(holders) != want {
				t.Errorf("%s, seed %d: holders' clocks are moved on %v", name, seed, holders)
			}
		}
	}
}

// way is a movement by its kind.
func way(m *Movement) string {
	switch {
	case m.Strobe != 0:
		return "strobe"
	case m.Drift != 0:
		return "drift"
	case m.By.abs() == Duration(time.Hour) && m.By > 0:
		return "1h"
	case m.By.abs() == Duration(time.Hour):
		return "-1h"
	}
	return "ttl"
}

func (d Duration) abs() Duration { return max(d, -d) }

func TestAMovementThatCouldNotBeSeenOrIsNoneIsRefused(t *testing.T) {
	second := Duration(time.Second)
	for _, c := range []struct {
		words string // "" where it is fine
		step  Step
	}{
		{"", Step{Clock: &Movement{By: -Duration(time.Hour)}}},
		{"", Step{Clock: &Movement{By: 10 * second, Strobe: second / 10}}},
		{"", Step{Clock: &Movement{Drift: 3 * second}}},
		{"needs how", Step{}},
		{"one of \"by\" and \"drift\"", Step{Clock: &Movement{}}},
		{"one of \"by\" and \"drift\"", Step{Clock: &Movement{By: second, Drift: second}}},
		{"by is 999ms", Step{Clock: &Movement{By: second - Duration(time.Millisecond)}}},
		{"by is 8760h0m0s", Step{Clock: &Movement{By: Duration(365 * 24 * time.Hour)}}},
		{"drift is -1s", Step{Clock: &Movement{Drift: -second}}},
		{"too little to be seen", Step{Clock: &Movement{Drift: second}}},
		{"does not go to and fro", Step{Clock: &Movement{Drift: 3 * second, Strobe: second}}},
		{"four times in the step's time", Step{Clock: &Movement{By: 10 * second, Strobe: second}}},
		{"by at least 5s", Step{Clock: &Movement{By: 2 * second, Strobe: second / 10}}},
		{"is not known", Step{Target: "executor-17", Clock: &Movement{By: second}}},
		{"\"clock\" belongs to clock", Step{Fault: Pause, Clock: &Movement{By: second}}},
	} {
		p, s := example(1), c.step
		p.Schema, p.Nemesis, p.Together = Schema, Script, 1
		s.At, s.For = second, second
		if s.Fault == "" {
			s.Fault = Clock
		}
		if s.Target == "" {
			s.Target = "executor-1"
		}
		p.Steps = []Step{s}
		err := p.Validate()
		if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("of %+v it says %v; want %q", s.Clock, err, c.words)
		}
	}
	p := lockExample(1)
	p.Schema, p.Nemesis, p.Together = Schema, Script, 1
	p.Steps = []Step{{Fault: Clock, Target: "lock-client-1", At: second, For: second, Clock: &Movement{By: second}}}
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "serves nobody") {
		t.Errorf("of a lock client's clock it says %v", err)
	}
	p.Steps = []Step{{Fault: Clock, Target: Holder, On: AcquireOK, For: second, Clock: &Movement{By: second}}} // who holds a key is a lock client
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "serves nobody") {
		t.Errorf("of the clock of whoever holds a key in the lock workload it says %v", err)
	}
}
