package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
)

// apartFrom is how long lockdb's clock is right between two of its turns at least, so that something is judged in between.
const apartFrom = 4 * time.Second

func TestAClockMakesWayForWhatTakesItsStoreAndIsFarOffAheadAndBehindAllTheSame(t *testing.T) {
	for _, other := range []string{"restore", "restore-unguarded", "failover", "failover-async", "disk-full", "kill", "partition", "slow", "flaky"} {
		for seed := range uint64(20) {
			for _, p := range []Plan{example(seed), lockExample(seed)} {
				p.Nemesis = "clock," + other
				p = generate(t, p)
				ahead, behind, over := 0, 0, Duration(-time.Hour)
				for _, s := range p.Steps {
					if s.Fault != Clock || s.Target != Target(contract.LockDB) {
						continue
					}
					if s.At < over+Duration(apartFrom) {
						t.Errorf("%s, %s, seed %d: lockdb's clock is moved at %s, and was until %s", p.Workload, p.Nemesis, seed, s.At, over)
					}
					over = s.end()
					if s.At < Duration(clockFirst+clockEvery) || over > p.Drive-Duration(clockBreak) {
						t.Errorf("%s, %s, seed %d: lockdb's clock is moved from %s to %s", p.Workload, p.Nemesis, seed, s.At, over)
					}
					ahead += rank(p.farOff(s) && s.Clock.By > 0)
					behind += rank(p.farOff(s) && s.Clock.By < 0)
				}
				if ahead == 0 || behind == 0 {
					t.Errorf("%s, %s, seed %d: lockdb's clock is far ahead %d times, and far behind %d times", p.Workload, p.Nemesis, seed, ahead, behind)
				}
			}
		}
	}
}

// Whoever has no session any more when lockdb's clock goes back begins one by that clock, and nobody is refused.
func TestNothingKeepsClientsFromLockDBJustBeforeItsClockIsFarOff(t *testing.T) {
	const before = Duration(1400 * time.Millisecond)
	near := []Target{Target(contract.LockDB), Target(contract.LockServer), "lock-server→lockdb"}
	for _, other := range []string{"pause", "restore", "restore-unguarded", "failover", "failover-async", "disk-full", "kill", "partition", "slow", "flaky"} {
		for seed := range uint64(40) {
			for _, p := range []Plan{example(seed), lockExample(seed)} {
				p.Nemesis, p.Drive = "clock,"+other, Duration(30*time.Second)
				p = generate(t, p)
				for _, s := range p.Steps {
					if !p.farOff(s) {
						continue
					}
					for _, o := range p.Steps {
						from := o.At
						if o.Fault.OnStore() {
							from += o.Delay // until then it has a backup
						}
						hits := o.Fault != Clock && o.Timed() && slices.ContainsFunc(p.hits(o), func(t Target) bool { return slices.Contains(near, t) })
						if hits && from < s.end() && s.At-before < o.end() {
							t.Errorf("%s, %s, seed %d: lockdb's clock is moved at %s, and %s hits %s from %s to %s", p.Workload, p.Nemesis, seed, s.At, o.Fault, o.Target, from, o.end())
						}
					}
				}
			}
		}
	}
}

// What a mix lacks of its parts is told, and nothing of what a run is about is among it.
func TestWhatAMixIsAboutStaysAndHowMuchGaveWayIsTold(t *testing.T) {
	for _, f := range []Fault{Restore, RestoreUnguarded, Failover, FailoverAsync} {
		for _, other := range []string{"kill", "partition", "slow", "flaky", "clock"} {
			for seed := range uint64(20) {
				p := example(seed)
				p.Nemesis = string(f)
				alone := generate(t, p)
				p.Nemesis = other + "," + string(f)
				mixed := generate(t, p)
				p.Nemesis = other
				without := generate(t, p)
				if f == Restore {
					alone.Steps = alone.Steps[:1] // which leaves time for the others
				}
				own := slices.DeleteFunc(slices.Clone(mixed.Steps), func(s Step) bool { return s.Fault != f })
				if !slices.Equal(own, alone.Steps) {
					t.Errorf("%s, seed %d: %d steps of %s are left of %d", mixed.Nemesis, seed, len(own), f, len(alone.Steps))
				}
				if lacks := len(alone.Steps) + len(without.Steps) - len(mixed.Steps); mixed.GivenWay-without.GivenWay != lacks {
					t.Errorf("%s, seed %d: it lacks %d steps and tells of %d", mixed.Nemesis, seed, lacks, mixed.GivenWay)
				}
			}
		}
	}
}

// The times of a nemesis leave room for whatever follows on its own steps.
func TestNothingOfANemesisByItselfGivesWayOrIsMoved(t *testing.T) {
	for _, g := range generators() {
		if g.name == Partition || g.name == string(Slow) || g.name == Flaky { // whose links may meet
			continue
		}
		for seed := range uint64(50) {
			for _, p := range []Plan{example(seed), lockExample(seed), onEtcd(example(seed)), onEtcd(lockExample(seed))} {
				p.Nemesis = g.name
				if p.Drive = Duration(30 * time.Second); seed%10 == 0 {
					p.Drive = Duration(5 * time.Minute)
				}
				got, err := Generate(p)
				if err != nil {
					continue // it does not exist there
				}
				want, err := g.steps(p)
				if err != nil {
					t.Fatal(err)
				}
				if g.name == string(Clock) { // a clock that loses time may do so into the next turn of the one other there is
					others := func(s Step) bool { return !slices.Contains(p.lockBackend(), contract.Process(s.Target)) }
					want, got.Steps, got.GivenWay = slices.DeleteFunc(want, others), slices.DeleteFunc(got.Steps, others), 0
				}
				slices.SortStableFunc(want, func(a, b Step) int { return int(a.At - b.At) })
				if got.GivenWay != 0 || g.name != Sweep && text(t, Plan{Steps: got.Steps}) != text(t, Plan{Steps: want}) {
					t.Fatalf("%s, %s on %s, seed %d: %d steps gave way, and %d of %d are left", g.name, p.Workload, p.Backend, seed, got.GivenWay, len(got.Steps), len(want))
				}
			}
		}
	}
}

func TestMixesThatCannotBeAreRefusedByTheirNamesWhateverTheSeed(t *testing.T) {
	for _, c := range []struct{ mix, backend, says string }{
		{"restore,restore-unguarded", BackendPG, "one and the same store"},
		{"restore,restore-unguarded", BackendEtcd, "one and the same store"},
		{"failover,failover-async", BackendPG, "need different standbys"},
		{"restore,failover", BackendPG, "which its standby would not follow"},
		{"failover-async,restore-unguarded", BackendPG, "which its standby would not follow"},
		{"disk-full,restore", BackendPG, "disk-full cannot stand beside restore on pg"},
		{"failover,disk-full", BackendPG, "disk-full cannot stand beside failover on pg"},
		{"disk-full,restore", BackendEtcd, ""},
		{"pause,restore", BackendPG, ""},
	} {
		for seed := range uint64(20) {
			p := example(seed)
			p.Nemesis, p.Backend = c.mix, c.backend
			_, err := Generate(p)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s on %s, seed %d: %v, want %q", c.mix, c.backend, seed, err, c.says)
			}
			if p.Schema, p.Together = Schema, 1; (p.Validate() == nil) != (c.says == "") {
				t.Errorf("%s on %s: a plan's file is taken by another rule than a generated plan: %v", c.mix, c.backend, p.Validate())
			}
		}
	}
}

// A soak asks under one seed what it runs under all.
func TestADriveIsTooShortForANemesisUnderEverySeedOrUnderNone(t *testing.T) {
	for _, nemesis := range []string{"clock", "disk-full", "restore", "restore-unguarded", "failover", "failover-async", "clock,restore", "clock,disk-full", "clock,failover-async", "disk-full,restore"} {
		for drive := 5 * time.Second; drive <= 32*time.Second; drive += 700 * time.Millisecond {
			for _, p := range []Plan{example(0), lockExample(0), onEtcd(example(0)), onEtcd(lockExample(0))} {
				p.Nemesis, p.Drive = nemesis, Duration(drive)
				var first error
				for seed := range uint64(10) {
					p.Seed = seed
					_, err := Generate(p)
					if seed == 0 {
						first = err
					}
					if (err == nil) != (first == nil) {
						t.Fatalf("%s, %s on %s for %s: under seed 0 %v, and under seed %d %v", nemesis, p.Workload, p.Backend, drive, first, seed, err)
					}
				}
				if drive >= 30*time.Second && first != nil && strings.Contains(first.Error(), "too short") {
					t.Errorf("%s, %s on %s for %s: %v", nemesis, p.Workload, p.Backend, drive, first)
				}
			}
		}
	}
}
