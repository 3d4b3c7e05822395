package verdict

import (
	"strings"
	"testing"
	"time"
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

// A mix asks an invariant for the dangers of each of its nemeses. One of them breaks it on purpose, and that shows nothing of the
// other.
func TestWhatFellAsDeclaredIsAskedForTheDangersOfARunsOtherNemeses(t *testing.T) {
	idle := map[string]int64{"rewinds": 1, "regrants_across": 1}
	var table []string
	for _, n := range Needs(Settings{Workload: "payout", Backend: "pg", Nemesis: "pause,restore-unguarded", Drive: time.Minute}) {
		if _, ok := idle[n.Counter]; n.Invariant == "INV-04" && !ok {
			table = append(table, n.Counter)
		}
	}
	if len(table) == 0 {
		t.Fatal("the mix asks INV-04 for nothing more")
	}
	met := map[string]int64{"rewinds": 1, "regrants_across": 1}
	for _, counter := range table {
		met[counter] = 10
	}
	declares := Expectation{DeclaredBy: "restore-unguarded", Must: []string{"INV-04"}, May: []string{"LIVE-01"}, Across: []string{"INV-04", "LIVE-01"}}
	for _, c := range []struct {
		name          string
		nemesis       string
		danger        map[string]int64
		across, found int64
		expect        Expectation
		exit          int
		open          Status
		says          string
	}{
		{"both did something", "pause,restore-unguarded", met, 2, 2, declares, ExitPass, "", "violated as restore-unguarded declares"},
		{"the other did nothing", "pause,restore-unguarded", idle, 2, 2, declares, ExitOpen, NotExercised, "INV-04 fell as restore-unguarded declares (INV-04,LIVE-01?), but is not exercised otherwise: grants of a key after its first: 0, a pass needs 1"},
		{"there is no other", "restore-unguarded", idle, 2, 2, declares, ExitPass, "", "violated as restore-unguarded declares"},
		{"the other did nothing, and a violation is not declared", "pause,restore-unguarded", idle, 1, 2, declares, ExitViolated, "", "where restore-unguarded is no reason for it"},
		{"a control is asked what fell", "pause,restore-unguarded", idle, 2, 2, Expectation{Must: []string{"INV-04"}}, ExitPass, "", "violated exactly as expected"},
	} {
		s := Settings{Workload: "payout", Backend: "pg", Nemesis: c.nemesis, Drive: time.Minute}
		r := Run{Settings: s, Expect: &c.expect, Invariants: []Invariant{Decide(Invariant{ID: "INV-04", Checked: 9, Found: c.found, Across: c.across, Danger: c.danger}, nil, s)}}
		r.Conclude()
		if r.Exit != c.exit || r.Open != c.open || r.Overall != Violated || !strings.Contains(r.Reason, c.says) {
			t.Errorf("%s: %s, exit %d, open as %q, because %q", c.name, r.Overall, r.Exit, r.Open, r.Reason)
		}
	}
}

// Where something fell as declared, overall says that, whatever the run lacks.
func TestARunThatDeclaresWhatItBreaksSaysWhatItIsInstead(t *testing.T) {
	must := func() *Expectation { return &Expectation{DeclaredBy: "restore-unguarded", Must: []string{"INV-01"}} }
	for _, c := range []struct {
		name       string
		invariants []Invariant
		expect     *Expectation
		then       func(r *Run)
		open       Status
	}{
		{"all as declared", with(Violated, Pass), must(), func(*Run) {}, ""},
		{"what had to fall did not", with(Pass, Pass), must(), func(*Run) {}, NotExercised},
		{"nobody knows whether it did", with(Inconclusive, Pass), must(), func(*Run) {}, Inconclusive},
		{"it fell, and another met nothing", with(Violated, NotExercised), must(), func(*Run) {}, NotExercised},
		{"it fell, and another is not known", with(Violated, NotExercised, Inconclusive), must(), func(*Run) {}, Inconclusive},
		{"it fell, and a fault was not seen", with(Violated, Pass), must(), func(r *Run) { r.Lack("not seen") }, NotExercised},
		{"it fell, and the run was cut short", with(Violated, Pass), must(), func(r *Run) { r.Doubt("cut short"); r.Lack("not seen") }, Inconclusive},
		{"something else fell, too", with(Violated, Violated), must(), func(r *Run) { r.Doubt("cut short"); r.Lack("not seen") }, ""},
		{"a control was cut short", with(Pass, Pass), &Expectation{Must: []string{"INV-01"}}, func(r *Run) { r.Doubt("cut short") }, ""},
		{"nothing is declared, and the run was cut short", with(Pass, Pass), nil, func(r *Run) { r.Doubt("cut short") }, ""},
		{"the harness failed", with(Pass, Pass), must(), func(r *Run) { r.Harness = "no space"; r.Conclude() }, ""},
	} {
		r := Run{Invariants: c.invariants, Expect: c.expect}
		r.Conclude()
		if c.then(&r); r.Open != c.open || (r.Open != "") && r.Exit != ExitOpen {
			t.Errorf("%s: exit %d, open as %q, want %q; because %q", c.name, r.Exit, r.Open, c.open, r.Reason)
		}
	}
}
