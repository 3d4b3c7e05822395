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
		"a mistyped link":                   {func(s *Step) { s.Target = "executor-*→rail-prox" }, `did you mean "executor-*→rail-proxy"?`},
		"a link that is none":               {func(s *Step) { s.Target = Holder }, `did you mean "holder→`},
		"an operation of another server":    {func(s *Step) { s.Message.Op = "transfer" }, `did you mean "submit"?`},
		"a mistyped side":                   {func(s *Step) { s.Message.Side = "requests" }, `did you mean "request"?`},
		"no message":                        {func(s *Step) { s.Message = nil }, `needs a "message"`},
		"a pause with a message":            {func(s *Step) { s.Fault, s.Target, s.On = Pause, Holder, ClaimOK }, `belongs to delay and drop`},
		"the second of whichever executor":  {func(s *Step) { s.Message.Nth = 2 }, "name one of the executors"},
		"the holder of nothing":             {func(s *Step) { s.Target = "holder→rail-proxy" }, `needs an event "on"`},
		"a negative number":                 {func(s *Step) { s.Message.Nth = -1 }, "no message number -1"},
		"a pause's delay":                   {func(s *Step) { s.Delay = 1 }, `"delay" is for pauses`},
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
