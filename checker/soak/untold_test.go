package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fenceproof/checker/run"
	"fenceproof/checker/synthetic"
	"fenceproof/checker/verdict"
)

// ended puts the history of a run into f that was ended before it came to a verdict: its files are cut off.
func ended(t *testing.T, f *Folder, id string, seed uint64, planted synthetic.Violation) {
	t.Helper()
	dir := run.HistoryDir(filepath.Join(f.Dir, runsDir, id))
	if _, err := synthetic.Write(dir, synthetic.Options{Seed: seed, Events: 2000, Violation: planted, At: 0.2}); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range files {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil {
			text = bytes.ReplaceAll(text, fmt.Appendf(nil, `"synthetic-%d"`, seed), []byte(`"`+id+`"`))
			err = os.WriteFile(filepath.Join(dir, e.Name()), text[:len(text)-20], 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestARunThatWasKilledWithItsSoakIsJudgedByItsHistoryBeforeItGoes(t *testing.T) {
	const violated, clean, nothing, early = "20260102T030405.000Z-payout-pg-pause-1", "20260102T030405.000Z-payout-pg-pause-2",
		"20260102T030405.000Z-payout-pg-pause-3", "20260102T030405.000Z-payout-pg-pause-4"
	o, out := scriptedSoak(t, scripted(t, `verdict 0 pass; exit 0`), 4)
	f := &Folder{Dir: o.Into}
	if err := errors.Join(os.MkdirAll(o.Into, 0o755), writeJSON(filepath.Join(o.Into, settingsFile), header{Schema: Schema}), os.WriteFile(filepath.Join(o.Into, linesFile), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	ended(t, f, violated, 1, synthetic.PaidTwice)
	ended(t, f, clean, 2, "")
	torn := filepath.Join(o.Into, runsDir, early, "history")
	if err := errors.Join(os.MkdirAll(filepath.Join(o.Into, runsDir, nothing), 0o755), os.MkdirAll(torn, 0o755), os.WriteFile(filepath.Join(torn, "run.ndjson"), []byte(`{"sch`), 0o644)); err != nil {
		t.Fatal(err)
	}
	s, err := Run(t.Context(), o)
	if err != nil || s.Counts.Violated != 1 || s.Counts.Pass != 3 || s.Exit != verdict.ExitViolated {
		t.Fatalf("%v, %+v\n%s", err, s, out)
	}
	if len(s.Kept) != 1 || s.Kept[0].Run != violated || !strings.Contains(s.Kept[0].Reason, "INV-02") || !strings.Contains(s.Kept[0].Reason, "ended together with its soak") {
		t.Errorf("%+v", s.Kept)
	}
	for _, file := range []string{"verdict.json", "report.html"} {
		if _, err := os.Stat(filepath.Join(o.Into, runsDir, violated, file)); err != nil {
			t.Error(err)
		}
	}
	for _, id := range []string{clean, nothing, early} {
		if _, err := os.Stat(filepath.Join(o.Into, runsDir, id)); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", id, err)
		}
	}
	for _, says := range []string{"not brought to its end before, and what is there shows a violation, so it counts: " + violated, "they show no violation, so they are gone and done again: 3 runs"} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("it does not say %q:\n%s", says, out)
		}
	}
}

func TestARunThatFailedBeforeItsVerdictIsJudgedByItsHistory(t *testing.T) {
	for planted, counts := range map[synthetic.Violation]int{synthetic.PaidTwice: 1, "": 0} {
		from := &Folder{Dir: t.TempDir()}
		const id = "20260102T000000.000Z-payout-pg-pause-1"
		ended(t, from, id, 1, planted)
		o, out := scriptedSoak(t, scripted(t, `mkdir -p "$runs"; cp -r "`+filepath.Join(from.Dir, runsDir, id)+`" "$dir"; echo no room; exit 255`), 1)
		s, err := Run(t.Context(), o)
		if !errors.Is(err, ErrHarness) || s.Counts.Violated != counts || s.Counts.Runs != counts || len(s.Besides) != counts || len(s.Failures) != 1-counts {
			t.Errorf("%q: %v, %+v\n%s", planted, err, s, out)
		}
		if !strings.Contains(out.String(), "no room") {
			t.Errorf("%q: it does not say what failed:\n%s", planted, out)
		}
	}
}

func TestAnInterruptedRunThatIsKilledIsJudgedByItsHistoryAndStaysEitherWay(t *testing.T) {
	for planted, want := range map[synthetic.Violation]verdict.Status{synthetic.PaidTwice: verdict.Violated, "": ""} {
		from := &Folder{Dir: t.TempDir()}
		const id = "20260102T000000.000Z-payout-pg-pause-1"
		ended(t, from, id, 1, planted)
		dir := t.TempDir()
		ctx, stop := context.WithCancel(t.Context())
		go stopOnce(ctx, filepath.Join(dir, "begun"), stop)
		x := &child{exe: scripted(t, `trap '' TERM; cp -r "`+filepath.Join(from.Dir, runsDir, id)+`" "$dir"; touch "$runs/begun"; while :; do sleep 0.01; done`), runs: dir,
			output: filepath.Join(t.TempDir(), "out"), env: os.Environ(), overdue: 300 * time.Millisecond, grace: 0, task: Task{Cell: Cell{"pause", "pg", "payout"}, Nemesis: "pause", Seed: 1}}
		if o, err := x.do(ctx); err != nil || !o.cut || o.line.Status != want || (o.line.Failed == "") != (want == verdict.Violated) || !o.told() {
			t.Errorf("%q: %v, %+v", planted, err, o)
		}
		stop()
	}
}

// A folder stands where the report would be put.
func TestAViolationWhoseReportCannotBeWrittenIsOne(t *testing.T) {
	from := &Folder{Dir: t.TempDir()}
	const id = "20260102T000000.000Z-payout-pg-pause-1"
	ended(t, from, id, 1, synthetic.PaidTwice)
	x := &child{exe: scripted(t, `cp -r "`+filepath.Join(from.Dir, runsDir, id)+`" "$dir"; mkdir -p "$dir/report.html/in the way"; kill -9 $$`), runs: t.TempDir(),
		output: filepath.Join(t.TempDir(), "out"), env: os.Environ(), overdue: time.Minute, grace: time.Minute, task: Task{Cell: Cell{"pause", "pg", "payout"}, Nemesis: "pause", Seed: 1}}
	o, err := x.do(t.Context())
	if err != nil || o.line.Status != verdict.Violated || o.line.Failed != "" || !strings.Contains(o.line.Besides, "report") {
		t.Errorf("%v, %+v", err, o)
	}
}

func TestARunWhoseVerdictIsAPipeIsNotWaitedFor(t *testing.T) {
	f := folderOf(t, nil)
	const id = "20260102T030405.000Z-payout-pg-pause-1"
	pipe := filepath.Join(f.Dir, runsDir, id, "verdict.json")
	if err := errors.Join(os.Mkdir(filepath.Dir(pipe), 0o755), syscall.Mkfifo(pipe, 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := soon(t, func() error { return f.sweepAway([]string{id}) }); err == nil || !strings.Contains(err.Error(), pipe+" is no regular file") {
		t.Errorf("%v", err)
	}
}

func TestARunWhoseHistoryCannotBeReadIsNotSweptAway(t *testing.T) {
	f := folderOf(t, nil)
	const id = "20260102T030405.000Z-payout-pg-pause-1"
	ended(t, f, id, 1, "")
	if err := os.WriteFile(filepath.Join(run.HistoryDir(filepath.Join(f.Dir, runsDir, id)), "run.ndjson"), []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := f.sweepAway([]string{id}); err == nil || !strings.Contains(err.Error(), id) || !f.whole(id) {
		t.Errorf("%v", err)
	}
}
