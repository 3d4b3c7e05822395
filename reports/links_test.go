package reports

import (
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

func TestAFaultOfALinkIsToldAsOneAndLiesOnTheLaneOfItsClient(t *testing.T) {
	for _, c := range []struct {
		op, phase, target string
		want              []string // nil for nothing
	}{
		{"hold", "seen", "executor-2→rail-proxy", []string{"executor-2", "HELD BACK", "rail-proxy"}},
		{"hold", "healed", "executor-2→rail-proxy", []string{"executor-2", "HEALED", "arrives now"}},
		{"cut", "healed", "executor-2→lock-server", []string{"lock-server", "lost"}},
		{"cut", "inject", "executor-2→lock-server", nil},
		{"delay", "seen", "executor-2→rail-proxy", []string{"LATE: a message between it and rail-proxy"}},
		{"delay", "healed", "executor-2→rail-proxy", []string{"GOES ON"}},
		{"drop", "seen", "executor-2→rail-proxy", []string{"LOST"}},
		{"drop", "healed", "executor-2→rail-proxy", nil}, // it stays lost
		{"duplicate", "seen", "executor-2→rail-proxy", []string{"AGAIN: a request"}},
		{"reorder", "seen", "executor-2→rail-proxy", []string{"OVERTAKEN: a request"}},
		{"reorder", "heal", "executor-2→rail-proxy", nil},
	} {
		text, ok := overLink(&history.Event{Op: contract.Op(c.op), Phase: c.phase, Target: c.target})
		if !ok || (text == "") != (c.want == nil) {
			t.Errorf("%s %s: %q, %v", c.op, c.phase, text, ok)
		}
		for _, w := range c.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s %s: %q does not say %s", c.op, c.phase, text, w)
			}
		}
		if got := hitBy(c.target); got != "executor-2" {
			t.Errorf("it lies on the lane of %s", got)
		}
	}
	if _, ok := overLink(&history.Event{Op: "pause", Phase: "seen", Target: "executor-2"}); ok || hitBy("executor-2") != "executor-2" {
		t.Error("a stopped process is taken for a link")
	}
	if got := faultOf("hold", "executor-2→rail-proxy"); got != "hold →rail-proxy" {
		t.Error(got)
	}
}
