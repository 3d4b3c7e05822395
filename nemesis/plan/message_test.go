package plan

import (
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
)

// script is a plan with one step that keeps a submission back.
func script() Plan {
	p := example(1)
	p.Schema, p.Nemesis, p.Together = Schema, Script, 1
	p.Steps = []Step{{Fault: Delay, Target: "executor-*→rail-proxy", Message: &Message{Side: Request, Op: contract.OpSubmit},
		Until: SuccessorAtRail, For: Duration(3 * time.Second)}}
	return p
}

func TestAScriptReadsBackAsItWasWritten(t *testing.T) {
	p := script()
	p.Locks = &Locks{Clients: 4, Sessions: 4, Keys: 1}
	p.Steps = append(p.Steps,
		Step{Fault: Drop, Target: "rail-proxy→rail-stub", Message: &Message{Side: Answer, Op: contract.OpTransfer, Nth: 2}},
		Step{Fault: Delay, Target: "holder→payment-resource", On: ClaimOK, Message: &Message{Side: Request, Op: contract.OpSubmitted}, For: Duration(time.Second)},
		Step{Fault: Duplicate, Target: "executor-*→lock-server", Message: &Message{Side: Request, Op: contract.OpRenew}, Delay: Duration(time.Second)},
		Step{Fault: Reorder, Target: "executor-*→payment-resource", Message: &Message{Side: Request, Op: contract.OpClaim, Behind: BehindPayout}, For: Duration(time.Second)},
		Step{Fault: Pause, Target: Holder, On: ClaimOK, For: Duration(time.Second)})
	back, err := Parse([]byte(text(t, p)))
	if err != nil {
		t.Fatal(err)
	}
	if text(t, back) != text(t, p) {
		t.Errorf("it came back as\n%s", text(t, back))
	}
}

func TestAWrongMessageIsRefusedWithWhatWasMeant(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Step)
		want   string
	}{
		"a mistyped link":                  {func(s *Step) { s.Target = "executor-*→rail-prox" }, `did you mean "executor-*→rail-proxy"?`},
		"a link that is none":              {func(s *Step) { s.Target = Holder }, `did you mean "holder→`},
		"an operation of another server":   {func(s *Step) { s.Message.Op = "transfer" }, `did you mean "submit"?`},
		"a mistyped side":                  {func(s *Step) { s.Message.Side = "requests" }, `did you mean "request"?`},
		"no message":                       {func(s *Step) { s.Message = nil }, `needs a "message"`},
		"a pause with a message":           {func(s *Step) { s.Fault, s.Target, s.On = Pause, Holder, ClaimOK }, `belongs to delay, drop, duplicate and reorder, not to pause`},
		"the second of whichever executor": {func(s *Step) { s.Message.Nth = 2 }, "name one of the executors"},
		"the holder of nothing":            {func(s *Step) { s.Target = "holder→rail-proxy" }, `needs an event "on"`},
		"a negative number":                {func(s *Step) { s.Message.Nth = -1 }, "no message number -1"},
		"a pause's delay":                  {func(s *Step) { s.Delay = 1 }, `"delay" is for pauses and duplicates`},
		"a duplicate that lasts":           {func(s *Step) { s.Fault = Duplicate }, `"delay" says when; leave "for" and "until" out`},
		"a second answer":                  {func(s *Step) { s.Fault, s.For, s.Until, s.Message.Side = Duplicate, 0, "", Answer }, "duplicate is for requests"},
		"a duplicate after the drive":      {func(s *Step) { s.Fault, s.For, s.Until, s.Delay = Duplicate, 0, "", Duration(time.Hour) }, "after the drive has ended"},
		"answers out of their order":       {func(s *Step) { s.Fault, s.Until, s.Message.Side = Reorder, "", Answer }, "reorder is for requests"},
		"a reorder without a bound":        {func(s *Step) { s.Fault, s.Until, s.For = Reorder, "", 0 }, `"for" must be positive`},
		"a reorder until an event":         {func(s *Step) { s.Fault = Reorder }, `leave "until" out`},
		"a delay behind something":         {func(s *Step) { s.Message.Behind = BehindLink }, `"behind" is for reorder`},
		"a mistyped thing to come behind":  {func(s *Step) { s.Fault, s.Until, s.Message.Behind = Reorder, "", "payouts" }, `did you mean "payout"?`},
		"a renewal behind its payout": {func(s *Step) {
			*s = Step{Fault: Reorder, Target: "executor-1→lock-server", For: 1, Message: &Message{Side: Request, Op: contract.OpRenew, Behind: BehindPayout}}
		}, "about no payout"},
		"an operation of another client": {func(s *Step) { s.Target, s.Message.Op, s.Until = "reconciler→payment-resource", "resolv", "" }, `did you mean "resolve"?`},
		"an auditor who is not there": {func(s *Step) {
			s.Target, s.Message.Op, s.Until = "auditor→payment-resource", contract.OpGetAccount, ""
		}, `link "auditor→payment-resource" is not known`},
		"a delay without an end":            {func(s *Step) { s.For = 0 }, `"for" must be positive`},
		"a drop that lasts":                 {func(s *Step) { s.Fault = Drop }, `leave "for" and "until" out`},
		"a successor of a lock's message":   {func(s *Step) { s.Target, s.Message.Op = "executor-1→lock-server", contract.OpRenew }, `leave "until" out`},
		"a window that outlasts the drive":  {func(s *Step) { s.For = Duration(time.Hour) }, "after the drive has ended"},
		"a mistyped event that ends a step": {func(s *Step) { s.Until = "successor.claim" }, `did you mean "successor.claimed"?`},
	} {
		t.Run(name, func(t *testing.T) {
			p := script()
			c.change(&p.Steps[0])
			if err := p.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
}

func TestATransferIsNeverDuplicatedAndNeverHeldForTheSettlementWindow(t *testing.T) {
	p := script()
	p.Steps = []Step{{Fault: Duplicate, Target: "rail-proxy→rail-stub", Message: &Message{Side: Request, Op: contract.OpTransfer}}}
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "a transfer is never duplicated") {
		t.Errorf("got %v", err)
	}
	p.Steps[0].Fault, p.Steps[0].For = Reorder, Duration(time.Second)
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	p.Steps[0].For = Duration(SettlementWindow - RailTimeout)
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "settlement window") {
		t.Errorf("got %v", err)
	}
}

func TestAKeyboardWithoutArrowsWillDo(t *testing.T) {
	p := script()
	p.Steps[0].Target = "executor-*->rail-proxy"
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}

func TestMessagesOfAllExecutorsMayBeLateAtOnceAsNobodyIsStopped(t *testing.T) {
	p := script()
	if p.Together = p.Executors; p.Validate() != nil {
		t.Error(p.Validate())
	}
	p.Steps = append(p.Steps, Step{Fault: Pause, Target: Holder, On: ClaimOK, For: Duration(time.Second)})
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "nobody is left to take over") {
		t.Errorf("got %v", err)
	}
}
