package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"

	"pgregory.net/rapid"
)

func broken(f Fault, target Target, at, last time.Duration, n *Network) Step {
	return Step{Fault: f, Target: target, At: Duration(at), For: Duration(last), Network: n}
}

func TestATargetOfLinksMeansThoseOfTheStackAndNoOther(t *testing.T) {
	payouts := Plan{Workload: PayoutWorkload, Backend: BackendPG, Executors: 2}
	cluster := Plan{Workload: LockWorkload, Backend: BackendEtcd, EtcdMembers: 3, Locks: &Locks{Clients: 2, Revokes: 1}}
	for _, c := range []struct {
		p      Plan
		target Target
		want   string
	}{
		{payouts, "executor-2→rail-proxy", "executor-2→rail-proxy"},
		{payouts, "executor-2->*", "executor-2→lock-server executor-2→payment-resource executor-2→rail-proxy"},
		{payouts, "*→lock-server", "executor-1→lock-server executor-2→lock-server reconciler→lock-server"},
		{payouts, "executor-*→rail-proxy", "executor-1→rail-proxy executor-2→rail-proxy"},
		{payouts, "lock-server→*", "lock-server→lockdb"},
		{payouts, "*→paydb", "payment-resource→paydb rail-proxy→paydb"},
		{payouts, "rail-proxy↔*", "executor-1→rail-proxy executor-2→rail-proxy rail-proxy→rail-stub rail-proxy→paydb"},
		{payouts, "executor-3→*", ""},
		{payouts, "lock-server→etcd-1", ""},
		{cluster, "etcd-1→*", "etcd-1→etcd-2 etcd-1→etcd-3"},
		{cluster, "etcd-1↔etcd-*", "etcd-1→etcd-2 etcd-1→etcd-3 etcd-2→etcd-1 etcd-3→etcd-1"},
		{cluster, "etcd-1<->etcd-2", "etcd-1→etcd-2 etcd-2→etcd-1"},
		{cluster, "lock-server→etcd-*", "lock-server→etcd-1 lock-server→etcd-2 lock-server→etcd-3"},
		{cluster, "*→lock-server", "lock-client-1→lock-server lock-client-2→lock-server lock-operator→lock-server"},
		{cluster, "executor-1→lock-server", ""},
	} {
		r, err := c.target.Route()
		if err != nil {
			t.Error(err)
		}
		var got []string
		for _, l := range c.p.Hops(r) {
			got = append(got, l.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s means %v, want %s", c.target, got, c.want)
		}
	}
}

func TestStepsOnLinksThatCannotBeMeantAreRefused(t *testing.T) {
	sec := time.Second
	slow := func(n Network) Step { return broken(Slow, "executor-1→rail-proxy", 0, sec, &n) }
	on := func(s Step, on, until Event) Step {
		s.On, s.Until = on, until
		return s
	}
	for name, c := range map[string]struct {
		step Step
		want string
	}{
		"a mistyped link":                 {broken(Cut, "executor-1→lock-sever", 0, sec, nil), `did you mean "executor-1→lock-server"?`},
		"a mistyped group":                {broken(Cut, "executr-1→*", 0, sec, nil), `did you mean "executor-1→*"?`},
		"a process":                       {broken(Cut, "executor-1", 0, sec, nil), "is no link"},
		"a link that no holder opens":     {on(broken(Hold, "rail-proxy→holder", 0, sec, nil), ClaimOK, ""), "stands before the arrow"},
		"the holder of nothing":           {broken(Hold, "holder→rail-proxy", 0, sec, nil), "says whose"},
		"an end without a beginning":      {on(broken(Hold, "executor-1→rail-proxy", 0, sec, nil), "", SuccessorAtRail), `knows neither "until" nor "delay"`},
		"a mistyped event":                {on(broken(Hold, "holder→rail-proxy", 0, sec, nil), "submited.ok", ""), `did you mean "submitted.ok"?`},
		"a mistyped direction":            {broken(Cut, "executor-1→rail-proxy", 0, sec, &Network{Direction: "requests"}), `"request"`},
		"a slow link without a latency":   {slow(Network{Direction: OfRequests}), "latency is 0s; 50ms to 10s"},
		"more jitter than latency":        {slow(Network{Latency: Duration(100 * ms), Jitter: Duration(51 * ms)}), "0 to half of the latency"},
		"a latency finer than the proxy":  {slow(Network{Latency: Duration(100*ms + time.Microsecond)}), "whole milliseconds"},
		"a bandwidth below nothing":       {slow(Network{Latency: Duration(100 * ms), KBPerSecond: -1}), "kbPerSecond is -1"},
		"a cut with a latency":            {broken(Cut, "executor-1→rail-proxy", 0, sec, &Network{Latency: Duration(100 * ms)}), "are for slow"},
		"a stop of a network":             {Step{Fault: Pause, Target: "executor-1", For: Duration(sec), Network: &Network{}}, `"network" belongs to cut, hold, slow and reset`},
		"a mistyped fault":                {broken("cutt", "executor-1→rail-proxy", 0, sec, nil), `did you mean "cut"?`},
		"a cut that never ends":           {broken(Cut, "executor-1→rail-proxy", 0, 0, nil), `"for" must be positive`},
		"a cut beyond the drive":          {broken(Cut, "executor-1→rail-proxy", 29*sec, 2*sec, nil), "after the drive has ended"},
		"a member that the stack has not": {broken(Cut, "etcd-1→etcd-2", 0, sec, nil), "is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := stops(c.step).Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
	if err := stops(broken(Cut, "executor-1→*", 0, sec, nil), broken(Cut, "*→rail-proxy", 500*ms, sec, nil)).Validate(); err == nil ||
		!strings.Contains(err.Error(), "executor-1→rail-proxy is broken by cut at 0s and by cut again at 500ms") {
		t.Errorf("one link twice: %v", err)
	}
	if err := stops(broken(Cut, "executor-1→*", 0, sec, nil), broken(Slow, "executor-2→*", 500*ms, sec, &Network{Latency: Duration(100 * ms)})).Validate(); err != nil {
		t.Errorf("two links: %v", err)
	}
}

func TestAPlanWhoseFaultsOfLinksHoldATransferPastTheSettlementWindowIsRefused(t *testing.T) {
	late := func(d time.Duration) *Network { return &Network{Latency: Duration(d)} }
	for name, c := range map[string]struct {
		plan   Plan
		refuse bool
	}{
		"a hold that leaves 1 ms":           {stops(broken(Hold, "rail-proxy→rail-stub", 0, 4799*ms, nil)), false},
		"a hold that leaves nothing":        {stops(broken(Hold, "rail-proxy→rail-stub", 0, 4800*ms, nil)), true},
		"a group with the link in it":       {stops(broken(Hold, "rail-proxy→*", 0, 4800*ms, nil)), true},
		"a cut as long":                     {stops(broken(Cut, "*→rail-stub", 0, 4800*ms, nil)), true},
		"any other link":                    {stops(broken(Hold, "executor-1→*", 0, 9*time.Second, nil)), false},
		"a slow link, for long":             {stops(broken(Slow, "rail-proxy→rail-stub", 0, 20*time.Second, late(400*ms))), false},
		"a link as slow as that":            {stops(broken(Slow, "rail-proxy→rail-stub", 0, 20*time.Second, late(4800*ms))), true},
		"a narrow link, for long":           {stops(broken(Slow, "rail-proxy→rail-stub", 0, 20*time.Second, &Network{Latency: Duration(100 * ms), KBPerSecond: 1})), true},
		"a hold, and the rail stopped then": {stops(broken(Hold, "rail-proxy→rail-stub", 0, 2400*ms, nil), stop("rail-stub", 3*time.Second, 2400*ms)), true},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.plan.Validate()
			if (err != nil) != c.refuse || err != nil && !strings.Contains(err.Error(), "reaches the settlement window (5s)") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// everywhere are the stacks that nemeses of links are generated for.
func everywhere() (all []Plan) {
	for _, backend := range []Plan{{Backend: BackendPG}, {Backend: BackendEtcd}, {Backend: BackendEtcd, EtcdMembers: 3}} {
		payouts := example(1)
		payouts.LookupLag = Duration(500 * ms)
		locks := Plan{Workload: LockWorkload, Drive: payouts.Drive, Locks: &Locks{Clients: 6, Sessions: 3, Keys: 4, Revokes: 1}}
		for _, p := range []Plan{payouts, locks} {
			p.Backend, p.EtcdMembers = backend.Backend, backend.EtcdMembers
			all = append(all, p)
		}
	}
	return all
}

func TestEveryGeneratedPlanOfLinksIsValidReadsBackAndFitsItsDrive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := rapid.SampledFrom(everywhere()).Draw(rt, "stack")
		p.Nemesis = rapid.SampledFrom([]string{Partition, string(Slow), Flaky, "partition,slow,flaky", "pause,partition", "kill,flaky"}).Draw(rt, "nemesis")
		p.Seed = rapid.Uint64().Draw(rt, "seed")
		p.Drive = Duration(rapid.IntRange(1, 120).Draw(rt, "drive in s")) * Duration(time.Second)
		p, err := Generate(p)
		if err != nil {
			rt.Fatal(err)
		}
		back, err := Parse([]byte(text(t, p)))
		if err != nil || text(t, back) != text(t, p) {
			rt.Fatalf("it does not read back: %v", err)
		}
	})
}

func TestADriveOfDefaultLengthMeetsEveryKindOfLinkAndHoldsEveryKindOfWrite(t *testing.T) {
	for _, p := range everywhere() {
		for seed := range uint64(20) {
			p.Seed = seed
			for nemesis, least := range map[string]int{Partition: 10, string(Slow): 12, Flaky: 30} {
				p.Nemesis, p.Steps = nemesis, nil
				got := generate(t, p)
				timed, cut := 0, map[contract.Link]bool{}
				on := map[string]int{}
				for _, s := range got.Steps {
					r, err := s.Target.Route()
					if err != nil {
						t.Fatal(err)
					}
					if !s.Timed() {
						on[fmt.Sprint(s.Fault, s.On)]++
						continue
					}
					timed++
					for _, l := range p.Hops(r) {
						cut[l] = true
					}
				}
				if timed < least {
					t.Errorf("%s on %s, seed %d: %d steps by time", nemesis, p.Backend, seed, timed)
				}
				for _, l := range p.stackLinks() {
					if kind := kindOf(l.From) + "→" + kindOf(l.To); nemesis == Flaky && !slices.ContainsFunc(p.stackLinks(), func(o contract.Link) bool {
						return cut[o] && kindOf(o.From)+"→"+kindOf(o.To) == kind
					}) {
						t.Errorf("%s on %s, seed %d: no %s is reset", nemesis, p.Backend, seed, kind)
					}
				}
				if nemesis == Partition && p.Workload == PayoutWorkload && (on["holdsubmitted.ok"] < 2 || on["holdoutcome.ok"] < 1 || on["holdclaim.ok"] < 1 || on["cutclaim.ok"] < 1) {
					t.Errorf("seed %d holds %v", seed, on)
				}
			}
		}
	}
}

func TestPlansOfLinksDependOnTheSeedAlone(t *testing.T) {
	for _, nemesis := range []string{Partition, string(Slow), Flaky} {
		p := example(7)
		p.Nemesis = nemesis
		again, other := p, p
		other.Seed = 8
		if a, b, c := text(t, generate(t, p)), text(t, generate(t, again)), text(t, generate(t, other)); a != b || a == c {
			t.Errorf("%s: one seed makes two plans, or two seeds one", nemesis)
		}
	}
}
