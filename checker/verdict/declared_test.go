package verdict

import (
	"strings"
	"testing"
)

func TestANemesisThatMayBreakSomethingIsMetWhetherItHasOrNot(t *testing.T) {
	fallen := with(Violated, Pass, Pass)
	fallen[0].Violations = []Violation{{Sentence: "token 7 was issued twice"}}
	for _, c := range []struct {
		name       string
		invariants []Invariant
		exit       int
		reason     string
	}{
		{"it has broken what it may break", fallen, ExitPass, "violated as failover-async declares (INV-01?): token 7 was issued twice"},
		{"it has broken nothing", with(Pass, Pass, Pass), ExitPass, "nothing was violated, although failover-async may break something (INV-01?)"},
		{"it has broken something else", with(Pass, Violated, Pass), ExitViolated, "INV-02 violated, which the expectation INV-01? does not name"},
		{"it never came", with(Pass, Pass, NotExercised), ExitOpen, "INV-03 is not exercised"},
	} {
		r := Run{Invariants: c.invariants, Expect: &Expectation{DeclaredBy: "failover-async", Must: []string{}, May: []string{"INV-01"}}}
		r.Conclude()
		if r.Exit != c.exit || !strings.Contains(r.Reason, c.reason) {
			t.Errorf("%s: exit %d, because %q; want %d, %q", c.name, r.Exit, r.Reason, c.exit, c.reason)
		}
	}
}
