package plan

import (
	"strings"
	"testing"
	"time"
)

func TestARevokePlanTakesKeysFromTheirHoldersUnderTheirHands(t *testing.T) {
	for seed := range uint64(20) {
		for _, p := range []Plan{example(seed), lockExample(seed)} {
			p.Nemesis = string(Revoke)
			p = generate(t, p)
			if len(p.Steps) < 30 {
				t.Errorf("%s, seed %d: only %d revokes", p.Workload, seed, len(p.Steps))
			}
			for _, s := range p.Steps {
				if s.Fault != Revoke || s.Target != Holder || s.On != AcquireOK || s.Delay > Duration(amidPayout.max) || s.At > p.Drive-Duration(revokeBreak) {
					t.Errorf("%s, seed %d: step %+v", p.Workload, seed, s)
				}
			}
		}
	}
}

func TestARevokeThatCannotBeMeantIsRefused(t *testing.T) {
	for says, change := range map[string]func(*Step){
		`"target": "holder"`:     func(s *Step) { s.Target = "executor-1" },
		`"on": "acquire.ok"`:     func(s *Step) { s.On = ClaimOK },
		`what is revoked stays`:  func(s *Step) { s.For = Duration(time.Second) },
		`"message" belongs`:      func(s *Step) { s.Message = &Message{Side: Request, Op: "claim"} },
		"after the drive":        func(s *Step) { s.At = Duration(time.Hour) },
		`did you mean "revoke"?`: func(s *Step) { s.Fault = "revok" },
	} {
		p := example(1)
		p.Nemesis = string(Revoke)
		p = generate(t, p)
		change(&p.Steps[3])
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error that says %s", err, says)
		}
	}
}
