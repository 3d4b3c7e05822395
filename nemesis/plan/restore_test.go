package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
)

func TestARestorePlanHasABackupLongBeforeItIsNeededAndWaitsForTheLongestLease(t *testing.T) {
	for seed := range uint64(20) {
		for _, p := range []Plan{example(seed), lockExample(seed)} {
			for _, backend := range Backends() {
				p.Backend, p.Nemesis = backend, string(Restore)
				p.Drive = Duration(30 * time.Second)
				p := generate(t, p)
				if len(p.Steps) != 2 {
					t.Errorf("%s on %s, seed %d: %d restores", p.Workload, backend, seed, len(p.Steps))
				}
				if len(p.Steps) == 2 && p.Steps[0].end() >= p.Steps[1].At {
					t.Errorf("%s on %s, seed %d: the second restore begins before the first is over", p.Workload, backend, seed)
				}
				for _, s := range p.Steps {
					if s.Fault != Restore || s.Target != LockStore || s.Delay < Duration(restoreAge.min) || s.For < Duration(p.LongestLease()) || s.end() > p.Drive-Duration(restoreBreak) {
						t.Errorf("%s on %s, seed %d: step %+v", p.Workload, backend, seed, s)
					}
				}
				p.Nemesis, p.Steps = string(RestoreUnguarded), nil
				if p = generate(t, p); len(p.Steps) != 1 || p.Steps[0].Fault != RestoreUnguarded {
					t.Errorf("%s on %s, seed %d: unguarded %+v", p.Workload, backend, seed, p.Steps)
				}
			}
		}
	}
}

func TestADriveThatIsTooShortForARestoreSaysHowLongItHasToBe(t *testing.T) {
	p := example(1)
	p.Nemesis, p.Drive = string(Restore), Duration(5*time.Second)
	_, err := Generate(p)
	if err == nil || !strings.Contains(err.Error(), "too short") {
		t.Fatalf("got %v", err)
	}
	_, long, _ := strings.Cut(err.Error(), "give it ")
	enough, parseErr := time.ParseDuration(strings.TrimSuffix(long, " or more"))
	if parseErr != nil {
		t.Fatalf("%v says no time: %v", err, parseErr)
	}
	p.Drive = Duration(enough)
	if p, err = Generate(p); err != nil || len(p.Steps) != 1 {
		t.Errorf("in %s there are %d restores, %v", enough, len(p.Steps), err)
	}
}

func TestNobodyElseHasTheLocksStoreInItsHandsDuringARestore(t *testing.T) {
	for _, backend := range Backends() {
		p := example(3)
		p.Backend, p.Nemesis, p.Drive = backend, "kill,restore", Duration(30*time.Second)
		p = generate(t, p)
		at := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Fault == Restore })
		if at < 0 {
			t.Fatalf("on %s nothing is restored: %+v", backend, p.Steps)
		}
		r := p.Steps[at]
		keeper := p.lockBackend()[0]
		want := []contract.Process{contract.LockServer, keeper, contract.PayDB, contract.Process("lock-server→" + keeper)}
		if held := p.Held(Restore); !slices.Equal(held, want) {
			t.Errorf("on %s it holds %v", backend, held)
		}
		if held := p.Held(RestoreUnguarded); slices.Contains(held, contract.PayDB) {
			t.Errorf("on %s an unguarded one holds %v, although nobody reads paydb for it", backend, held)
		}
		for _, s := range p.Steps {
			if !s.Timed() || s.Fault == Restore {
				continue
			}
			if s.At < r.end() && s.end() > r.At+r.Delay && slices.Contains(p.hits(r), s.Target) {
				t.Errorf("on %s step %+v falls behind the loss of %+v", backend, s, r)
			}
			if s.At < r.At+Duration(backUpTakes) && s.end() > r.At && s.Target == Target(keeper) {
				t.Errorf("on %s step %+v falls into the backup of %+v", backend, s, r)
			}
		}
		p.Steps = append(p.Steps, Step{Fault: Kill, Target: Target(contract.LockServer), At: r.At + r.Delay, For: Duration(100 * time.Millisecond)})
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "lock-server is hit by restore at") {
			t.Errorf("on %s a kill in the middle of a restore: %v", backend, err)
		}
	}
}

// Generated plans have them far enough apart, and of one kind; somebody who writes his own may not.
func TestTwoRestoresThatSpoilOneAnotherAreRefused(t *testing.T) {
	for says, again := range map[string]func(first Step) Step{
		"takes its backup before that of": func(s Step) Step { s.At = s.end() - 1; return s },
		"about one and the same store":    func(s Step) Step { s.At, s.Fault = s.end(), RestoreUnguarded; return s },
		"":                                func(s Step) Step { s.At = s.end(); return s },
	} {
		p := example(1)
		p.Nemesis, p.Drive = string(Restore), Duration(60*time.Second)
		p = generate(t, p)
		p.Nemesis, p.Steps = Script, []Step{p.Steps[0], again(p.Steps[0])}
		if err := p.Validate(); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error that says %q", err, says)
		}
	}
}

func TestARestoreThatCannotBeMeantIsRefused(t *testing.T) {
	for says, change := range map[string]func(*Step){
		`"target": "lock-store"`:            func(s *Step) { s.Target = Target(contract.LockDB) },
		`neither "on" nor "until"`:          func(s *Step) { s.On = AcquireOK },
		"how old the backup is":             func(s *Step) { s.Delay = 0 },
		"waits for the longest lease, 1s":   func(s *Step) { s.For = Duration(900 * time.Millisecond) },
		"after the drive":                   func(s *Step) { s.Delay = Duration(29 * time.Second) },
		`is the target of restore`:          func(s *Step) { s.Fault = Kill },
		`did you mean "restore-unguarded"?`: func(s *Step) { s.Fault = "restore-ungarded" },
	} {
		p := example(1)
		p.Nemesis, p.Drive = string(Restore), Duration(30*time.Second)
		p = generate(t, p)
		change(&p.Steps[0])
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error that says %s", err, says)
		}
	}
}
