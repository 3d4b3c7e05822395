package run

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"
)

// stacks are the default runs of every workload and backend, before anything breaks.
func stacks() (all []plan.Plan) {
	for _, b := range []struct {
		backend string
		members int
	}{{plan.BackendPG, 0}, {plan.BackendEtcd, 0}, {plan.BackendEtcd, 3}} {
		all = append(all,
			plan.Plan{Workload: plan.PayoutWorkload, Executors: DefaultExecutors, Accounts: DefaultAccounts, Rate: DefaultRate, Prepare: plan.Duration(Prepare),
				Declines: DefaultDeclines, LostReplies: DefaultLostReplies, LookupLag: plan.Duration(DefaultLookupLag), Backend: b.backend, EtcdMembers: b.members},
			plan.Plan{Workload: plan.LockWorkload, Locks: new(DefaultLocks()), Backend: b.backend, EtcdMembers: b.members})
	}
	return all
}

// pairs are all mixes of two.
func pairs() (all []string) {
	names := slices.DeleteFunc(plan.Names(), func(n string) bool { return n == plan.None })
	for i, one := range names {
		for _, other := range names[i+1:] {
			all = append(all, one+","+other)
		}
	}
	return all
}

// meets tells, by the counter of a danger, whether the steps of a plan lead to it. What is not here comes of the load, or of
// steps that wait for an event, of which there are many.
var meets = map[string]func(plan.Plan, plan.Step) bool{
	"clocks_of_stores":  func(p plan.Plan, s plan.Step) bool { return s.Fault == plan.Clock && keeps(p, s.Target) },
	"clocks_of_holders": func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.Clock && s.Target == plan.Holder },
	"lockdb_ahead":      func(_ plan.Plan, s plan.Step) bool { return farOff(s) > 0 },
	"lockdb_behind":     func(_ plan.Plan, s plan.Step) bool { return farOff(s) < 0 },
	"refused_behind":    func(_ plan.Plan, s plan.Step) bool { return farOff(s) < 0 },
	"early_ends_judged": func(p plan.Plan, s plan.Step) bool { // something is left of the drive in which a wrong clock explains nothing
		return farOff(s) != 0 && s.At+s.For+plan.Duration(5*time.Second) < p.Drive
	},
	"failovers":       func(_ plan.Plan, s plan.Step) bool { return s.Fault.OnStandby() },
	"standbys_behind": func(_ plan.Plan, s plan.Step) bool { return s.Fault.OnStandby() && s.Delay > 0 },
	"tokens_lost":     func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.FailoverAsync && s.Delay > 0 },
	"rewinds":         func(_ plan.Plan, s plan.Step) bool { return s.Fault.OnStore() },
	"regrants_across": func(_ plan.Plan, s plan.Step) bool { return s.Fault.OnStore() || s.Fault.OnStandby() },
	"full_lockdb":     func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.DiskFull && s.Target == "lockdb" },
	"full_paydb":      func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.DiskFull && s.Target == "paydb" },
	"logs_exhausted": func(_ plan.Plan, s plan.Step) bool {
		return s.Fault == plan.DiskFull && s.Disk != nil && s.Disk.Log
	},
	"refused_full":       func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.DiskFull },
	"revokes_injected":   func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.Revoke },
	"links_cut":          func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.Cut },
	"links_held":         func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.Hold },
	"links_slowed":       func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.Slow },
	"links_reset":        func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.Reset },
	"messages_lost":      func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.Drop },
	"messages_repeated":  func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.Duplicate },
	"messages_late":      func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.Delay },
	"messages_overtaken": func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.Reorder },
	"kills_holding":      func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.Kill && s.Target == plan.Holder },
	"kills_in_post":      func(_ plan.Plan, s plan.Step) bool { return s.Fault == plan.Kill && s.On == plan.PostForwarded },
	"kills_after_grant": func(_ plan.Plan, s plan.Step) bool {
		return s.Fault == plan.Kill && s.On == plan.AcquireOK && s.Target != plan.Holder
	},
	"kills_of_stores": func(p plan.Plan, s plan.Step) bool {
		return s.Fault == plan.Kill && (keeps(p, s.Target) || s.Target == plan.EtcdLeader || s.Target == "paydb")
	},
}

// keeps tells whether t is a process that keeps the locks.
func keeps(p plan.Plan, t plan.Target) bool {
	return p.Backend == plan.BackendPG && contract.Process(t) == contract.LockDB || contract.Process(t).IsEtcd()
}

// farOff is how far s moves lockdb's clock for all of its time, 0 where it does not.
func farOff(s plan.Step) time.Duration {
	if s.Fault != plan.Clock || s.Target != plan.Target(contract.LockDB) || s.Clock.Strobe != 0 || time.Duration(s.Clock.By).Abs() < time.Minute {
		return 0
	}
	return time.Duration(s.Clock.By)
}

// lacks says what a pass of a run of p needs that its steps do not lead to, and which of its nemeses have no step.
func lacks(p plan.Plan) (all []string) {
	s := verdict.Settings{Workload: p.Workload, Backend: p.Backend, Nemesis: p.Nemesis, Fencing: string(FencingOn), Drive: time.Duration(p.Drive)}
	for _, n := range verdict.Needs(s) {
		if leads := meets[n.Counter]; leads != nil && !slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return leads(p, s) }) {
			all = append(all, n.Counter)
		}
	}
	for _, name := range p.Nemeses() {
		if slices.Contains(plan.Faults(), plan.Fault(name)) && !slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Fault == plan.Fault(name) }) {
			all = append(all, "a step of "+name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Whatever the seed, a mix that is taken has steps for all that a pass of it needs, and one that is not is refused under
// every seed for the same reason: a soak asks once.
func TestEveryMixOfTwoThatIsTakenMeetsWhatAPassNeedsAndIsTakenUnderEverySeed(t *testing.T) {
	const seeds = 20
	taken := 0
	for _, stack := range stacks() {
		for _, mix := range pairs() {
			refused := map[string]int{}
			short := map[string]int{}
			for seed := range uint64(seeds) {
				p := stack
				p.Nemesis, p.Seed, p.Drive = mix, seed, plan.Duration(DefaultDrive)
				p, err := plan.Generate(p)
				if err != nil {
					refused[err.Error()]++
					continue
				}
				taken++
				for _, what := range lacks(p) {
					short[what]++
				}
			}
			where := fmt.Sprintf("%s, %s on %d of %s", mix, stack.Workload, max(1, stack.EtcdMembers), stack.Backend)
			if len(short) > 0 {
				t.Errorf("%s: of %d seeds so many lack %v", where, seeds, short)
			}
			for why, n := range refused {
				if n != seeds {
					t.Errorf("%s: refused under %d of %d seeds: %s", where, n, seeds, why)
				} else if testing.Verbose() {
					t.Logf("%s: %s", where, strings.ReplaceAll(why, "\n", "; "))
				}
			}
		}
	}
	if taken < 300*seeds {
		t.Errorf("only %d plans were taken", taken)
	}
}
