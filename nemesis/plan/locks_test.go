package plan

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
)

// lockExample is the default plan of the lock workload, before its steps.
func lockExample(seed uint64) Plan {
	return Plan{Workload: "lock", Backend: "pg", Nemesis: "pause", Seed: seed, Drive: Duration(30 * time.Second),
		Locks: &Locks{Clients: 6, Sessions: 3, Keys: 4, Rate: 120, Hold: Duration(60 * time.Millisecond), Lapses: 0.02, Revokes: 1}}
}

func TestALockPlanStopsHoldersOfKeysUntilSomebodyElseHasThemAndTheLockWithItsBackend(t *testing.T) {
	for seed := range uint64(20) {
		p := WithServicePauses(generate(t, lockExample(seed)))
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		holders, stopped := 0, map[Target]int{}
		for _, s := range p.Steps {
			switch {
			case s.Target == Holder && s.On == AcquireOK && s.Until == SuccessorGranted:
				holders++
			case s.Timed():
				stopped[s.Target]++
			default:
				t.Errorf("seed %d: step %+v", seed, s)
			}
		}
		if holders < 20 || stopped["lock-server"] < 2 || stopped["lockdb"] < 2 || len(stopped) != 2 {
			t.Errorf("seed %d stops %d holders and %v", seed, holders, stopped)
		}
	}
}

func TestALockPlanReadsBackAndDependsOnItsSeedAlone(t *testing.T) {
	p := WithServicePauses(generate(t, lockExample(math.MaxUint64)))
	back, err := Parse([]byte(text(t, p)))
	if err != nil || text(t, back) != text(t, p) {
		t.Errorf("it came back as\n%s\n%v", text(t, back), err)
	}
	for _, word := range []string{"executors", "accounts", "prepare", "declines"} {
		if strings.Contains(text(t, p), `"`+word+`"`) {
			t.Errorf("it speaks of %s", word)
		}
	}
	one, again, other := generate(t, lockExample(1)), generate(t, lockExample(1)), generate(t, lockExample(2))
	if text(t, one) != text(t, again) || slices.Equal(one.Steps, other.Steps) {
		t.Error("one seed makes two plans, or two seeds one")
	}
}

func TestALockPlanThatCannotBeMeantIsRefusedWithTheReason(t *testing.T) {
	for want, change := range map[string]func(*Plan){
		`has no payouts: leave "executors" out`:   func(p *Plan) { p.Executors = 6 },
		`has no payouts: leave "accounts" out`:    func(p *Plan) { p.Accounts = 6 },
		`has no payouts: leave "rate" out`:        func(p *Plan) { p.Rate = 6 },
		`has no payouts: leave "payouts" out`:     func(p *Plan) { p.Payouts = 6 },
		`has no payouts: leave "funds" out`:       func(p *Plan) { p.Funds = 6 },
		`has no payouts: leave "prepare" out`:     func(p *Plan) { p.Prepare = 6 },
		`has no payouts: leave "declines" out`:    func(p *Plan) { p.Declines = 1 },
		`has no payouts: leave "lostReplies" out`: func(p *Plan) { p.LostReplies = 1 },
		`has no payouts: leave "lookupLag" out`:   func(p *Plan) { p.LookupLag = Duration(time.Second) },
		`needs "locks"`:                           func(p *Plan) { p.Locks = nil },
		"clients is 65; 1 to 64":                  func(p *Plan) { p.Locks.Clients = 65 },
		"sessions is 0":                           func(p *Plan) { p.Locks.Sessions = 0 },
		"keys is 0":                               func(p *Plan) { p.Locks.Keys = 0 },
		"rate is NaN turns":                       func(p *Plan) { p.Locks.Rate = math.NaN() },
		"hold is 1s":                              func(p *Plan) { p.Locks.Hold = Duration(time.Second) },
		"lapses is 1.5":                           func(p *Plan) { p.Locks.Lapses = 1.5 },
		"revokes is -1":                           func(p *Plan) { p.Locks.Revokes = -1 },
		"fewer than the 6 lock clients":           func(p *Plan) { p.Together = 6 },
		`did you mean "acquire.ok"?`:              func(p *Plan) { p.Steps[0].On = ClaimOK },
		`did you mean "successor.granted"?`:       func(p *Plan) { p.Steps[0].Until = SuccessorPosted },
		`target "rail-proxy" is not known`:        func(p *Plan) { p.Steps[0] = Step{Fault: Pause, Target: "rail-proxy", For: Duration(time.Second)} },
		`did you mean "lock-client-1"?`:           func(p *Plan) { p.Steps[0].Target = "lock-client-7" },
		`did you mean "lock-client-*→lock-server"?`: func(p *Plan) {
			p.Steps[0] = Step{Fault: Drop, Target: "lock-client→lock-server", Message: &Message{Side: Answer, Op: contract.OpAcquire}}
		},
	} {
		t.Run(want, func(t *testing.T) {
			p := generate(t, lockExample(1))
			change(&p)
			if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error that says %q", err, want)
			}
		})
	}
	p := lockExample(1)
	p.Locks.Clients = 1
	if _, err := Generate(p); err == nil || !strings.Contains(err.Error(), "at least 2") {
		t.Errorf("one client alone: %v", err)
	}
}

func TestAMessageOfALockClientMayBeLateUntilSomebodyElseHasItsKey(t *testing.T) {
	p := generate(t, lockExample(1))
	p.Nemesis, p.Steps = Script, []Step{
		{Fault: Delay, Target: "lock-client-*→lock-server", Message: &Message{Side: Request, Op: contract.OpRelease}, Until: SuccessorGranted, For: Duration(5 * time.Second)},
		{Fault: Drop, Target: "lock-operator→lock-server", Message: &Message{Side: Answer, Op: contract.OpRevoke}},
		{Fault: Delay, Target: "holder→lock-server", On: AcquireOK, Message: &Message{Side: Request, Op: contract.OpRenew}, For: Duration(time.Second)},
	}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	p.Steps[0].Message.Nth = 2
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "name one of the lock clients") {
		t.Errorf("the second of whichever client: %v", err)
	}
}
