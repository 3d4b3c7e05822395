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
		{"what it may break was not exercised", with(NotExercised, Pass, Pass), ExitOpen, "INV-01 is not exercised"},
		{"nobody knows whether it has broken what it may break", with(Inconclusive, Pass, Pass), ExitOpen, "INV-01 is inconclusive"},
		{"how something else ended is not known", []Invariant{fallen[0], {ID: "INV-02", Status: Inconclusive, Doubt: "open", Reason: "open"}}, ExitOpen, "INV-02 is inconclusive"},
	} {
		r := Run{Invariants: c.invariants, Expect: &Expectation{DeclaredBy: "failover-async", Must: []string{}, May: []string{"INV-01"}}}
		r.Conclude()
		if r.Exit != c.exit || !strings.Contains(r.Reason, c.reason) {
			t.Errorf("%s: exit %d, because %q; want %d, %q", c.name, r.Exit, r.Reason, c.exit, c.reason)
		}
	}
}

// Whoever asks for a negative control wants to see what falls. A nemesis that breaks something on purpose is one of a run's
// nemeses: what the run lacks besides, it lacks.
func TestARunThatDeclaresWhatItBreaksIsNotExercisedWhereAFaultWasNotSeen(t *testing.T) {
	for name, c := range map[string]struct {
		expect  Expectation
		status  Status
		overall Status
		exit    int
	}{
		"a nemesis that may break something, and has not": {Expectation{DeclaredBy: "failover-async", Must: []string{}, May: []string{"INV-01"}}, Pass, NotExercised, ExitOpen},
		"a nemesis that may break something, and has":     {Expectation{DeclaredBy: "failover-async", Must: []string{}, May: []string{"INV-01"}}, Violated, Violated, ExitOpen},
		"a nemesis that has to break something, and has":  {Expectation{DeclaredBy: "restore-unguarded", Must: []string{"INV-01"}}, Violated, Violated, ExitOpen},
		"a control": {Expectation{Must: []string{"INV-01"}}, Violated, Violated, ExitPass},
	} {
		r := Run{Invariants: with(c.status, Pass), Expect: &c.expect}
		r.Conclude()
		r.Lack("the effect of pause was not seen")
		if r.Exit != c.exit || r.Overall != c.overall || strings.Contains(r.Reason, "not seen") != (c.exit == ExitOpen) {
			t.Errorf("%s: %s, exit %d, because %q", name, r.Overall, r.Exit, r.Reason)
		}
	}
}

func TestADoubtAboutARunThatDeclaresWhatItBreaksIsOneAboutTheRun(t *testing.T) {
	r := Run{Invariants: with(Pass, Pass), Expect: &Expectation{DeclaredBy: "failover-async", Must: []string{}, May: []string{"INV-01"}}}
	r.Conclude()
	if r.Doubt("a process ended by itself"); r.Exit != ExitOpen || r.Overall != Inconclusive {
		t.Errorf("%s, exit %d, because %q", r.Overall, r.Exit, r.Reason)
	}
}
