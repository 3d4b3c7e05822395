package doctor

import (
	"strings"
	"testing"

	"fenceproof/deploy/process"
)

// A kernel that does not count weakens one verdict, and stops no run.
func TestAKernelThatCountsNoWaitsIsToldAndIsNoReasonNotToRun(t *testing.T) {
	state, found, mend := waits(func() bool { return false })(t.Context(), Surroundings{})
	if state != Without || !strings.Contains(found, "SDK-01 may accuse a client that nobody let run") || !strings.Contains(mend, "CONFIG_SCHED_INFO") {
		t.Errorf("%s: %s; %s", state, found, mend)
	}
	for _, p := range probes() {
		if p.name != "waits" {
			continue
		}
		if state, found, mend := p.look(t.Context(), Surroundings{}); (state == Fine) != process.Counted() || (mend == "") != (state == Fine) {
			t.Errorf("of this machine it says %s: %s; %s", state, found, mend)
		}
		return
	}
	t.Error("nobody asks")
}
