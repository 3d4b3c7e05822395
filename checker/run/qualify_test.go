package run

import (
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
	"fenceproof/deploy/local"
	"fenceproof/nemesis"
)

// window is the log of a fault window, by its phases.
func window(n int, phases ...string) (all []history.Event) {
	for _, p := range phases {
		all = append(all, history.Event{W: history.Nemesis, Op: "kill", Window: n, Phase: p, Target: "paydb", Msg: "for some reason"})
	}
	return all
}

func TestARunWhoseSystemOrNemesisDidNotDoItsPartIsNoPass(t *testing.T) {
	ended := history.Event{W: history.Run, Op: history.OpEnded, Msg: "rail-stub ended by itself (exit status 2); logs/rail-stub.log says more"}
	const (
		inject, seen, heal, healed, failed = nemesis.PhaseInject, nemesis.PhaseSeen, nemesis.PhaseHeal, nemesis.PhaseHealed, nemesis.PhaseFailed
	)
	keptOut := window(1, inject, seen, heal, failed)
	for i := range keptOut {
		keptOut[i].Op = "clock"
	}
	keptOut[3].Attrs, keptOut[3].Msg = map[string]string{"by": "1h0m0s", nemesis.AttrKeptOut: "true"}, "the revoke was answered 500"
	for name, c := range map[string]struct {
		events   []history.Event
		script   bool
		violated bool
		overall  verdict.Status
		exit     int
		words    string
	}{
		"all is well": {window(1, inject, seen, heal, healed), false, false, verdict.Pass, 0, "held"},
		"an effect was not seen": {append(window(1, inject, seen, heal, healed), window(2, inject, failed, heal, healed)...), false, false,
			verdict.NotExercised, 2, "the effect of kill on paydb was not seen (window 2): for some reason; "},
		"a step of a generated plan was not done": {window(1, failed), false, false, verdict.Pass, 0, "held"},
		"a step of a script was not done": {append(window(1, inject, seen, heal, healed), window(2, failed)...), true, false,
			verdict.NotExercised, 2, "the kill on paydb did not take place (window 2): for some reason; "},
		"all of a script was done":                    {window(1, inject, seen, heal, healed), true, false, verdict.Pass, 0, "held"},
		"what a script did was seen, and did not end": {window(1, inject, seen, failed), true, false, verdict.Pass, 0, "held"},
		"what was seen did not heal":                  {window(1, inject, seen, heal, failed), false, false, verdict.Pass, 0, "held"}, // the harness' failure says so
		"a process ended by itself":                   {[]history.Event{ended}, false, false, verdict.Inconclusive, 2, "rail-stub ended by itself (exit status 2)"},
		"a clock's grants were not taken away":        {keptOut, false, false, verdict.Inconclusive, 2, "the clock did not come to its end (window 1): the revoke was answered 500; "},
		"a process ended, and something was violated": {[]history.Event{ended}, false, true, verdict.Violated, 1, "violated: ; besides, rail-stub ended by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			inv := verdict.Invariant{ID: "INV-01", Status: verdict.Pass, Checked: 1}
			if c.violated {
				inv.Status = verdict.Violated
			}
			v := &verdict.Run{Invariants: []verdict.Invariant{inv}}
			v.Conclude()
			f := newFlaws(c.script)
			for _, e := range c.events {
				f.observe(&e)
			}
			qualify(v, "", f)
			if v.Overall != c.overall || v.Exit != c.exit || !strings.Contains(v.Reason, c.words) {
				t.Errorf("%s, exit status %d: %s", v.Overall, v.Exit, v.Reason)
			}
		})
	}
}

// Where two steps of a mix meet it is nobody's fault; a script was written for what each of its steps shows.
func TestALinkWhoseServerAnotherStepTookAwayIsNoFlawOfAGeneratedPlan(t *testing.T) {
	for _, c := range []struct {
		held   string
		script bool
		exit   int
	}{{"lock-server", false, verdict.ExitPass}, {"lock-server", true, verdict.ExitOpen}, {"", false, verdict.ExitOpen}} {
		v := &verdict.Run{Invariants: []verdict.Invariant{{ID: "INV-04", Status: verdict.Pass}}}
		v.Conclude()
		f := newFlaws(c.script)
		for _, e := range window(1, nemesis.PhaseInject, nemesis.PhaseFailed, nemesis.PhaseHeal, nemesis.PhaseHealed) {
			if e.Op = "cut"; e.Phase == nemesis.PhaseFailed && c.held != "" {
				e.Attrs = map[string]string{nemesis.AttrHeld: c.held}
			}
			f.observe(&e)
		}
		if qualify(v, "", f); v.Exit != c.exit {
			t.Errorf("%+v: exit status %d: %s", c, v.Exit, v.Reason)
		}
	}
}

// That new holders work at once is what a restore by the procedure is about: where nobody was granted anything it was not seen.
func TestARestoreBehindWhichNobodyIsGrantedAnythingIsNotExercised(t *testing.T) {
	for op, exit := range map[contract.Op]int{"restore": verdict.ExitOpen, "restore, unasked": verdict.ExitPass, "restore-unguarded": verdict.ExitPass, "slow": verdict.ExitPass} {
		v := &verdict.Run{Invariants: []verdict.Invariant{{ID: "INV-04", Status: verdict.Pass}}}
		v.Conclude()
		f := newFlaws(false)
		for _, e := range window(1, nemesis.PhaseInject, nemesis.PhaseSeen, nemesis.PhaseHeal, nemesis.PhaseFailed) {
			if e.Op = op; op == "restore, unasked" {
				e.Op, e.Attrs = "restore", map[string]string{nemesis.AttrUnasked: "true"}
			}
			f.observe(&e)
		}
		if qualify(v, "", f); v.Exit != exit || exit == verdict.ExitOpen && !strings.Contains(v.Reason, "was not seen to be over") {
			t.Errorf("%s: exit status %d: %s", op, v.Exit, v.Reason)
		}
	}
}

// A store that is not let go of shows nothing of what it would have granted. That is the system's failure: the run is no pass and
// the harness is not to blame, whatever became of the restore's own effect.
func TestARunWhoseRestoreGuardFailedIsInconclusiveAndSaysWhatTheGuardSaid(t *testing.T) {
	const said = "nobody is let in: lockctl restore-guard: exit status 1:\n  it cannot read paydb"
	for name, c := range map[string]struct {
		before   []string
		violated bool
		expect   *verdict.Expectation
		overall  verdict.Status
		exit     int
		words    string
	}{
		"the store was lost": {[]string{nemesis.PhaseInject, nemesis.PhaseSeen, nemesis.PhaseHeal}, false, nil, verdict.Inconclusive, verdict.ExitOpen, "the restore did not come to its end (window 1): nobody is let in: lockctl restore-guard: exit status 1: it cannot read paydb; "},
		"nothing was lost":   {[]string{nemesis.PhaseInject, nemesis.PhaseFailed, nemesis.PhaseHeal}, false, nil, verdict.Inconclusive, verdict.ExitOpen, "lockctl restore-guard: exit status 1: it cannot read paydb; "},
		"something fell":     {[]string{nemesis.PhaseInject, nemesis.PhaseSeen, nemesis.PhaseHeal}, true, nil, verdict.Violated, verdict.ExitViolated, "; besides, the restore did not come to its end"},
		"something may fall": {[]string{nemesis.PhaseInject, nemesis.PhaseSeen, nemesis.PhaseHeal}, false, &verdict.Expectation{DeclaredBy: "failover-async", Must: []string{}, May: []string{"INV-04"}}, verdict.Inconclusive, verdict.ExitOpen, "lockctl restore-guard"},
		"a control's has to": {[]string{nemesis.PhaseInject, nemesis.PhaseSeen, nemesis.PhaseHeal}, false, &verdict.Expectation{Must: []string{"INV-04"}}, verdict.Pass, verdict.ExitOpen, "lockctl restore-guard"},
	} {
		t.Run(name, func(t *testing.T) {
			inv := verdict.Invariant{ID: "INV-04", Status: verdict.Pass}
			if c.violated {
				inv.Status = verdict.Violated
			}
			v := &verdict.Run{Invariants: []verdict.Invariant{inv}, Expect: c.expect}
			v.Conclude()
			f := newFlaws(false)
			for _, e := range window(1, c.before...) {
				e.Op = "restore"
				f.observe(&e)
			}
			f.observe(&history.Event{W: history.Nemesis, Op: "restore", Window: 1, Phase: nemesis.PhaseFailed, Msg: said, Attrs: map[string]string{nemesis.AttrKeptOut: "true"}})
			if qualify(v, "", f); v.Overall != c.overall || v.Exit != c.exit || !strings.Contains(v.Reason, c.words) {
				t.Errorf("%s, exit status %d: %s", v.Overall, v.Exit, v.Reason)
			}
		})
	}
}

// What a run that was cut short was asked for it did not do. A negative control has done it as soon as that fell.
func TestARunThatWasCutShortIsInconclusiveUnlessSomethingFellThatItWasToShowOrMustNot(t *testing.T) {
	held := map[string]verdict.Status{"INV-02": verdict.Pass, "INV-04": verdict.Pass}
	fell := map[string]verdict.Status{"INV-02": verdict.Pass, "INV-04": verdict.Violated}
	other := map[string]verdict.Status{"INV-02": verdict.Violated, "INV-04": verdict.Pass}
	async := &verdict.Expectation{DeclaredBy: "failover-async", Must: []string{}, May: []string{"INV-04"}}
	unguarded := &verdict.Expectation{DeclaredBy: "restore-unguarded", Must: []string{"INV-04"}}
	control := &verdict.Expectation{Must: []string{"INV-04"}}
	for _, c := range []struct {
		name     string
		expect   *verdict.Expectation
		statuses map[string]verdict.Status
		exit     int
		overall  verdict.Status
	}{
		{"nothing fell", nil, held, verdict.ExitOpen, verdict.Inconclusive},
		{"something fell", nil, fell, verdict.ExitViolated, verdict.Violated},
		{"nothing fell of what may", async, held, verdict.ExitOpen, verdict.Inconclusive},
		{"something fell that may", async, fell, verdict.ExitOpen, verdict.Violated},
		{"what must fall has not yet", unguarded, held, verdict.ExitOpen, verdict.Inconclusive},
		{"what must fall has, and the rest is not known", unguarded, fell, verdict.ExitOpen, verdict.Violated},
		{"something else fell", unguarded, other, verdict.ExitViolated, verdict.Violated},
		{"a control has shown it", control, fell, verdict.ExitPass, verdict.Violated},
		{"a control has not", control, held, verdict.ExitOpen, verdict.Pass},
	} {
		v := &verdict.Run{}
		if c.expect != nil {
			x := *c.expect
			v.Expect = &x
		}
		for _, id := range []string{"INV-02", "INV-04"} {
			v.Invariants = append(v.Invariants, verdict.Invariant{ID: id, Status: c.statuses[id], Found: 1, Across: 1})
		}
		v.Conclude()
		if qualify(v, "interrupted", newFlaws(false)); v.Exit != c.exit || v.Overall != c.overall || !strings.HasPrefix(v.Reason, "interrupted; ") {
			t.Errorf("%s: %s, exit status %d: %s", c.name, v.Overall, v.Exit, v.Reason)
		}
	}
}

func TestANegativeControlIsJudgedByWhatFellAndNotByWhatItsFaultsDid(t *testing.T) {
	v := &verdict.Run{Invariants: []verdict.Invariant{{ID: "INV-02", Status: verdict.Violated}}, Expect: &verdict.Expectation{Must: []string{"INV-02"}}}
	v.Conclude()
	f := newFlaws(true)
	for _, e := range window(1, nemesis.PhaseInject, nemesis.PhaseFailed) {
		f.observe(&e)
	}
	if qualify(v, "", f); v.Exit != verdict.ExitPass {
		t.Errorf("exit status %d: %s", v.Exit, v.Reason)
	}
}

// told is what was recorded, in memory.
type told []history.Event

func (l *told) Record(w history.Witness, e history.Event) int64 {
	e.W = w
	*l = append(*l, e)
	return int64(len(*l))
}

func TestAProcessThatEndsByItselfIsToldOfOnce(t *testing.T) {
	var all []local.Death
	var log told
	d := &deaths{died: func() []local.Death { return all }, rec: &log, told: map[string]bool{}}
	d.look()
	all = []local.Death{{Name: "paydb", Status: "signal: killed"}}
	d.look()
	d.look()
	all = append(all, local.Death{Name: "rail-stub", Status: "exit status 2"})
	d.look()
	if len(log) != 2 || log[0].Proc != "paydb" || log[1].Proc != "rail-stub" || log[1].W != history.Run || log[1].Op != history.OpEnded || log[1].Type != contract.Info {
		t.Fatalf("recorded: %+v", log)
	}
	if want := "rail-stub ended by itself (exit status 2); logs/rail-stub.log says more"; log[1].Msg != want {
		t.Errorf("it says %q", log[1].Msg)
	}
}

func TestAPassWithoutFencesSaysThatThereWereNone(t *testing.T) {
	for fencing, said := range map[string]bool{"on": false, "": false, "off": true, "rail-off": true} {
		v := &verdict.Run{Overall: verdict.Pass, Exit: verdict.ExitPass, Reason: "all held", Settings: verdict.Settings{Fencing: fencing}}
		if qualify(v, "", newFlaws(false)); strings.Contains(v.Reason, "although the fences") != said || v.Exit != verdict.ExitPass {
			t.Errorf("fencing %q: %s", fencing, v.Reason)
		}
	}
}
