package plan

import (
	"strings"
	"testing"
	"time"
)

func TestAFailoverPlanLosesLockdbSometimesWithItsStandbyBehindAndSometimesNot(t *testing.T) {
	for seed := range uint64(20) {
		for _, p := range []Plan{example(seed), lockExample(seed)} {
			p.Nemesis = string(Failover)
			p = generate(t, p)
			behind := 0
			for _, s := range p.Steps {
				if s.Delay > 0 {
					behind++
				}
			}
			if p.Steps[0].Delay == 0 {
				t.Errorf("%s, seed %d: a short run has one failover, and its standby has everything", p.Workload, seed)
			}
			if n := len(p.Steps); n < 3 || behind == 0 || behind == n {
				t.Errorf("%s, seed %d: %d failovers, %d of them with the standby behind", p.Workload, seed, n, behind)
			}
			if p.Standby() != Failover || text(t, p) != text(t, generate(t, unplanned(p))) {
				t.Errorf("%s, seed %d: standby %q, or another plan of the same seed", p.Workload, seed, p.Standby())
			}
		}
	}
}

// unplanned is p without its steps.
func unplanned(p Plan) Plan {
	p.Steps = nil
	return p
}

func TestAStandbyThatNobodyWaitsForIsBehindByMoreThanASequenceIsAhead(t *testing.T) {
	for seed := range uint64(20) {
		p := example(seed)
		p.Nemesis = string(FailoverAsync)
		p = generate(t, p)
		if len(p.Steps) < 2 || p.Standby() != FailoverAsync {
			t.Errorf("seed %d: %d failovers with standby %q", seed, len(p.Steps), p.Standby())
		}
		for _, s := range p.Steps {
			if s.Fault != FailoverAsync || s.Delay < Duration(farBehind.min) || s.For < s.Delay || s.At+s.For > p.Drive-Duration(failoverBreak) {
				t.Errorf("seed %d: step %+v", seed, s)
			}
		}
	}
	p := example(1)
	p.Nemesis = "kill"
	if p = generate(t, p); p.Standby() != "" {
		t.Errorf("a plan of kills needs a standby: %q", p.Standby())
	}
}

func TestAFailoverThatCannotBeMeantIsRefused(t *testing.T) {
	for says, change := range map[string]func(*Plan, *Step){
		`"target": "lockdb"`:                        func(_ *Plan, s *Step) { s.Target = "paydb" },
		`neither "on" nor "until"`:                  func(_ *Plan, s *Step) { s.On = ClaimOK },
		"no less than \"delay\"":                    func(_ *Plan, s *Step) { s.Delay = s.For + 1 },
		"need different standbys":                   func(_ *Plan, s *Step) { s.Fault = FailoverAsync },
		"after the drive":                           func(_ *Plan, s *Step) { s.At = Duration(time.Hour) },
		"failover is about lockdb and its standby,": func(p *Plan, _ *Step) { p.Backend = BackendEtcd },
	} {
		p := example(1)
		p.Nemesis = string(Failover)
		p = generate(t, p)
		change(&p, &p.Steps[1])
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error that says %s", err, says)
		}
	}
	p := example(1)
	p.Nemesis = string(FailoverAsync)
	p = generate(t, p)
	p.Steps[0].Delay = 0
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "must be positive") {
		t.Errorf("a lag of 0 that nobody waits for: %v", err)
	}
}

func TestAFailoverIsNotMixedWithWhatIsDoneToLockdbsOwnData(t *testing.T) {
	for _, other := range []string{string(Restore), string(RestoreUnguarded), string(DiskFull)} {
		p := example(1)
		p.Nemesis = other + ",failover"
		if _, err := Generate(p); err == nil || !strings.Contains(err.Error(), "cannot stand beside") {
			t.Errorf("%s: %v", p.Nemesis, err)
		}
	}
}

func TestAFailoverOfEtcdOrInTooShortADriveIsNotPlanned(t *testing.T) {
	for says, change := range map[string]func(*Plan){
		"whose members take over by themselves": func(p *Plan) { p.Backend = BackendEtcd },
		"is too short for it":                   func(p *Plan) { p.Drive = Duration(4 * time.Second) },
	} {
		p := example(1)
		p.Nemesis = string(Failover)
		change(&p)
		if _, err := Generate(p); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error that says %s", err, says)
		}
	}
}

func TestAMixOfFailoversAndKillsHitsLockdbWithOneOfThemAtATime(t *testing.T) {
	p := example(5)
	p.Nemesis = "kill,failover"
	p = generate(t, p)
	for i, s := range p.Steps {
		for _, o := range p.Steps[i+1:] {
			if s.Timed() && o.Timed() && s.Target == "lockdb" && o.Target == "lockdb" && o.At < s.At+s.For {
				t.Errorf("%+v begins while %+v is under way", o, s)
			}
		}
	}
}
