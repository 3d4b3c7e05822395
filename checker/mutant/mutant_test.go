package mutant

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"fenceproof/checker/run"
	"fenceproof/checker/verdict"
)

const header = `Title: A lock that counts backwards
Breaks: Tokens go down.
Source: nobody
Service: lock-server
Plan: hammer
Seeds: 1, 2 3
Must-Fall: INV-04
May-Fall: INV-06,
  DUR-01
`

const differences = `
diff --git a/system/a.txt b/system/a.txt
--- a/system/a.txt
+++ b/system/a.txt
@@ -1,3 +1,3 @@
 one
-two
+zwei
 three
`

func TestAPatchSaysWhatItBreaksAndHowThatShows(t *testing.T) {
	m, err := parse("x", []byte(header+differences))
	if err != nil {
		t.Fatal(err)
	}
	if m.Title != "A lock that counts backwards" || m.Services[0] != "lock-server" || !slices.Equal(m.Seeds, []uint64{1, 2, 3}) ||
		m.Expect.String() != "INV-04,INV-06?,DUR-01?" || len(m.files) != 1 {
		t.Errorf("read as %+v", m)
	}
}

func TestAPatchThatSaysSomethingWrongIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ replace, with, want string }{
		"a mistyped field":                {"Breaks:", "Break:", `did you mean "Breaks"?`},
		"a mistyped service":              {"lock-server", "lock-serve", `did you mean "lock-server"?`},
		"a mistyped invariant":            {"INV-06", "INV-60", `did you mean "INV-`},
		"a seed that is none":             {"Seeds: 1", "Seeds: one", `"one" is no seed`},
		"no seeds":                        {"Seeds: 1, 2 3\n", "", "no Seeds"},
		"no service":                      {"Service: lock-server\n", "", "no Service"},
		"no title":                        {"Title: A lock that counts backwards\n", "", "no Title"},
		"a plan that is not there":        {"Plan: hammer", "Plan: hammock", "read its plan"},
		"nothing that must fall":          {"Must-Fall: INV-04\n", "", "needs either Must-Fall"},
		"a mask without the pair":         {"Must-Fall: INV-04\n", "Masked-By: luck\n", "go together"},
		"a mask that lets something by":   {"Must-Fall: INV-04\n", "Masked-By: luck\nUnmasked: y\n", "nothing may fall"},
		"a mask of something that falls":  {"Title:", "Masked-By: luck\nUnmasked: y\nTitle:", "needs either Must-Fall"},
		"a field that stands there twice": {"Title:", "Title: once\nTitle:", "twice"},
		"no differences":                  {differences, "\nbut no differences\n", "differences and nothing else"},
	} {
		t.Run(name, func(t *testing.T) {
			text := header + differences
			bad := strings.Replace(text, c.replace, c.with, 1)
			if bad == text {
				t.Fatal("the case changes nothing")
			}
			if _, err := parse("x", []byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
}

// What a plan's nemesis breaks falls on the healthy build as well, so it would kill any mutant of which that must fall.
func TestAPlanThatBreaksSomethingOnPurposeKillsNoMutant(t *testing.T) {
	text, err := plans.ReadFile("plans/restored.json")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := planOf(text, 7); err != nil {
		t.Errorf("a restore by the procedure: %v", err)
	}
	for nemesis, spoilt := range map[string]string{
		"restore-unguarded": strings.Replace(string(text), `"fault": "restore"`, `"fault": "restore-unguarded"`, 1),
		"failover-async":    regexp.MustCompile(`(?s),\s*"steps".*`).ReplaceAllString(strings.Replace(string(text), `"script"`, `"failover-async"`, 1), "}"),
	} {
		if _, err := planOf([]byte(spoilt), 7); err == nil || !strings.Contains(err.Error(), "its nemesis "+nemesis+" violates INV-04") {
			t.Errorf("%s: %v", nemesis, err)
		}
	}
}

func TestAMaskNamesAMutantWithoutOne(t *testing.T) {
	masked := strings.Replace(header, "Must-Fall: INV-04\nMay-Fall: INV-06,\n  DUR-01\n", "Masked-By: luck\nUnmasked: y\n", 1)
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + differences)} }
	if _, err := read(fstest.MapFS{"patches/x.patch": file(masked), "patches/y.patch": file(header)}); err != nil {
		t.Error(err)
	}
	if _, err := read(fstest.MapFS{"patches/x.patch": file(masked)}); err == nil || !strings.Contains(err.Error(), `"y" is no mutant`) {
		t.Errorf("got %v", err)
	}
}

func TestOnlyTakesNamesAndBringsThePairOfAMaskedOneAlong(t *testing.T) {
	all := []Mutant{{Name: "a"}, {Name: "b", Unmasked: "d"}, {Name: "c"}, {Name: "d"}}
	chosen, err := Select(all, "b, a")
	if err != nil || len(chosen) != 3 || chosen[0].Name != "a" || chosen[1].Name != "b" || chosen[2].Name != "d" {
		t.Errorf("%v, %v", chosen, err)
	}
	if _, err := Select(all, "a,bb"); err == nil || !strings.Contains(err.Error(), `did you mean "b"?`) {
		t.Errorf("got %v", err)
	}
}

func violated(ids ...string) *verdict.Run {
	v := &verdict.Run{ID: "r"}
	for _, id := range verdict.IDs() {
		i := verdict.Invariant{ID: id, Status: verdict.Pass}
		if slices.Contains(ids, id) {
			i.Status, i.Violations = verdict.Violated, []verdict.Violation{{Sentence: "it broke"}}
		}
		v.Invariants = append(v.Invariants, i)
	}
	v.Conclude()
	return v
}

func TestOnlyWhatItsPatchNamesKillsAMutant(t *testing.T) {
	m := Mutant{Expect: verdict.Expectation{Must: []string{"INV-02", "INV-05"}, May: []string{"INV-03"}}}
	w := &run.Watch{Found: map[string]time.Duration{"INV-02": 3, "INV-05": 1, "INV-03": 9}}
	for _, c := range []struct {
		fell []string
		want Outcome
	}{
		{[]string{"INV-02", "INV-05"}, Killed},
		{[]string{"INV-02", "INV-05", "INV-03"}, Killed},
		{[]string{"INV-02"}, Survived},
		{nil, Survived},
		{[]string{"INV-02", "INV-05", "INV-04"}, Unexpected},
		{[]string{"INV-04"}, Unexpected},
	} {
		got := judge(m, 0, violated(c.fell...), w, nil)
		if got.Outcome != c.want || got.Outcome != Killed && got.Why == "" {
			t.Errorf("%v fell: %+v", c.fell, got)
		}
		if got.Outcome == Killed && (got.Detection != 3 || got.Sentence != "it broke") {
			t.Errorf("found after %d, which says %q", got.Detection, got.Sentence)
		}
	}
}

func TestThatNothingFellOfAMaskedMutantCountsOnlyWhereItWasPutToTheTest(t *testing.T) {
	met := func(v *verdict.Run, n int64) *verdict.Run {
		v.Invariants[1].Danger = map[string]int64{"duplicates_refused": n}
		return v
	}
	doubtful := violated()
	doubtful.Invariants[0].Status = verdict.Inconclusive
	doubtful.Conclude()
	m := Mutant{MaskedBy: "luck", Meets: []string{"duplicates_refused"}}
	for name, c := range map[string]struct {
		v     *verdict.Run
		steps int
		want  Outcome
	}{
		"the danger was met":     {met(violated(), 1), 2, Masked},
		"the danger was not met": {met(violated(), 0), 2, NoVerdict},
		"a step had no effect":   {met(violated(), 1), 1, NoVerdict},
		"something fell":         {met(violated("INV-02"), 1), 2, Unmasked},
		"nobody can know":        {met(doubtful, 1), 2, NoVerdict},
	} {
		got := judge(m, 2, c.v, &run.Watch{Steps: c.steps}, nil)
		if got.Outcome != c.want || got.Outcome != Masked && got.Why == "" {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
	open := Mutant{Expect: verdict.Expectation{Must: []string{doubtful.Invariants[0].ID}}}
	if got := judge(open, 0, doubtful, &run.Watch{}, nil); got.Outcome != NoVerdict {
		t.Errorf("whether what had to fall fell is not known: %+v", got)
	}
}

func TestAMaskIsOneOnlyWhereTheMutantWithoutItWasKilled(t *testing.T) {
	bare := func(trials ...Trial) []Row {
		r := Row{Name: "bare", Seeds: []uint64{1, 2}}
		for i, t := range trials {
			t.Seed = r.Seeds[i]
			r.add(t)
		}
		return []Row{r}
	}
	killed, survived := Trial{Outcome: Killed}, Trial{Outcome: Survived}
	for name, c := range map[string]struct {
		unmasked []Row
		want     Outcome
		why      string
	}{
		"killed":                    {bare(killed, killed), Masked, ""},
		"not killed under one seed": {bare(killed, survived), NoVerdict, "bare, which has no mask, was not killed"},
		"not run under all seeds":   {bare(killed), NoVerdict, "bare, which has no mask, was not killed"},
		"not run":                   {nil, NoVerdict, "bare, which has no mask, was not run"},
	} {
		m := Matrix{Rows: append([]Row{{Name: "x", Outcome: Masked, Unmasked: "bare"}}, c.unmasked...)}
		m.pair()
		if got := m.Rows[0]; got.Outcome != c.want || !strings.HasSuffix(got.Why, c.why) || m.Good([]Mutant{{Name: "x"}}) != (c.want == Masked) {
			t.Errorf("%s: %s, %s", name, got.Outcome, got.Why)
		}
	}
}

func TestOnlyWhatWasAskedForHasToBeGood(t *testing.T) {
	m := Matrix{Rows: []Row{{Name: "dead", Outcome: Killed}, {Name: "alive", Outcome: Survived}}}
	if dead, alive := []Mutant{{Name: "dead"}}, []Mutant{{Name: "alive"}}; !m.Good(dead) || m.Good(alive) || m.Good(append(dead, Mutant{Name: "absent"})) {
		t.Error("it is not held against those that were asked for")
	}
}

func TestTheMedianOfAnEvenNumberIsBetweenTheTwoInTheMiddle(t *testing.T) {
	r := Row{Must: []string{"INV-02"}}
	for _, d := range []time.Duration{8, 2, 4, 20} {
		r.Trials = append(r.Trials, Trial{Outcome: Killed, Detection: d})
	}
	if r.conclude(); r.Median != 6 || r.Worst != 20 {
		t.Errorf("median %d, worst %d", r.Median, r.Worst)
	}
}

func TestTheHealthyBuildHasAPartOfThePatchOnlyWhereThatIsSaid(t *testing.T) {
	both := differences + strings.ReplaceAll(differences, "a.txt", "b.txt")
	m, err := parse("x", []byte(header+"Control-Has: system/b.txt\n"+both))
	if err != nil {
		t.Fatal(err)
	}
	if c := m.control(); c.Name == m.Name || len(c.files) != 1 || c.files[0].OldName != "system/b.txt" || len(m.files) != 2 {
		t.Errorf("the healthy build has %+v", c)
	}
	for _, has := range []string{"system/c.txt", "system/a.txt system/b.txt"} {
		if _, err := parse("x", []byte(header+"Control-Has: "+has+"\n"+both)); err == nil || !strings.Contains(err.Error(), "Control-Has") {
			t.Errorf("%s: %v", has, err)
		}
	}
}

func TestAMutantIsKilledOnlyIfEverySeedKillsIt(t *testing.T) {
	r := Row{Must: []string{"INV-02"}, Trials: []Trial{
		{Seed: 1, Outcome: Killed, Violated: []string{"INV-02", "INV-03"}, Detection: 5},
		{Seed: 2, Outcome: Killed, Violated: []string{"INV-02"}, Detection: 1},
		{Seed: 3, Outcome: Killed, Violated: []string{"INV-02"}, Detection: 3},
	}}
	r.conclude()
	if r.Outcome != Killed || r.Median != 3 || r.Worst != 5 || !slices.Equal(r.KilledBy, []string{"INV-02"}) || !slices.Equal(r.Also, []string{"INV-03"}) {
		t.Errorf("%+v", r)
	}
	r.Trials = append(r.Trials, Trial{Seed: 4, Outcome: Survived, Why: "INV-02 did not fall"}, Trial{Seed: 5, Outcome: Killed})
	r.conclude()
	if r.Outcome != Survived || r.Why != "seed 4: INV-02 did not fall" {
		t.Errorf("%+v", r)
	}
	half := Row{Must: []string{"INV-02"}, Seeds: []uint64{1, 2}, Trials: []Trial{{Seed: 1, Outcome: Killed}}}
	if half.conclude(); half.Outcome != NoVerdict || half.Why != "it was run under 1 of 2 seeds" {
		t.Errorf("%+v", half)
	}
	none := Row{}
	if none.conclude(); none.Outcome.Good() {
		t.Error("a mutant that was never run counts as killed")
	}
}
