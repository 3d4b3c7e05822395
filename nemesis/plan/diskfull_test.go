package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
)

func TestADiskFullPlanFillsEachDatabaseWithAndWithoutRoomInItsLog(t *testing.T) {
	for name, c := range map[string]struct {
		plan Plan
		want []contract.Process
	}{
		"payouts on PostgreSQL": {example(0), []contract.Process{contract.LockDB, contract.PayDB}},
		"locks on PostgreSQL":   {lockExample(0), []contract.Process{contract.LockDB}},
		"payouts on etcd":       {onEtcd(example(0)), []contract.Process{contract.PayDB}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				p := c.plan
				p.Seed, p.Nemesis = seed, string(DiskFull)
				p = generate(t, p)
				ways := map[Step]int{}
				for _, s := range p.Steps {
					log := s.Disk != nil && s.Disk.Log
					ways[Step{Target: s.Target, On: Event(map[bool]string{true: "log"}[log])}]++
					if s.Fault != DiskFull || s.For < Duration(fullFor.min) || s.At+s.For > p.Drive-Duration(diskBreak) {
						t.Errorf("seed %d: step %+v", seed, s)
					}
				}
				volumes := p.Volumes()
				slices.Sort(volumes)
				if len(p.Steps) < 8 || len(ways) != 2*len(c.want) || !slices.Equal(volumes, c.want) {
					t.Errorf("seed %d: %d steps, %v, volumes of %v", seed, len(p.Steps), ways, volumes)
				}
			}
		})
	}
}

func onEtcd(p Plan) Plan {
	p.Backend = BackendEtcd
	return p
}

func TestLocksOnEtcdHaveNoDiskToFill(t *testing.T) {
	p := onEtcd(lockExample(1))
	p.Nemesis = string(DiskFull)
	if _, err := Generate(p); err == nil || !strings.Contains(err.Error(), "only the disks of databases are filled") {
		t.Errorf("got %v", err)
	}
}

func TestAFullDiskThatCannotBeMeantIsRefused(t *testing.T) {
	for says, change := range map[string]func(*Plan){
		`"rail-stub" is none`:         func(p *Plan) { p.Steps[3].Target = Target(contract.RailStub) },
		`"disk" belongs to disk-full`: func(p *Plan) { p.Steps[3].Fault = Kill; p.Steps[3].Disk = &Disk{Log: true} },
		`leave "until" out`:           func(p *Plan) { p.Steps[3].Until = SuccessorClaimed },
		"needs every database where it was": func(p *Plan) {
			p.Steps = append(p.Steps, Step{Fault: Restore, Target: LockStore, At: Duration(25 * time.Second), For: Duration(time.Second)})
		},
	} {
		p := example(1)
		p.Nemesis = string(DiskFull)
		p = generate(t, p)
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error that says %s", err, says)
		}
	}
}
