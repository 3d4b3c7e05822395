package verdict

import (
	"maps"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/history"
)

func pauseRun(fencing string) Settings {
	return Settings{Workload: "payout", Backend: "pg", Nemesis: "pause", Fencing: fencing, Drive: 30 * time.Second}
}

func judgedWith(id string, danger map[string]int64) Invariant {
	return Invariant{ID: id, Checked: 100, Danger: danger}
}

func TestTheWorseStatusWins(t *testing.T) {
	order := []Status{Pass, NotExercised, Inconclusive, Violated}
	for i, a := range order {
		for j, b := range order {
			if got, want := Worse(a, b), order[max(i, j)]; got != want {
				t.Errorf("Worse(%s, %s) is %s, want %s", a, b, got, want)
			}
		}
	}
	if got := Worse(NotExercised, "no such status"); got != "no such status" {
		t.Errorf("a status that nobody knows lost against %s", got)
	}
}

func TestTheStatusOfAnInvariant(t *testing.T) {
	gap := map[history.Witness]string{history.PayDB: "the slot is gone"}
	enough := map[string]int64{"stale_refused_payment": 10, "stale_refused_rail": 10}
	for _, c := range []struct {
		name    string
		inv     Invariant
		missing map[history.Witness]string
		want    Status
		reason  string
	}{
		{"holds and met its danger", judgedWith("INV-05", enough), nil, Pass, ""},
		{"nothing was checked", Invariant{ID: "INV-05", Danger: enough}, nil, NotExercised, "holds nothing"},
		{"met too little danger", judgedWith("INV-05", map[string]int64{"stale_refused_payment": 10, "stale_refused_rail": 9}), nil, NotExercised, "rail-proxy refused with FENCED_OUT: 9, a pass needs 10"},
		{"nobody can know, although no evidence is missing", Invariant{ID: "INV-05", Checked: 100, Danger: enough, Doubt: "the harness stood still"}, nil, Inconclusive, "the harness stood still"},
		{"a violation beats a doubt", Invariant{ID: "INV-05", Found: 1, Doubt: "the harness stood still"}, nil, Violated, "1 violation found"},
		{"a gap beats a lack of danger", judgedWith("INV-05", nil), gap, Inconclusive, "the evidence of the paydb witness is not whole: the slot is gone"},
		{"a reason that witnesses share is said once", judgedWith("INV-05", nil), map[history.Witness]string{history.Wiretap: "torn", history.Journal: "missing", history.PayDB: "torn"}, Inconclusive,
			"the evidence of the journal witness is not whole: missing; the evidence of the paydb, wiretap witnesses is not whole: torn"},
		{"a violation beats a gap", Invariant{ID: "INV-05", Found: 2, Violations: []Violation{{Sentence: "the fence went down"}}}, gap, Violated, "the fence went down"},
		{"an invariant without an entry passes on what was checked", judgedWith("INV-99", nil), nil, Pass, ""},
	} {
		got := Decide(c.inv, c.missing, pauseRun("on"))
		if got.Status != c.want || !strings.Contains(got.Reason, c.reason) || c.reason == "" && got.Reason != "" {
			t.Errorf("%s: %s because %q, want %s because %q", c.name, got.Status, got.Reason, c.want, c.reason)
		}
	}
}

func TestWhatAPassOfAPauseRunNeeds(t *testing.T) {
	always := map[string]int64{"INV-04 regrants": 1, "INV-06 lapsed": 1, "INV-07 superseded": 1, "INV-08 takeovers": 1, "LIVE-01 dead_holders": 1}
	for _, c := range []struct {
		name   string
		change func(*Settings)
		want   map[string]int64 // invariant and counter → minimum, beside those that are always needed
	}{
		{"the default run", func(*Settings) {}, map[string]int64{"INV-01 stale_refused_payment": 10, "INV-02 stale_refused_rail": 10, "INV-03 stale_refused_payment": 10,
			"INV-05 stale_refused_payment": 10, "INV-05 stale_refused_rail": 10}},
		{"on etcd", func(s *Settings) { s.Backend = "etcd" }, map[string]int64{"INV-01 stale_refused_payment": 3, "INV-02 stale_refused_rail": 3, "INV-03 stale_refused_payment": 3,
			"INV-05 stale_refused_payment": 3, "INV-05 stale_refused_rail": 3}},
		{"a short run", func(s *Settings) { s.Drive = 19 * time.Second }, map[string]int64{"INV-01 stale_refused_payment": 1, "INV-02 stale_refused_rail": 1, "INV-03 stale_refused_payment": 1,
			"INV-05 stale_refused_payment": 1, "INV-05 stale_refused_rail": 1}},
		{"a run that is just not short", func(s *Settings) { s.Drive = 20 * time.Second }, map[string]int64{"INV-01 stale_refused_payment": 10, "INV-02 stale_refused_rail": 10, "INV-03 stale_refused_payment": 10,
			"INV-05 stale_refused_payment": 10, "INV-05 stale_refused_rail": 10}},
		{"payment off", func(s *Settings) { s.Fencing = "payment-off" }, map[string]int64{"INV-02 stale_refused_rail": 10, "INV-05 stale_refused_rail": 10}},
		{"rail off", func(s *Settings) { s.Fencing = "rail-off" }, map[string]int64{"INV-01 stale_refused_payment": 10, "INV-03 stale_refused_payment": 10, "INV-05 stale_refused_payment": 10}},
		{"both off", func(s *Settings) { s.Fencing = "off" }, map[string]int64{}},
		{"another nemesis", func(s *Settings) { s.Nemesis = "none" }, nil},
	} {
		s := pauseRun("on")
		c.change(&s)
		got := map[string]int64{}
		for _, n := range Needs(s) {
			got[n.Invariant+" "+n.Counter] = n.Min
		}
		if c.want != nil {
			maps.Copy(c.want, always)
		}
		if len(got) != len(c.want) {
			t.Errorf("%s needs %v, want %v", c.name, got, c.want)
		}
		for k, n := range c.want {
			if got[k] != n {
				t.Errorf("%s: %s needs %d, want %d", c.name, k, got[k], n)
			}
		}
	}
}

func with(statuses ...Status) []Invariant {
	var out []Invariant
	for i, s := range statuses {
		inv := Invariant{ID: IDs()[i], Status: s}
		if s != Pass {
			inv.Reason = "the reason"
		}
		out = append(out, inv)
	}
	return out
}

func TestARunsVerdictAndExitStatus(t *testing.T) {
	for _, c := range []struct {
		name       string
		run        Run
		overall    Status
		exit       int
		reason     string
		met        bool
		missing    string
		surplus    string
		expectText string
	}{
		{name: "all pass", run: Run{Invariants: with(Pass, Pass)}, overall: Pass, exit: 0, reason: "INV-01, INV-02 held"},
		{name: "one violated", run: Run{Invariants: with(Inconclusive, Violated, NotExercised)}, overall: Violated, exit: 1, reason: "INV-02 violated: the reason"},
		{name: "one inconclusive", run: Run{Invariants: with(NotExercised, Inconclusive, Pass)}, overall: Inconclusive, exit: 2, reason: "INV-02 inconclusive"},
		{name: "one not exercised", run: Run{Invariants: with(Pass, NotExercised)}, overall: NotExercised, exit: 2, reason: "INV-02 not exercised: the reason"},
		{name: "none judged", run: Run{}, overall: NotExercised, exit: 2, reason: "no invariant"},
		{name: "a failed harness proves nothing", run: Run{Invariants: with(Pass), Harness: "out of disk"}, overall: Inconclusive, exit: 255, reason: "out of disk"},
		{name: "but what fell has fallen", run: Run{Invariants: with(Violated), Harness: "out of disk"}, overall: Violated, exit: 1},
		{name: "a control that shows what it should", run: Run{Invariants: with(Violated, Pass, Pass)}, expectText: "INV-01,INV-03?", overall: Violated, exit: 0, met: true},
		{name: "a control whose optional one falls too", run: Run{Invariants: with(Violated, Pass, Violated)}, expectText: "INV-01,INV-03?", overall: Violated, exit: 0, met: true},
		{name: "a control that did not bite", run: Run{Invariants: with(Pass, Pass, Violated)}, expectText: "INV-01,INV-03?", overall: Violated, exit: 2, missing: "INV-01", reason: "INV-01 not violated"},
		{name: "a control that names what was not judged", run: Run{Invariants: with(Violated)}, expectText: "INV-01,LIVE-01", overall: Violated, exit: 2, missing: "LIVE-01", reason: "LIVE-01 not violated"},
		{name: "a control that broke more", run: Run{Invariants: with(Violated, Violated, Pass)}, expectText: "INV-01,INV-03?", overall: Violated, exit: 1, surplus: "INV-02", reason: "INV-02 violated, which the expectation INV-01,INV-03? does not name"},
		{name: "a control whose other fence point refused nothing", run: Run{Invariants: with(Violated, NotExercised, Pass)}, expectText: "INV-01,INV-03?", overall: Violated, exit: 2, met: true, reason: "INV-02 is not exercised"},
		{name: "a control that cannot tell about an optional one", run: Run{Invariants: with(Violated, Pass, Inconclusive)}, expectText: "INV-01,INV-03?", overall: Violated, exit: 0, met: true},
		{name: "a control whose payouts had not all ended", run: Run{Invariants: append(with(Violated, Pass), Invariant{ID: "LIVE-01", Status: Inconclusive, Doubt: "open", Reason: "open"})}, expectText: "INV-01,INV-03?", overall: Violated, exit: 0, met: true},
		{name: "a control that lost a witness", run: Run{Invariants: append(with(Violated, Pass), Invariant{ID: "LIVE-01", Status: Inconclusive, Reason: "gap"})}, expectText: "INV-01,INV-03?", overall: Violated, exit: 2, met: true, reason: "LIVE-01 is inconclusive"},
		{name: "a control in a failed harness", run: Run{Invariants: with(Violated, Pass, Pass), Harness: "out of disk"}, expectText: "INV-01,INV-03?", overall: Violated, exit: 255, met: true, reason: "out of disk"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.run
			if c.expectText != "" {
				x, err := ParseExpectation(c.expectText)
				if err != nil {
					t.Fatal(err)
				}
				r.Expect = &x
			}
			r.Conclude()
			if r.Overall != c.overall || r.Exit != c.exit || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("%s, exit %d, because %q; want %s, %d, %q", r.Overall, r.Exit, r.Reason, c.overall, c.exit, c.reason)
			}
			if x := r.Expect; x != nil && (x.Met != c.met || strings.Join(x.Missing, " ") != c.missing || strings.Join(x.Surplus, " ") != c.surplus) {
				t.Errorf("the expectation: met %t, missing %v, surplus %v", x.Met, x.Missing, x.Surplus)
			}
		})
	}
}

func TestADoubtNeverMakesAVerdictBetter(t *testing.T) {
	control, err := ParseExpectation("INV-01")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		run     Run
		overall Status
		exit    int
		says    bool
	}{
		"a pass":              {Run{Invariants: with(Pass)}, Inconclusive, 2, true},
		"not exercised":       {Run{Invariants: with(NotExercised)}, Inconclusive, 2, true},
		"a violation":         {Run{Invariants: with(Violated)}, Violated, 1, false},
		"a failed harness":    {Run{Invariants: with(Pass), Harness: "out of disk"}, Inconclusive, 255, false},
		"a control that bit":  {Run{Invariants: with(Violated), Expect: &control}, Violated, 2, true},
		"a control that bled": {Run{Invariants: with(Violated, Violated), Expect: &control}, Violated, 1, false},
	} {
		r := c.run
		r.Conclude()
		r.Doubt("it was dark")
		if r.Overall != c.overall || r.Exit != c.exit || strings.Contains(r.Reason, "it was dark") != c.says {
			t.Errorf("%s: %s, exit %d, because %q; want %s, %d", name, r.Overall, r.Exit, r.Reason, c.overall, c.exit)
		}
	}
}

func TestAnExpectationReadsAsItWasWritten(t *testing.T) {
	for text, want := range map[string]string{
		"INV-02,INV-05,INV-03?":    "INV-02,INV-05,INV-03?",
		" inv-03? , inv-02,INV-05": "INV-02,INV-05,INV-03?",
	} {
		x, err := ParseExpectation(text)
		if err != nil || x.String() != want {
			t.Errorf("%q reads as %q (%v), want %q", text, x.String(), err, want)
		}
	}
}

func TestAWrongExpectationSaysWhatWasProbablyMeant(t *testing.T) {
	for text, want := range map[string]string{
		"":               "id is missing",
		"INV-02,,":       "id is missing",
		"INV-2":          "did you mean \"INV-02\"?",
		"INV02?":         "did you mean \"INV-02\"?",
		"INV-01,inv_04":  `"inv_04" is no invariant; did you mean "INV-04"?`,
		"INV-02,INV-02":  "INV-02 stands there twice",
		"INV-02,INV-02?": "INV-02 stands there twice",
		"INV-03?":        "at least one invariant must be violated",
	} {
		if _, err := ParseExpectation(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want an error with %q", text, err, want)
		}
	}
}

func TestALockRunHasToHaveMetEveryWayInWhichAGrantCanBeOver(t *testing.T) {
	lock := func(nemesis string, drive time.Duration) Settings {
		return Settings{Workload: "lock", Backend: "pg", Nemesis: nemesis, Drive: drive}
	}
	met := map[string]int64{"contended": 10, "stale_releases": 10, "stale_renewals": 1, "died_with_session": 1, "takeovers": 1, "woken_refused": 10}
	for _, c := range []struct {
		settings Settings
		missing  string
		left     int64
		want     Status
	}{
		{lock("pause", 30*time.Second), "", 0, Pass},
		{lock("pause", 30*time.Second), "woken_refused", 9, NotExercised},
		{lock("pause", 8*time.Second), "woken_refused", 1, Pass},
		{lock("none", 30*time.Second), "woken_refused", 0, Pass},
		{lock("none", 30*time.Second), "died_with_session", 0, NotExercised},
		{lock("none", 30*time.Second), "stale_releases", 9, NotExercised},
	} {
		danger := maps.Clone(met)
		danger[c.missing] = c.left
		if got := Decide(judgedWith("INV-06", danger), nil, c.settings); got.Status != c.want {
			t.Errorf("%s for %s with %d × %s: %s, want %s", c.settings.Nemesis, c.settings.Drive, c.left, c.missing, got.Status, c.want)
		}
	}
}

// A standby that has everything when it is promoted has lost nothing because of nobody's care.
func TestAFailoverRunHasToHaveMetAStandbyThatWasBehind(t *testing.T) {
	met := map[string]int64{"failovers": 2, "standbys_behind": 1, "tokens_lost": 1, "regrants": 10, "regrants_across": 1}
	for _, c := range []struct {
		nemesis, id, missing string
		want                 Status
	}{
		{"failover", "DUR-01", "", Pass}, {"failover", "DUR-01", "standbys_behind", NotExercised}, {"failover", "DUR-01", "tokens_lost", Pass}, // nothing may be lost
		{"failover", "INV-04", "", Pass}, {"failover", "INV-04", "tokens_lost", Pass}, {"failover", "INV-04", "regrants_across", NotExercised},
		{"failover-async", "DUR-01", "", Pass}, {"failover-async", "DUR-01", "standbys_behind", NotExercised},
		{"failover-async", "INV-04", "", Pass}, {"failover-async", "INV-04", "tokens_lost", NotExercised}, {"failover-async", "INV-04", "regrants_across", NotExercised},
		{"pause,failover-async", "INV-04", "tokens_lost", NotExercised},
	} {
		for _, workload := range []string{"payout", "lock"} {
			danger := maps.Clone(met)
			delete(danger, c.missing)
			danger["reentries"], danger["revocations"] = 1, 1 // of a pause
			if got := Decide(judgedWith(c.id, danger), nil, Settings{Workload: workload, Backend: "pg", Nemesis: c.nemesis, Drive: 30 * time.Second}); got.Status != c.want {
				t.Errorf("%s of %s without %q under %s: %s, want %s (%s)", c.id, workload, c.missing, c.nemesis, got.Status, c.want, got.Reason)
			}
		}
	}
}
