package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"fenceproof/checker/verdict"
)

// verdictFor is the verdict of the run that a line tells of.
func verdictFor(l Line) *verdict.Run {
	v := &verdict.Run{Schema: verdict.SchemaVersion, ID: l.Run, Overall: l.Status,
		Settings: verdict.Settings{Nemesis: l.With, Workload: l.Workload, Backend: l.Backend, Seed: l.Seed}}
	switch l.Status {
	case verdict.Pass:
	case verdict.Violated:
		v.Exit = verdict.ExitViolated
	default:
		v.Exit = verdict.ExitOpen
	}
	return v
}

func TestALineThatSaysOtherwiseThanTheVerdictOfItsRunIsRefusedAndNothingChanges(t *testing.T) {
	for name, c := range map[string]struct {
		line  Line
		spoil func(v *verdict.Run)
		says  string // "": it is no contradiction
	}{
		"it was violated":             {ran("pause", 1, verdict.Pass), func(v *verdict.Run) { v.Overall, v.Exit = verdict.Violated, verdict.ExitViolated }, "pause, payout on pg, seed 1: pass; its verdict says: pause, payout on pg, seed 1: violated"},
		"it passed":                   {ran("pause", 1, verdict.Violated), func(v *verdict.Run) { v.Overall, v.Exit = verdict.Pass, verdict.ExitPass }, "seed 1: violated; its verdict says: pause, payout on pg, seed 1: pass"},
		"its exit status is another":  {ran("pause", 1, verdict.Pass), func(v *verdict.Run) { v.Exit = verdict.ExitOpen }, "seed 1: inconclusive"},
		"its overall status is":       {ran("pause", 1, verdict.Pass), func(v *verdict.Run) { v.Overall = verdict.Violated }, "seed 1: pass, with the declared violation"},
		"its seed is another":         {ran("pause", 1, verdict.Pass), func(v *verdict.Run) { v.Settings.Seed = 7 }, "seed 7: pass"},
		"its nemesis is another":      {ran("pause", 1, verdict.Pass), func(v *verdict.Run) { v.Settings.Nemesis = "kill" }, "kill, payout on pg"},
		"its backend is another":      {ran("pause", 1, verdict.Pass), func(v *verdict.Run) { v.Settings.Backend = "etcd" }, "payout on etcd"},
		"it is another run's":         {ran("pause", 1, verdict.Pass), func(v *verdict.Run) { v.ID = "another" }, `it is that of "another"`},
		"the harness did not fail":    {failedWith(ran("pause", 1, ""), "no room"), func(v *verdict.Run) { v.Overall, v.Exit = verdict.Violated, verdict.ExitViolated }, "that the harness failed, and its verdict that it was violated"},
		"the harness failed":          {failedWith(ran("pause", 1, ""), "no room"), func(v *verdict.Run) { v.Overall, v.Exit = "", verdict.ExitHarness }, ""},
		"a mix in another order":      {ran("pause,kill", 1, verdict.Pass), func(v *verdict.Run) { v.Settings.Nemesis = "kill,pause" }, ""},
		"what is no part of the line": {ran("pause", 1, verdict.Pass), func(v *verdict.Run) { v.Events = 7 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.line.Cell.Nemesis = strings.ReplaceAll(c.line.With, ",", "+")
			c.line.Run = strings.ReplaceAll(c.line.Run, ",", "+")
			f := folderOf(t, nil, c.line)
			v := verdictFor(c.line)
			c.spoil(v)
			if err := errors.Join(f.close(), writeJSON(filepath.Join(f.Dir, runsDir, c.line.Run, verdict.FileName), v)); err != nil {
				t.Fatal(err)
			}
			before := everything(t, f.Dir)
			_, err := Read(f.Dir)
			if c.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if _, again := open(f.Dir, Settings{}, nil, nil, Session{}, 0); err == nil || again == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.line.Run) {
				t.Errorf("read: %v; continue: %v", err, again)
			}
			if after := everything(t, f.Dir); !reflect.DeepEqual(after, before) {
				t.Errorf("it was\n%v\nand is\n%v", before, after)
			}
		})
	}
}

func TestAVerdictThatCannotBeReadIsRefusedAndAPipeIsNotWaitedFor(t *testing.T) {
	for says, place := range map[string]func(path string) error{
		"is no regular file": func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"read the verdict":   func(path string) error { return os.WriteFile(path, []byte("{"), 0o644) },
	} {
		f := folderOf(t, nil, ran("pause", 1, verdict.Pass))
		path := filepath.Join(f.Dir, runsDir, f.Lines[0].Run, verdict.FileName)
		if err := errors.Join(f.close(), os.Remove(path), place(path)); err != nil {
			t.Fatal(err)
		}
		if err := soon(t, func() error { _, err := Read(f.Dir); return err }); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}

// A line is enough to accuse, and not to acquit.
func TestASoakWhoseEvidenceIsGoneIsNoPassAndAViolationStaysOne(t *testing.T) {
	for name, c := range map[string]struct {
		others []Line
		status verdict.Status
		says   string
	}{
		"all passed":       {nil, verdict.Inconclusive, "all 2 runs passed; the evidence of 1 run is gone"},
		"one was idle":     {[]Line{ran("pause", 3, verdict.NotExercised)}, verdict.Inconclusive, "1 of 3 runs not exercised: pause, payout on pg; the evidence of 1 run is gone"},
		"one was violated": {[]Line{ran("pause", 3, verdict.Violated)}, verdict.Violated, "1 of 3 runs violated: pause, payout on pg; the evidence of 1 run is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			f := folderOf(t, nil, append([]Line{ran("pause", 1, verdict.Pass), ran("pause", 2, verdict.Pass)}, c.others...)...)
			gone := "runs/" + f.Lines[0].Run
			if err := os.RemoveAll(filepath.Join(f.Dir, gone)); err != nil {
				t.Fatal(err)
			}
			s, err := f.Summarise()
			if err != nil || s.Status != c.status || s.Exit == verdict.ExitPass || len(s.Gone) != 1 || s.Gone[0].Folder != gone || !strings.HasPrefix(s.Reason, c.says) || !strings.HasSuffix(s.Reason, gone) {
				t.Errorf("%v, %s, exit status %d: %s; gone are %+v", err, s.Status, s.Exit, s.Reason, s.Gone)
			}
			if page, err := os.ReadFile(filepath.Join(f.Dir, pageFile)); err != nil || !strings.Contains(string(page), "their verdicts too: 1") || !strings.Contains(string(page), gone) {
				t.Errorf("the page does not name it (%v)", err)
			}
			if matrix := s.Markdown(); !strings.Contains(matrix, "**Of 1 run the evidence is gone**") {
				t.Errorf("the matrix does not tell of it:\n%s", matrix)
			}
		})
	}
}

// The newest that came to no end are kept whole, of older ones and of passes the verdict is; an artifact without histories has it too.
func TestWhatASoakRemovesByItselfIsNotMissed(t *testing.T) {
	f := folderOf(t, nil)
	for n := range uint64(KeptOpen + 3) {
		record(t, f, ran("kill", n, verdict.Inconclusive))
		record(t, f, ran("slow", n, verdict.Pass))
	}
	if err := errors.Join(f.close(), os.RemoveAll(filepath.Join(f.Dir, runsDir, ran("kill", KeptOpen, verdict.Inconclusive).Run, "history"))); err != nil {
		t.Fatal(err)
	}
	again, err := Read(f.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if s := Summarise(again); len(s.Gone) != 0 || len(s.Unfinished) != 0 {
		t.Errorf("%+v, %+v", s.Gone, s.Unfinished)
	}
}

func TestRunsWithoutTheirLinesAreRefusedAndStay(t *testing.T) {
	f := folderOf(t, nil, ran("pause", 1, verdict.Pass), ran("pause", 2, verdict.Pass))
	if err := errors.Join(writeJSON(filepath.Join(f.Dir, settingsFile), f.head), f.close(), os.Remove(filepath.Join(f.Dir, linesFile))); err != nil {
		t.Fatal(err)
	}
	before := everything(t, f.Dir)
	for what, do := range map[string]func() error{
		"look":     func() error { _, err := Begun(f.Dir); return err },
		"read":     func() error { _, err := Read(f.Dir); return err },
		"continue": func() error { _, err := open(f.Dir, Settings{}, nil, nil, Session{}, 0); return err },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "has soak.json and 2 runs, and no soak.ndjson, so what they have shown is not known: put its soak.ndjson back") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after := everything(t, f.Dir); !reflect.DeepEqual(after, before) {
		t.Errorf("it was\n%v\nand is\n%v", before, after)
	}
	for _, l := range f.Lines {
		if err := os.RemoveAll(filepath.Join(f.Dir, runsDir, l.Run)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := open(f.Dir, Settings{}, nil, nil, Session{}, 0)
	if err != nil {
		t.Fatalf("a soak that has begun no run: %v", err)
	}
	if err := f.close(); err != nil {
		t.Error(err)
	}
}

func TestRunsThatWereNotBroughtToTheirEndAreNamedUnlessTheSoakIsGoingOn(t *testing.T) {
	for lines, says := range map[int]string{0: "no run has come to its end; 2 runs were begun and not brought to their end: fenceproof soak --into %s judges them",
		1: "1 run passed; 2 runs were begun and not brought to their end: fenceproof soak --into %s judges them"} {
		f := folderOf(t, []Cell{{"pause", "pg", "payout"}}, []Line{ran("pause", 1, verdict.Pass)}[:lines]...)
		for _, seed := range []uint64{2, 3} {
			if err := os.MkdirAll(filepath.Join(f.Dir, runsDir, ran("pause", seed, "").Run, "history"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		other, err := Read(f.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if s := Summarise(other); len(s.Unfinished) != 0 {
			t.Errorf("of a soak that is going on %+v are named", s.Unfinished)
		}
		if err := f.close(); err != nil {
			t.Fatal(err)
		}
		s, err := other.Summarise()
		if err != nil || len(s.Unfinished) != 2 || s.Reason != fmt.Sprintf(says, f.Dir) {
			t.Errorf("%v, %s; named are %+v", err, s.Reason, s.Unfinished)
		}
		for _, file := range []string{summaryFile, pageFile} {
			if text, err := os.ReadFile(filepath.Join(f.Dir, file)); err != nil || !strings.Contains(string(text), "runs/"+ran("pause", 3, "").Run) {
				t.Errorf("%s does not name them (%v)", file, err)
			}
		}
	}
}

// A soak that is killed between a verdict and its line has shown what the verdict says. Whoever looks while it is going on is
// between the two as well: what was left open may be done again then, and a violation stays one.
func TestAVerdictThatNoLineTellsOfCounts(t *testing.T) {
	left := func(seed uint64) string { return "runs/" + redone(ran("pause", seed, "")).Run } // the first under seed 2
	type told struct {
		status verdict.Status
		exit   int
	}
	pass := told{verdict.Pass, verdict.ExitPass}
	violated, open, idle := told{verdict.Violated, verdict.ExitViolated}, told{verdict.Inconclusive, verdict.ExitOpen}, told{verdict.NotExercised, verdict.ExitOpen}
	failed := failedWith(redone(ran("kill", 9, "")), "no room")
	for name, c := range map[string]struct {
		lines         []Line
		verdicts      []verdict.Status
		going, killed told
		says          string
	}{
		"a pass":              {nil, []verdict.Status{verdict.Pass}, pass, pass, ""},
		"a violation":         {nil, []verdict.Status{verdict.Violated}, violated, violated, "1 run of which no line tells has a verdict, and that counts: " + left(2) + " is violated"},
		"one in doubt":        {nil, []verdict.Status{verdict.Inconclusive}, pass, open, "1 run of which no line tells has a verdict, and that counts: " + left(2) + " is inconclusive"},
		"one that was idle":   {nil, []verdict.Status{verdict.NotExercised}, pass, idle, "1 run of which no line tells has a verdict, and that counts: " + left(2) + " is not exercised"},
		"one that none knows": {nil, []verdict.Status{"maybe"}, pass, open, "1 run of which no line tells has a verdict, and that counts: " + left(2) + " is inconclusive"},
		"several, the worst first": {nil, []verdict.Status{verdict.NotExercised, verdict.Pass, verdict.Inconclusive, verdict.Violated}, violated, violated,
			"3 runs of which no line tells have verdicts, and that counts: " + left(5) + " is violated; " + left(4) + " is inconclusive; " + left(2) + " is not exercised"},
		"a violation beside a failure": {[]Line{failed}, []verdict.Status{verdict.Violated}, violated, violated, left(2) + " is violated"},
		"a violation beside one":       {[]Line{ran("kill", 1, verdict.Violated)}, []verdict.Status{verdict.Inconclusive}, violated, violated, "1 of 2 runs violated: kill"},
	} {
		t.Run(name, func(t *testing.T) {
			f := folderOf(t, nil, append(c.lines, ran("pause", 1, verdict.Pass))...)
			for n, status := range c.verdicts {
				l := redone(ran("pause", uint64(n+2), status))
				dir := filepath.Join(f.Dir, runsDir, l.Run)
				if err := errors.Join(os.MkdirAll(dir, 0o755), writeJSON(filepath.Join(dir, verdict.FileName), verdictFor(l))); err != nil {
					t.Fatal(err)
				}
			}
			other, err := Read(f.Dir)
			if err != nil {
				t.Fatal(err)
			}
			if s := Summarise(other); s.Status != c.going.status || s.Exit != c.going.exit || len(s.Unfinished) != 0 {
				t.Errorf("while it is going on it is %s, exit status %d: %s", s.Status, s.Exit, s.Reason)
			}
			if err := f.close(); err != nil {
				t.Fatal(err)
			}
			s, err := other.Summarise()
			if err != nil || s.Status != c.killed.status || s.Exit != c.killed.exit || len(s.Unfinished) != len(c.verdicts) || !strings.Contains(s.Reason, c.says) {
				t.Fatalf("%v, %s, exit status %d: %s; want %s: %s", err, s.Status, s.Exit, s.Reason, c.killed.status, c.says)
			}
			if s.Status == verdict.Pass {
				return
			}
			if page, err := os.ReadFile(filepath.Join(f.Dir, pageFile)); err != nil || !strings.Contains(string(page), "whose verdict counts: ") {
				t.Errorf("the page does not tell of it (%v)", err)
			}
			if matrix := s.Markdown(); !strings.Contains(matrix, "**"+number(len(s.Untold), "run")+" of which no line tells ha") {
				t.Errorf("the matrix does not tell of it:\n%s", matrix)
			}
		})
	}
}

func TestALineThatItsOwnFolderRepeatsIsNotTakenForThatOfAnotherOne(t *testing.T) {
	for _, build := range []string{"", "one"} {
		f := folderOf(t, nil, ran("pause", 1, verdict.Pass))
		f.Lines = append(f.Lines, f.Lines[0])
		f.head.Sessions[0].Build = build
		s := Summarise(f)
		var out strings.Builder
		if err := s.Print(&out); err != nil || s.Counts.Runs != 1 || s.Twice != 1 || s.Repeated != 0 || !strings.Contains(out.String(), "left out: 1 line of a run that another line of the same folder tells of") {
			t.Errorf("build %q: %v, %+v\n%s", build, err, s, out.String())
		}
	}
}

func TestARunIsToldToEndByTheSignalThatItsSoakWasToldBy(t *testing.T) {
	for s, trap := range map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP"} {
		if signal.Ignored(s) { // by nohup, say: what a shell was started to ignore it cannot trap
			continue
		}
		ctx, stop := context.WithCancelCause(t.Context())
		dir := t.TempDir()
		go stopOnce(ctx, filepath.Join(dir, "begun"), func() { stop(fmt.Errorf("interrupted (%s)", s)) })
		x := &child{exe: scripted(t, `trap 'verdict 1 violated; exit 1' `+trap+`; touch "$runs/begun"; while :; do sleep 0.01; done`), runs: dir,
			output: filepath.Join(t.TempDir(), "out"), env: os.Environ(), overdue: 9 * time.Second, grace: 0, task: Task{Cell: Cell{"pause", "pg", "payout"}, Nemesis: "pause", Seed: 1}}
		if o, err := x.do(ctx); err != nil || !o.cut || o.line.Status != verdict.Violated {
			t.Errorf("%s: %v, %+v", s, err, o)
		}
		stop(nil)
	}
}
