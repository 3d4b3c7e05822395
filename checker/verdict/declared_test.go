package verdict

import (
	"strings"
	"testing"
)

func TestANemesisThatMayBreakSomethingIsMetWhetherItHasOrNot(t *testing.T) {
	fallen := with(Violated, Pass, Pass)
	fallen[0].Found, fallen[0].Across, fallen[0].Violations = 1, 1, []Violation{{Sentence: "token 7 was issued twice", Across: true}}
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
		{"more of it fell than it explains", []Invariant{{ID: "INV-01", Status: Violated, Found: 3, Across: 2, Violations: []Violation{{Sentence: "one", Across: true}, {Sentence: "the other"}}}, {ID: "INV-02", Status: Pass}}, ExitViolated,
			"INV-01 is violated 1 time of 3 where failover-async is no reason for it: the other"},
		{"more of it fell than it explains, and something else", []Invariant{{ID: "INV-01", Status: Violated, Found: 1, Violations: []Violation{{Sentence: "the other"}}}, {ID: "INV-02", Status: Violated, Found: 1}}, ExitViolated,
			"INV-02 violated, which the expectation INV-01? does not name; besides, INV-01 is violated 1 time of 1 where failover-async is no reason for it: the other"},
		{"how something else ended is not known", []Invariant{fallen[0], {ID: "INV-02", Status: Inconclusive, Doubt: "open", Reason: "open"}}, ExitOpen, "INV-02 is inconclusive"},
	} {
		r := Run{Invariants: c.invariants, Expect: &Expectation{DeclaredBy: "failover-async", Must: []string{}, May: []string{"INV-01"}, Across: []string{"INV-01"}}}
		r.Conclude()
		if r.Exit != c.exit || !strings.Contains(r.Reason, c.reason) {
			t.Errorf("%s: exit %d, because %q; want %d, %q", c.name, r.Exit, r.Reason, c.exit, c.reason)
		}
	}
}

// What a nemesis breaks on purpose is shown by what it has caused, and by nothing else.
func TestWhatANemesisHasToBreakIsMissingWhereItHasNotCausedIt(t *testing.T) {
	r := Run{Invariants: with(Violated, Pass), Expect: &Expectation{DeclaredBy: "restore-unguarded", Must: []string{"INV-01"}, Across: []string{"INV-01"}}}
	r.Invariants[0].Found = 2
	r.Conclude()
	if r.Exit != ExitViolated || len(r.Expect.Missing) != 1 || len(r.Expect.Surplus) != 1 || r.Expect.Met {
		t.Errorf("exit %d, because %q: missing %q, surplus %q", r.Exit, r.Reason, r.Expect.Missing, r.Expect.Surplus)
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
