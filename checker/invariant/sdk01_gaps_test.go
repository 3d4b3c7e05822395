package invariant

import (
	"testing"
	"time"

	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// A stop that nobody recorded makes an honest client look late.
func TestALateClientIsNotAccusedWhereItsExcuseMayBeLost(t *testing.T) {
	l := live{bank()}
	token := l.lease()
	l.fault("executor-1", "inject")
	l.pass(3 * time.Second)
	l.fault("executor-1", "healed")
	l.claim(token)
	var rest []history.Event
	for _, e := range l.events {
		if e.W != history.Nemesis {
			rest = append(rest, e)
		}
	}
	for witness, want := range map[history.Witness]verdict.Status{"": verdict.Violated, history.Nemesis: verdict.Inconclusive, history.Wiretap: verdict.Inconclusive} {
		j := NewJudge(clientSettings)
		for i := range rest {
			j.Observe(&rest[i])
		}
		gaps := map[history.Witness]string{}
		if witness != "" {
			gaps[witness] = "the file is missing"
		}
		for _, inv := range j.Conclude(gaps) {
			if inv.ID == "SDK-01" && inv.Status != want {
				t.Errorf("with a gap of %q it is %s (%s), want %s", witness, inv.Status, inv.Reason, want)
			}
		}
		if id, v, ok := j.First(); want != verdict.Violated && ok && id == "SDK-01" {
			t.Errorf("with a gap of %q the first violation is %s", witness, v.Sentence)
		}
	}
}
