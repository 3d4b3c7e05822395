package soak

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"
)

func all([]string) error { return nil }

func small() Settings {
	return Settings{Nemeses: []string{"pause", "pause+kill"}, Backends: plan.Backends(), Workloads: plan.Workloads(), FirstSeed: 7, Rounds: 2, Drive: time.Second, Jobs: 1}
}

func TestARoundRunsEveryCellOnceUnderOneSeed(t *testing.T) {
	s := small()
	cells, _, err := s.Cells(all)
	if err != nil || len(cells) != 8 {
		t.Fatalf("%d cells, %v", len(cells), err)
	}
	for n, seed := range []uint64{7, 8} {
		tasks, err := s.Round(n, cells, all)
		if err != nil || len(tasks) != 8 {
			t.Fatalf("round %d: %d runs, %v", n, len(tasks), err)
		}
		for i, x := range tasks {
			if x.Seed != seed || x.Cell != cells[i] || x.Nemesis != strings.ReplaceAll(cells[i].Nemesis, "+", ",") {
				t.Errorf("round %d runs %+v for %v", n, x, cells[i])
			}
		}
	}
}

func TestASeedChoosesTheSameMixesAgainAndNoTwoAlike(t *testing.T) {
	s := Settings{Nemeses: []string{"pause", "kill", "slow", "kill+pause"}, Mixes: 2, Backends: []string{"pg"}, Workloads: plan.Workloads(), FirstSeed: 1, Rounds: 20, Drive: time.Second, Jobs: 1}
	cells, _, err := s.Cells(all)
	if err != nil {
		t.Fatal(err)
	}
	drawn, apart := map[string]bool{}, false
	for n := range s.Rounds {
		tasks, err := s.Round(n, cells, all)
		again, _ := s.Round(n, cells, all)
		if err != nil || !reflect.DeepEqual(tasks, again) {
			t.Fatalf("round %d: %v, %v and %v", n, err, tasks, again)
		}
		mixed := slices.DeleteFunc(slices.Clone(tasks), func(x Task) bool { return x.Cell.Nemesis != MixOfTwo })
		apart = apart || mixed[0].Nemesis != mixed[2].Nemesis // the first of payout and the first of lock
		keys := map[string]bool{}
		for _, x := range tasks {
			keys[x.key()] = true
			if x.Cell.Nemesis == MixOfTwo {
				drawn[x.Nemesis] = true
			}
		}
		if len(keys) != len(tasks) {
			t.Errorf("round %d runs something twice: %v", n, tasks)
		}
	}
	if !apart {
		t.Error("in every round both workloads are broken by the same two")
	}
	if want := map[string]bool{"pause,slow": true, "kill,slow": true}; !reflect.DeepEqual(drawn, want) { // pause+kill is a cell of its own
		t.Errorf("drawn were %v, want %v", drawn, want)
	}
}

func TestACellThatDoesNotExistIsLeftOutAndANemesisWithoutAnyIsRefused(t *testing.T) {
	noEtcd := func(args []string) error {
		if slices.Contains(args, "pause,kill") && slices.Contains(args, "etcd") {
			return errors.New("there is no standby of etcd")
		}
		return nil
	}
	s := small()
	cells, out, err := s.Cells(noEtcd)
	if err != nil || len(cells) != 6 || len(out) != 2 || out[0].Cell.Backend != "etcd" {
		t.Errorf("%v left out %v, %v", cells, out, err)
	}
	s.Backends = []string{"etcd"}
	if _, _, err := s.Cells(noEtcd); err == nil || !strings.Contains(err.Error(), "no standby of etcd") {
		t.Errorf("a nemesis that never runs is taken: %v", err)
	}
	if _, _, err := s.Cells(func([]string) error { return errors.New("drive is too long") }); err == nil || !strings.Contains(err.Error(), "cannot be run: drive is too long") {
		t.Errorf("a load that cannot be run is taken: %v", err)
	}
}

func TestWhatThisMachineCannotDoIsLeftOutAndTheRestIsRun(t *testing.T) {
	noTracing := func(args []string) error {
		if slices.Contains(args, "pause,kill") {
			return fmt.Errorf("%w: tracing is forbidden", ErrNotHere)
		}
		return nil
	}
	s := small()
	cells, out, err := s.Cells(noTracing)
	if err != nil || len(cells) != 4 || len(out) != 4 || !strings.Contains(out[0].Why, "tracing is forbidden") {
		t.Errorf("%v left out %v, %v", cells, out, err)
	}
	s.Nemeses = []string{"pause+kill"}
	if _, _, err := s.Cells(noTracing); err == nil || !strings.Contains(err.Error(), "tracing is forbidden") {
		t.Errorf("a soak of nothing is taken: %v", err)
	}
}

func TestWhatASoakCannotDoIsRefused(t *testing.T) {
	for says, spoil := range map[string]func(*Settings){
		"needs an end": func(s *Settings) { s.Rounds = 0 }, "--rounds -1": func(s *Settings) { s.Rounds = -1 },
		"--duration -1s": func(s *Settings) { s.Duration = -time.Second }, "--jobs 0": func(s *Settings) { s.Jobs = 0 },
		"--mixes -1":                   func(s *Settings) { s.Mixes = -1 },
		"at most 18446744073709551614": func(s *Settings) { s.FirstSeed = math.MaxUint64 }, // for two rounds
		"at most 18446744073708551616": func(s *Settings) { s.FirstSeed, s.Rounds, s.Duration = math.MaxUint64-5, 0, time.Hour },
		"--mixes 101":                  func(s *Settings) { s.Mixes = 101 }, "nothing to run": func(s *Settings) { s.Nemeses = nil },
	} {
		s := small()
		spoil(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
	if err := small().Validate(); err != nil {
		t.Error(err)
	}
}

// ran is a line of a run with a status.
func ran(nemesis string, seed uint64, status verdict.Status, dangers ...Danger) Line {
	return Line{Cell: Cell{nemesis, "pg", "payout"}, With: nemesis, Seed: seed, Run: fmt.Sprintf("20260101T000000.000Z-payout-pg-%s-%d", nemesis, seed),
		Status: status, Reason: "because", Took: 40 * time.Second, Dangers: dangers, Refused: int64(seed), Memory: 100e6, Disk: 30e6}
}

func failedWith(l Line, why string) Line {
	l.Failed = why
	return l
}

// redone is a line of the run after it was done again: in another folder.
func redone(l Line) Line {
	l.Run = strings.Replace(l.Run, "20260101", "20260102", 1)
	return l
}

func folderOf(t *testing.T, cells []Cell, lines ...Line) *Folder {
	t.Helper()
	f, err := open(t.TempDir(), Settings{Rounds: 1}, cells, nil, Session{Command: "bin/fenceproof soak --rounds 1", Go: "go1.26", OS: "linux/amd64", Cores: 2}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.close() })
	for _, l := range lines {
		record(t, f, l)
	}
	return f
}

// record adds a line and the folder that its run leaves.
func record(t *testing.T, f *Folder, l Line) {
	t.Helper()
	if dir := filepath.Join(f.Dir, runsDir, l.Run); l.Run != "" {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "history"), 0o755), writeJSON(filepath.Join(dir, "verdict.json"), verdictFor(l)),
			os.WriteFile(filepath.Join(dir, "report.html"), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.add(l); err != nil {
		t.Fatal(err)
	}
}

func TestTheStatusOfASoakIsThatOfItsWorstRun(t *testing.T) {
	pause := []Cell{{"pause", "pg", "payout"}}
	for name, c := range map[string]struct {
		cells  []Cell
		lines  []Line
		status verdict.Status
		exit   int
		says   string
	}{
		"nothing was run":  {pause, nil, verdict.NotExercised, 2, "nothing was run"},
		"all passed":       {pause, []Line{ran("pause", 1, verdict.Pass), ran("pause", 2, verdict.Pass)}, verdict.Pass, 0, "all 2 runs passed"},
		"one was idle":     {pause, []Line{ran("pause", 1, verdict.Pass), ran("pause", 2, verdict.NotExercised)}, verdict.NotExercised, 2, "1 of 2 runs not exercised: pause, payout on pg"},
		"one was in doubt": {pause, []Line{ran("pause", 1, verdict.NotExercised), ran("kill", 1, verdict.Inconclusive)}, verdict.Inconclusive, 2, "1 of 2 runs inconclusive: kill"},
		"one was violated": {pause, []Line{ran("pause", 1, verdict.Inconclusive), ran("pause", 2, verdict.Violated)}, verdict.Violated, 1, "1 of 2 runs violated"},
		"the worst first":  {pause, []Line{ran("pause", 1, verdict.Violated), ran("kill", 1, verdict.Pass)}, verdict.Violated, 1, "1 of 2 runs violated: pause"},
		"there is no cell": {nil, nil, verdict.NotExercised, 2, "nothing was run"},
		"a cell never ran": {[]Cell{{"pause", "pg", "payout"}, {"kill", "pg", "lock"}}, []Line{ran("pause", 1, verdict.Pass)}, verdict.NotExercised, 2, "of 1 cell nothing was run: kill, lock on pg"},
		"harness failed":   {pause, []Line{ran("pause", 1, verdict.Pass), {Cell: pause[0], With: "pause", Seed: 2, Failed: "no space"}}, verdict.Inconclusive, 255, "the harness itself failed in pause, payout on pg, seed 2: no space"},
		"failed, redone":   {pause, []Line{{Cell: pause[0], With: "pause", Seed: 1, Failed: "no space"}, ran("pause", 1, verdict.Pass)}, verdict.Pass, 0, "1 run passed"},
		"then a redo":      {pause, []Line{failedWith(ran("pause", 1, verdict.Violated), "replaced"), redone(ran("pause", 1, verdict.Pass))}, verdict.Violated, 1, "1 of 2 runs violated"},
		"failed, violated": {pause, []Line{ran("pause", 1, verdict.Violated), {Cell: pause[0], With: "pause", Seed: 2, Failed: "no space"}}, verdict.Violated, 1, "1 of 1 run violated"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Summarise(folderOf(t, c.cells, c.lines...))
			if s.Status != c.status || s.Exit != c.exit || !strings.Contains(s.Reason, c.says) {
				t.Errorf("%s, exit status %d: %s", s.Status, s.Exit, s.Reason)
			}
		})
	}
}

func TestADeclaredViolationIsAPassAndAMissedOneIsNone(t *testing.T) {
	must, may := []string{"INV-04"}, &verdict.Expectation{Must: []string{}, May: []string{"INV-04"}, Met: true}
	for name, c := range map[string]struct {
		run      verdict.Run
		status   verdict.Status
		declared bool
	}{
		"what had to be violated was":              {verdict.Run{Exit: 0, Overall: verdict.Violated, Expect: &verdict.Expectation{Must: must, Met: true}}, verdict.Pass, true},
		"what had to be violated was not":          {verdict.Run{Exit: 2, Overall: verdict.Pass, Expect: &verdict.Expectation{Must: must}}, verdict.Inconclusive, false},
		"what might be violated was":               {verdict.Run{Exit: 0, Overall: verdict.Violated, Expect: may}, verdict.Pass, true},
		"what might be violated was not":           {verdict.Run{Exit: 0, Overall: verdict.Pass, Expect: may}, verdict.Pass, false},
		"it was, and a fault had not been seen":    {verdict.Run{Exit: 2, Overall: verdict.Violated, Expect: may}, verdict.Inconclusive, false},
		"nothing was declared, and something fell": {verdict.Run{Exit: 1, Overall: verdict.Violated}, verdict.Violated, false},
		"nothing was declared, and nothing met":    {verdict.Run{Exit: 2, Overall: verdict.NotExercised}, verdict.NotExercised, false},
	} {
		if l := lineOf(Task{}, &c.run); l.Status != c.status || l.Declared != c.declared {
			t.Errorf("%s: %s, declared %v", name, l.Status, l.Declared)
		}
	}
}

func TestADangerThatSeveralInvariantsCountIsAsOftenMetAsTheLeastOfThemSays(t *testing.T) {
	v := &verdict.Run{Settings: verdict.Settings{Workload: "lock", Backend: "pg", Nemesis: "none", Drive: 30 * time.Second}, Invariants: []verdict.Invariant{
		{ID: "INV-06", Danger: map[string]int64{"contended": 40}}, {ID: "LIN-01", Danger: map[string]int64{"contended": 12}}}}
	for _, d := range dangersOf(v) {
		if d.Name == "contended" && (d.Count != 12 || d.Need != 10) {
			t.Errorf("%+v", d)
		}
	}
}

func TestOfDangersTheSummarySaysWhoMetThemTheLeastAndTheMiddle(t *testing.T) {
	stale := func(n int64) Danger { return Danger{"stale", "stale writes", n, 10} }
	s := Summarise(folderOf(t, nil, ran("pause", 1, verdict.Pass, stale(30)), ran("pause", 2, verdict.NotExercised, stale(9)), ran("pause", 3, verdict.Pass, stale(12))))
	if got, want := s.Cells[0].Dangers, []DangerSummary{{"stale", "stale writes", 3, 2, Spread{9, 12}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if c := s.Cells[0]; c.Refused != (Spread{1, 2}) || c.Took != 40*time.Second || ranges(c.Seeds) != "1–3" {
		t.Errorf("%+v", c)
	}
}

func TestADangerWithTwoNamesIsToldOnce(t *testing.T) {
	const what = "grants that an operator revoked"
	of := func(a, b, need int64) []Danger {
		return []Danger{{"revocations", what, a, 1}, {"contended", "requests", 7, 1}, {"revokes", what, b, need}}
	}
	s := Summarise(folderOf(t, nil, ran("pause", 1, verdict.Pass, of(14, 14, 1)...), ran("pause", 2, verdict.Inconclusive, of(21, 3, 4)...)))
	want := []DangerSummary{{"revocations", what, 2, 1, Spread{3, 3}}, {"contended", "requests", 2, 2, Spread{7, 7}}}
	if got := s.Cells[0].Dangers; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	names := map[string]string{}
	for _, n := range plan.Names() {
		for _, d := range dangersOf(&verdict.Run{Settings: verdict.Settings{Workload: "lock", Backend: "pg", Nemesis: n, Drive: time.Minute}}) {
			if names[d.What+n] != "" {
				t.Errorf("%s: %q is told as %s and as %s", n, d.What, names[d.What+n], d.Name)
			}
			names[d.What+n] = d.Name
		}
	}
}

func TestTheDiskStaysBoundedAndNoViolationIsEverRemoved(t *testing.T) {
	f := folderOf(t, nil)
	record(t, f, ran("pause", 1, verdict.Violated))
	for n := range uint64(KeptOpen + 5) {
		record(t, f, ran("kill", n, verdict.Inconclusive))
		record(t, f, ran("slow", n, verdict.Pass))
	}
	var whole []string
	for _, l := range f.Lines {
		if f.whole(l.Run) {
			whole = append(whole, l.Run)
		}
		if _, err := os.Stat(filepath.Join(f.Dir, runsDir, l.Run, "verdict.json")); err != nil {
			t.Errorf("the verdict of %s is gone: %v", l.Run, err)
		}
	}
	if len(whole) != 1+KeptOpen || whole[0] != ran("pause", 1, verdict.Violated).Run || whole[1] != ran("kill", 5, verdict.Inconclusive).Run {
		t.Errorf("%d are whole: %v", len(whole), whole)
	}
	if s := Summarise(f); len(s.Kept) != 1+KeptOpen || s.Kept[0].Folder != "runs/"+whole[0] {
		t.Errorf("the summary names %d runs: %+v", len(s.Kept), s.Kept)
	}
}

func TestASoakThatWasCutOffGoesOnWhereItsLastWholeLineIs(t *testing.T) {
	f := folderOf(t, nil, ran("pause", 1, verdict.Pass))
	if _, err := open(f.Dir, Settings{}, nil, nil, Session{}, 0); !errors.Is(err, ErrInUse) {
		t.Errorf("two soaks share a folder: %v", err)
	}
	if _, err := f.file.WriteString(`{"nemesis":"pause","reason":"` + strings.Repeat("a long one ", 100)); err != nil {
		t.Fatal(err)
	}
	going := filepath.Join(f.Dir, runsDir, "20260101T000000.000Z-payout-pg-pause-2")
	if err := os.MkdirAll(filepath.Join(going, "history"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	f, err := open(f.Dir, Settings{Rounds: 2}, nil, nil, Session{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.close() })
	if _, err := os.Stat(going); !os.IsNotExist(err) {
		t.Errorf("the interrupted run is still there: %v", err)
	}
	record(t, f, ran("pause", 2, verdict.Pass))
	text, _ := os.ReadFile(filepath.Join(f.Dir, linesFile))
	if !strings.HasSuffix(string(text), "}\n") {
		t.Errorf("the torn line is still there:\n%s", text)
	}
	again, err := Read(f.Dir)
	if err != nil || len(again.Lines) != 2 || len(again.done()) != 2 {
		t.Errorf("%v, %+v", err, again)
	}
	s := &soak{Options: Options{Settings: Settings{Rounds: 3, FirstSeed: 1}, Check: all}, cells: []Cell{{"pause", "pg", "payout"}}, round: -1, done: again.done()}
	next, ok, err := s.next(t.Context())
	if _, more, _ := s.next(t.Context()); err != nil || !ok || next.Seed != 3 || more {
		t.Errorf("seed %d is next (%v, %v), and after it %v", next.Seed, ok, err, more)
	}
}

func TestOfAnInterruptedRunOnlyAViolationOrAFailureOfTheHarnessIsTold(t *testing.T) {
	for status, want := range map[verdict.Status]bool{verdict.Pass: false, verdict.Inconclusive: false, verdict.Violated: true} {
		if (outcome{Line{Status: status}, true}).told() != want || !(outcome{Line{Status: status}, false}).told() {
			t.Errorf("%s: want %v", status, want)
		}
	}
	if !(outcome{Line{Failed: "no room"}, true}).told() {
		t.Error("a failure of the harness is not told")
	}
}

func TestTheMatrixStandsBetweenItsLinesAndComesFromSeveralSeries(t *testing.T) {
	one := folderOf(t, nil, ran("pause", 1, verdict.Pass, Danger{"stale", "stale writes", 4, 1}))
	longer := ran("kill", 2, verdict.Violated)
	longer.Took += 1200 * time.Millisecond
	two := folderOf(t, nil, ran("pause", 2, verdict.Pass, Danger{"stale", "stale writes", 9, 1}), longer)
	s := Summarise(one, two)
	doc, err := s.Into("before\n" + begins + "old\n" + ends + "after\n")
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Into(doc)
	if err != nil || again != doc || strings.Contains(doc, "old\n") || !strings.HasPrefix(doc, "before\n") || !strings.HasSuffix(doc, "after\n") {
		t.Errorf("%v:\n%s", err, doc)
	}
	for _, row := range []string{"### pause\n", "| payout | pg | 1–2 | 2 | 2 | 0 | 1 / 1 | stale 4 / 4 |\n", "| payout | pg | 2 | 1 | 0 | 1 **violated** | 2 / 2 |  |\n", "3 runs in 2m1s of running"} {
		if !strings.Contains(doc, row) {
			t.Errorf("the document has no %q:\n%s", row, doc)
		}
	}
	if _, err := s.Into("no place\n"); err == nil {
		t.Error("a document without a place for it is taken")
	}
}

func TestThePageEscapesWhatRunsSayAndFetchesNothing(t *testing.T) {
	l := ran("pause", 1, verdict.Violated)
	l.Reason = `<script>alert("x")</script>`
	f := folderOf(t, nil, l)
	if _, err := f.Summarise(); err != nil {
		t.Fatal(err)
	}
	html, err := os.ReadFile(filepath.Join(f.Dir, pageFile))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"<script": false, "http-equiv": true, "&lt;script&gt;": true, "://": false, `<section class="verdict violated"`: true, `href="runs/` + l.Run + `/report.html"`: true} {
		if strings.Contains(string(html), text) != want {
			t.Errorf("that the page holds %q is %v", text, !want)
		}
	}
}
