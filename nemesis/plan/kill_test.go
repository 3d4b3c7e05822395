package plan

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// killing are the plans of nemesis kill: both workloads on each backend.
func killing(seed uint64) map[string]Plan {
	payout, lock := example(seed), lockExample(seed)
	all := map[string]Plan{}
	for name, p := range map[string]Plan{"payout": payout, "lock": lock} {
		p.Nemesis = string(Kill)
		all[name+" on pg"] = p
		p.Backend = BackendEtcd
		all[name+" on etcd"] = p
		p.EtcdMembers = 3
		all[name+" on three of etcd"] = p
	}
	return all
}

func TestAKillPlanKillsEveryServiceInTurnRightAfterGrantsAndInPostsAndHolders(t *testing.T) {
	for seed := range uint64(20) {
		for name, p := range killing(seed) {
			p = generate(t, p)
			random, granted, posts, holders := map[Target]int{}, map[Target]int{}, map[Target]int{}, map[Event]int{}
			for _, s := range p.Steps {
				switch {
				case s.Fault != Kill || s.At+s.For > p.Drive-Duration(killBreak):
					t.Errorf("%s, seed %d: step %+v", name, seed, s)
				case s.Target == Holder:
					holders[s.On]++
				case s.Timed():
					random[s.Target]++
				case s.On == AcquireOK:
					granted[s.Target]++
				case s.On == PostForwarded && s.Delay <= Duration(inAPost.max):
					posts[s.Target]++
				default:
					t.Errorf("%s, seed %d: step %+v", name, seed, s)
				}
			}
			keeper := map[string]Target{"pg": "lockdb", "etcd": "etcd"}[p.Backend]
			if p.EtcdMembers > 1 {
				keeper = EtcdLeader
			}
			if granted[keeper] < 2 || granted["lock-server"] == 0 || len(granted) != 2 {
				t.Errorf("%s, seed %d kills after grants %v", name, seed, granted)
			}
			if p.forLocks() {
				if len(random) != len(p.services()) || len(posts) != 0 || len(holders) != 1 || holders[AcquireOK] < 10 {
					t.Errorf("%s, seed %d kills at random %v, in posts %v, holders %v", name, seed, random, posts, holders)
				}
				continue
			}
			if len(random) < 6 || random["rail-proxy"]*random["rail-stub"]*random["reconciler"] == 0 || posts["paydb"]*posts["payment-resource"] == 0 || len(holders) != 5 {
				t.Errorf("%s, seed %d kills at random %v, in posts %v, holders %v", name, seed, random, posts, holders)
			}
		}
	}
}

func TestAKillPlanReadsBackAndDependsOnItsSeedAlone(t *testing.T) {
	for name, p := range killing(math.MaxUint64) {
		p = generate(t, p)
		back, err := Parse([]byte(text(t, p)))
		if err != nil || text(t, back) != text(t, p) {
			t.Errorf("%s: it came back as\n%s\n%v", name, text(t, back), err)
		}
		if again := generate(t, killing(math.MaxUint64)[name]); text(t, again) != text(t, p) || slices.Equal(generate(t, killing(3)[name]).Steps, p.Steps) {
			t.Errorf("%s: one seed makes two plans, or two seeds one", name)
		}
	}
}

func TestAShortKillPlanHasEveryMomentThatAKillIsMeantForMoreThanOnce(t *testing.T) {
	for seed := range uint64(50) {
		for name, p := range killing(seed) {
			p.Drive = Duration(10 * time.Second)
			grants, posts, random, early := map[Target]int{}, map[Target]int{}, 0, map[Event]Duration{}
			for _, s := range generate(t, p).Steps {
				switch {
				case s.Target == Holder:
					continue
				case s.On == AcquireOK:
					grants[s.Target]++
				case s.On == PostForwarded:
					posts[s.Target]++
				default:
					random++
				}
				if early[s.On] == 0 {
					early[s.On] = s.At
				}
			}
			if len(grants) != 2 || early[AcquireOK] > Duration(2*time.Second) || random == 0 {
				t.Errorf("%s, seed %d: %v after grants, the first at %s, and %d at random", name, seed, grants, early[AcquireOK], random)
			}
			if !p.forLocks() && (len(posts) != 2 || posts["paydb"]+posts["payment-resource"] < 3 || early[PostForwarded] > Duration(3*time.Second)) {
				t.Errorf("%s, seed %d: %v in posts, the first at %s", name, seed, posts, early[PostForwarded])
			}
		}
	}
}

func TestPausesAndKillsAreMixedWithoutChangingEither(t *testing.T) {
	for name, p := range killing(9) {
		alone := generate(t, p)
		p.Nemesis = "pause,kill"
		mixed := generate(t, p)
		var kills []Step
		for _, s := range mixed.Steps {
			if s.Fault == Kill {
				kills = append(kills, s)
			}
		}
		if !slices.Equal(kills, alone.Steps) || len(mixed.Steps) == len(kills) {
			t.Errorf("%s: the mix kills\n%+v, alone it is\n%+v", name, kills, alone.Steps)
		}
	}
}

func TestAKillThatCannotBeMeantIsRefused(t *testing.T) {
	for want, s := range map[string]Step{
		`did you mean "kill"?`:              {Fault: "kil", Target: "paydb", For: Duration(time.Second)},
		`target "etcd-leader" is not known`: {Fault: Kill, Target: EtcdLeader, For: Duration(time.Second)},
		`did you mean "post.forwarded"?`:    {Fault: Kill, Target: "paydb", On: "post.forwardet", For: Duration(time.Second)},
		`"for" must be positive`:            {Fault: Kill, Target: "paydb"},
		`"message" belongs to`:              {Fault: Kill, Target: "paydb", For: Duration(time.Second), Message: &Message{}},
	} {
		p := example(1)
		p.Nemesis, p.Together, p.Schema, p.Steps = Script, 1, Schema, []Step{s}
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %q", err, want)
		}
	}
	p := example(1)
	p.Backend, p.Nemesis, p.Together, p.Schema = BackendEtcd, Script, 1, Schema
	p.Steps = []Step{{Fault: Kill, Target: "etcd-leeder", For: Duration(time.Second)}}
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), `did you mean "etcd-leader"?`) {
		t.Errorf("got %v", err)
	}
	p.Steps = []Step{{Fault: Kill, Target: EtcdLeader, For: Duration(time.Second)}, {Fault: Kill, Target: "rail-stub", At: Duration(time.Second), For: Duration(6 * time.Second)}}
	if err := p.Validate(); err != nil {
		t.Errorf("the leader, and a rail that is dead for longer than the settlement window: %v", err)
	}
}

func TestThePlanOfFiftyKillsKillsLockdbFiftyTimesRightAfterAGrant(t *testing.T) {
	p, err := Read(filepath.Join("..", "..", "docs", "nemeses", "killed-after-grant.json"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, s := range p.Steps {
		if s.Fault == Kill && s.Target == "lockdb" && s.On == AcquireOK && s.Delay == 0 {
			n++
		}
	}
	if n != 50 || len(p.Steps) != 50 || p.Workload != LockWorkload || p.Backend != BackendPG {
		t.Errorf("%d of %d steps are kills of lockdb right after a grant; %s on %s", n, len(p.Steps), p.Workload, p.Backend)
	}
}
