package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/verdict"
)

// scripted is a program that stands in for verify: runs of it are over at once, and end as the script says. In the script
// $dir is the folder that its run leaves, and $seed its seed.
func scripted(t *testing.T, script string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "fenceproof")
	text := `#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in --runs) runs=$2 ;; --seed) seed=$2 ;; --nemesis) nemesis=$(echo "$2" | tr , +) ;; esac
  shift
done
dir=$runs/20260102T000000.000Z-payout-pg-$nemesis-$seed
verdict() { mkdir -p "$dir/history"; echo "{\"schema\":1,\"id\":\"${dir##*/}\",\"exit\":$1,\"overall\":\"$2\",\"settings\":{\"nemesis\":\"$(echo "$nemesis" | tr + ,)\",\"workload\":\"payout\",\"backend\":\"pg\",\"seed\":\"$seed\"}}" >"$dir/verdict.json"; }
` + script + "\n"
	if err := os.WriteFile(exe, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return exe
}

// scriptedSoak are the options of a soak of one cell on pg.
func scriptedSoak(t *testing.T, exe string, rounds int) (Options, *bytes.Buffer) {
	out := &bytes.Buffer{}
	s := Settings{Nemeses: []string{"pause"}, Backends: []string{"pg"}, Workloads: []string{"payout"}, FirstSeed: 1, Rounds: rounds, Drive: time.Second, Jobs: 1}
	return Options{Settings: s, Into: filepath.Join(t.TempDir(), "soak"), Exe: exe, Programs: []string{"lock-server"}, Command: "bin/fenceproof soak", Check: all, Out: out}, out
}

// stopOnce calls stop once there is the file, or ctx has ended.
func stopOnce(ctx context.Context, file string, stop func()) {
	defer stop()
	for ctx.Err() == nil {
		if _, err := os.Stat(file); err == nil {
			return
		}
		time.Sleep(time.Millisecond) // the pause between two looks at the condition
	}
}

func TestAnInterruptedRedoLeavesTheEvidenceOfTheFailureBefore(t *testing.T) {
	o, out := scriptedSoak(t, scripted(t, `if [ ! -e "$runs/../again" ]; then mkdir -p "$dir"; exit 255; fi
trap 'exit 2' TERM; touch "$runs/../begun"; while :; do sleep 0.01; done`), 1)
	if _, err := Run(t.Context(), o); !errors.Is(err, ErrHarness) {
		t.Fatalf("%v\n%s", err, out)
	}
	kept := filepath.Join(o.Into, runsDir, "20260102T000000.000Z-payout-pg-pause-1")
	if _, err := os.Stat(kept); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Into, "again"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go stopOnce(ctx, filepath.Join(o.Into, "begun"), stop)
	if _, err := Run(ctx, o); err != nil || !strings.Contains(out.String(), "interrupted, not counted") {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("the evidence of the failure is gone: %v", err)
	}
}

func TestAHarnessThatFailsEndsTheSoakAndWhatItSaidIsKept(t *testing.T) {
	for says, script := range map[string]string{
		"verify ended with exit status 255; it said: no space":                    `echo no space; exit 255`,
		"verify ended with exit status 0 and left no run":                         `exit 0`,
		"verify ended with exit status 0, and its verdict stands for 2":           `verdict 2 inconclusive; exit 0`,
		"verify ended with exit status 2, and its verdict stands for 0; it said:": `verdict 0 pass; echo no room; exit 2`,
		"verify ended with signal: killed":                                        `kill -9 $$`,
	} {
		o, out := scriptedSoak(t, scripted(t, script), 3)
		s, err := Run(t.Context(), o)
		if !errors.Is(err, ErrHarness) || s == nil || s.Exit != verdict.ExitHarness || len(s.Failures) != 1 || !strings.Contains(s.Failures[0].Failed, says) {
			t.Errorf("%s: %v\n%s", says, err, out)
		}
		if n := strings.Count(out.String(), "THE HARNESS FAILED"); n != 1 {
			t.Errorf("%s: it failed %d times, so the soak went on:\n%s", says, n, out)
		}
	}
}

func TestASoakOfRunsThatPassHasOneLinePerRunAndBeginsNoneAfterItsTime(t *testing.T) {
	o, out := scriptedSoak(t, scripted(t, `verdict 0 pass; exit 0`), 3)
	if s, err := Run(t.Context(), o); err != nil || s.Counts.Pass != 3 || s.Exit != 0 {
		t.Fatalf("%v, %+v\n%s", err, s, out)
	}
	s := &soak{Options: o, cells: []Cell{{"pause", "pg", "payout"}}, round: -1, done: map[string]bool{}, begun: time.Now().Add(-time.Hour)}
	s.Duration = time.Hour
	if x, ok, err := s.next(t.Context()); ok || err != nil {
		t.Errorf("%v is begun after the soak's time (%v)", x, err)
	}
	s.Duration = 2 * time.Hour
	if _, ok, err := s.next(t.Context()); !ok || err != nil {
		t.Errorf("nothing is begun before the soak's time is up (%v)", err)
	}
	s.err = fmt.Errorf("no space")
	if x, ok, err := s.next(t.Context()); ok || err != nil {
		t.Errorf("%v is begun after the harness has failed (%v)", x, err)
	}
}

func TestAnInterruptedRunThatHadFoundAViolationIsKeptHoweverItEnded(t *testing.T) {
	o, out := scriptedSoak(t, scripted(t, `trap 'verdict 1 violated; exit 255' TERM; touch "$runs/../begun"; while :; do sleep 0.01; done`), 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go stopOnce(ctx, filepath.Join(o.Into, "begun"), stop)
	s, err := Run(ctx, o)
	if err != nil || s.Counts.Violated != 1 || s.Exit != verdict.ExitViolated || len(s.Kept) != 1 {
		t.Errorf("%v, %+v\n%s", err, s, out)
	}
}

func TestARunThatFailedAfterItsVerdictCountsByItAndIsNotDoneAgain(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		status verdict.Status
		exit   int
	}{
		"violated":                 {`verdict 1 violated; echo no room; exit 255`, verdict.Violated, verdict.ExitViolated},
		"violated, another status": {`verdict 1 violated; echo no room; exit 0`, verdict.Violated, verdict.ExitViolated},
		"violated, and told":       {`verdict 1 violated; echo "fenceproof: no room"; exit 1`, verdict.Violated, verdict.ExitViolated},
		"inconclusive":             {`verdict 2 inconclusive; echo no room; exit 255`, verdict.Inconclusive, verdict.ExitOpen},
		"pass":                     {`verdict 0 pass; echo no room; exit 255`, verdict.Pass, verdict.ExitPass},
		"pass, then killed":        {`verdict 0 pass; echo no room; kill -9 $$`, verdict.Pass, verdict.ExitPass},
	} {
		t.Run(name, func(t *testing.T) {
			o, out := scriptedSoak(t, scripted(t, `if [ -e "$runs/../again" ]; then dir=$runs/20260103T000000.000Z-payout-pg-pause-$seed; verdict 0 pass; exit 0; fi
`+c.script), 1)
			if _, err := Run(t.Context(), o); !errors.Is(err, ErrHarness) || strings.Count(out.String(), "THE HARNESS FAILED") != 1 || !strings.Contains(out.String(), "no room") {
				t.Errorf("%v\n%s", err, out)
			}
			if err := os.WriteFile(filepath.Join(o.Into, "again"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			s, err := Run(t.Context(), o)
			if err != nil || s.Status != c.status || s.Exit != c.exit || s.Counts.Runs != 1 || len(s.Failures) != 0 || !strings.Contains(s.Reason, "besides, the harness failed in pause, payout on pg, seed 1") {
				t.Errorf("%v, %+v\n%s", err, s, out)
			}
			if html, err := os.ReadFile(filepath.Join(o.Into, pageFile)); err != nil || !strings.Contains(string(html), "seed 1</b>, after its verdict ("+string(c.status)+"), which counts: ") {
				t.Errorf("the page does not tell the failure (%v)", err)
			}
			if len(s.Besides) != 1 || !strings.Contains(s.Besides[0].Besides, "no room") || len(s.Kept) != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestAVerdictThatIsNotThatOfTheRunOrNotWholeCountsForNothing(t *testing.T) {
	for says, script := range map[string]string{
		"it is that of \"another\"":                             `verdict 0 pass; echo '{"schema":1,"id":"another","exit":0,"overall":"pass"}' >"$dir/verdict.json"; exit 0`,
		"\"\" is no status of a run":                            `verdict 1 ""; exit 255`,
		"unexpected end of JSON input":                          `verdict 1 violated; printf '{"schema":1,' >"$dir/verdict.json"; exit 255`,
		"verify ended with exit status 2, and its verdict says": `verdict 255 inconclusive; exit 2`,                 // it says nothing itself
		"verify ended with exit status 255; it":                 `verdict 255 inconclusive; echo no room; exit 255`, // the verdict itself says so
	} {
		o, out := scriptedSoak(t, scripted(t, script), 1)
		s, err := Run(t.Context(), o)
		if !errors.Is(err, ErrHarness) || s == nil || s.Exit != verdict.ExitHarness || s.Counts.Runs != 0 || len(s.Failures) != 1 || !strings.Contains(s.Failures[0].Failed, says) {
			t.Errorf("%s: %v\n%s", says, err, out)
		}
	}
}

func TestASoakIsContinuedWithTheProgramsThatItBeganWithOrNotAtAll(t *testing.T) {
	for name, file := range map[string]string{"this program": "fenceproof", "a service": "lock-server", "a service that was missing": "rail-stub"} {
		t.Run(name, func(t *testing.T) {
			o, out := scriptedSoak(t, scripted(t, `verdict 0 pass; exit 0`), 1)
			o.Programs = append(o.Programs, "rail-stub")
			service, path := filepath.Join(filepath.Dir(o.Exe), "lock-server"), filepath.Join(filepath.Dir(o.Exe), file)
			if err := os.WriteFile(service, []byte("old"), 0o755); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			for rounds := range 2 {
				o.Rounds = rounds + 1
				if s, err := Run(t.Context(), o); err != nil || s.Counts.Runs != o.Rounds {
					t.Fatalf("with the same programs: %v, %+v\n%s", err, s, out)
				}
			}
			o.Rounds = 3
			if err := os.WriteFile(path, append(before, "\n# new\n"...), 0o755); err != nil {
				t.Fatal(err)
			}
			if _, err := Run(t.Context(), o); !errors.Is(err, ErrOtherBuild) || !strings.Contains(err.Error(), "begin another soak in a new folder") {
				t.Errorf("with other programs: %v\n%s", err, out)
			}
			if f, err := Read(o.Into); err != nil || len(f.Lines) != 2 || len(f.head.Sessions) != 2 {
				t.Errorf("%v, %+v", err, f)
			}
		})
	}
}

func TestAViolationStaysOneWhereTheProgramsWereReplacedDuringItsRun(t *testing.T) {
	o, out := scriptedSoak(t, scripted(t, `echo new >"${0%/*}/lock-server"; verdict 1 violated; exit 1`), 2)
	s, err := Run(t.Context(), o)
	if !errors.Is(err, ErrHarness) || s.Status != verdict.Violated || s.Exit != verdict.ExitViolated || s.Counts.Runs != 1 || s.Counts.Violated != 1 {
		t.Errorf("%v, %+v\n%s", err, s, out)
	}
	if n := strings.Count(out.String(), "THE HARNESS FAILED"); n != 1 || !strings.Contains(out.String(), "seed 1: violated") {
		t.Errorf("it failed %d times:\n%s", n, out)
	}
	f, err := Read(o.Into)
	if err != nil || len(f.Lines) != 1 || f.Lines[0].Failed != "" || !f.whole(f.Lines[0].Run) {
		t.Errorf("%v, %+v", err, f)
	}
}

func TestARunThatHangsIsAFailureOfTheHarnessWhateverItsVerdictSays(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		cut    bool
		grace  time.Duration
	}{
		"ends when told":                      {`trap 'verdict 0 pass; exit 0' TERM; touch "$runs/begun"; while :; do sleep 0.01; done`, false, time.Minute},
		"has to be killed":                    {`trap '' TERM; verdict 0 pass; touch "$runs/begun"; while :; do sleep 0.01; done`, false, 0},
		"has to be killed after an interrupt": {`trap '' TERM; verdict 0 pass; touch "$runs/begun"; while :; do sleep 0.01; done`, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if c.cut {
				go stopOnce(ctx, filepath.Join(dir, "begun"), stop)
			}
			x := &child{exe: scripted(t, c.script), runs: dir, output: filepath.Join(t.TempDir(), "out"), env: os.Environ(), overdue: 300 * time.Millisecond, grace: c.grace,
				task: Task{Cell: Cell{"pause", "pg", "payout"}, Nemesis: "pause", Seed: 1}}
			o, err := x.do(ctx)
			if err != nil || !strings.HasPrefix(o.line.Failed, "it did not end by itself (") || o.cut != c.cut || !o.told() {
				t.Errorf("%v, %+v", err, o)
			}
		})
	}
}

func TestAFailureOfTheHarnessBehindAnInterruptIsToldAndItsEvidenceIsKept(t *testing.T) {
	const none = ""
	for name, c := range map[string]struct{ told, says string }{
		"it could not heal":                 {`verdict 255 inconclusive; echo no way back; exit 255`, "no way back"},
		"it came to no verdict":             {`mkdir -p "$dir/history"; echo no room; exit 255`, "no room"},
		"it came to its verdict before":     {`verdict 2 inconclusive; echo no room; exit 255`, "no room"},
		"it contradicts its verdict":        {`verdict 0 pass; exit 2`, "its verdict stands for 0"},
		"it was killed by somebody":         {`verdict 2 inconclusive; kill -9 $$`, "signal: killed"},
		"its verdict cannot be read":        {`verdict 2 ""; exit 2`, "is no status of a run"},
		"it left nothing but what it said":  {`echo no room; exit 255`, "no room"},
		"it healed":                         {`verdict 2 inconclusive; exit 2`, none},
		"it was over already":               {`verdict 0 pass; exit 0`, none},
		"it had not begun":                  {`exit 2`, none},
		"it did not know yet what to heal":  {`trap - TERM; kill $$`, none},
		"it had judged, and was on its way": {`verdict 0 pass; trap - TERM; kill $$`, none},
		"the machine could not do it":       {`exit 253`, none},
		"its programs were replaced":        {`echo new >"${0%/*}/lock-server"; verdict 2 inconclusive; exit 2`, none}, // nothing of it counts
	} {
		t.Run(name, func(t *testing.T) {
			o, out := scriptedSoak(t, scripted(t, `if [ -e "$runs/../again" ]; then dir=$runs/20260103T000000.000Z-payout-pg-pause-$seed; verdict 0 pass; exit 0; fi
trap '`+strings.ReplaceAll(c.told, "'", `'\''`)+`' TERM; touch "$runs/../begun"; while :; do sleep 0.01; done`), 1)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go stopOnce(ctx, filepath.Join(o.Into, "begun"), stop)
			s, err := Run(ctx, o)
			left, _ := filepath.Glob(filepath.Join(o.Into, outputDir, "*"))
			evidence, _ := filepath.Glob(filepath.Join(o.Into, runsDir, "2*"))
			if c.says == none {
				if err != nil || s.Counts.Runs != 0 || len(s.Failures) != 0 || len(left)+len(evidence) != 0 || !strings.Contains(out.String(), "interrupted, not counted") {
					t.Errorf("%v, %+v, it left %v %v\n%s", err, s, left, evidence, out)
				}
				return
			}
			if !errors.Is(err, ErrHarness) || s.Exit != verdict.ExitHarness || s.Counts.Runs != 0 || len(s.Failures) != 1 || !strings.Contains(s.Failures[0].Failed, c.says) ||
				strings.Count(out.String(), "THE HARNESS FAILED") != 1 {
				t.Fatalf("%v, %+v\n%s", err, s, out)
			}
			if text, err := os.ReadFile(filepath.Join(o.Into, outputDir, "payout-pg-pause-1.txt")); err != nil || strings.Contains(c.told, "echo no") && !strings.Contains(string(text), "no ") {
				t.Errorf("what it said is gone: %v", err)
			}
			if s.Failures[0].Run == "" != (len(evidence) == 0) || s.Failures[0].Run == "" != strings.HasPrefix(c.told, "echo") {
				t.Errorf("of %q there is %v", s.Failures[0].Run, evidence)
			}
			if err := os.WriteFile(filepath.Join(o.Into, "again"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if s, err := Run(t.Context(), o); err != nil || s.Counts.Pass != 1 || len(s.Failures) != 0 {
				t.Errorf("it is not done again: %v, %+v\n%s", err, s, out)
			}
		})
	}
}

func TestASoakEndsWhereItsProgramsAreReplacedAndNotWhereTheyComeOutTheSame(t *testing.T) {
	for script, fails := range map[string]bool{
		`cp "$0" "$0.new"; mv "$0.new" "$0"; verdict 0 pass; exit 0`:                  false,
		`cp "$0" "$0.new"; echo >>"$0.new"; mv "$0.new" "$0"; verdict 0 pass; exit 0`: true,
		`echo new >"${0%/*}/lock-server"; verdict 0 pass; exit 0`:                     true,
	} {
		o, out := scriptedSoak(t, scripted(t, script), 2)
		s, err := Run(t.Context(), o)
		if errors.Is(err, ErrHarness) != fails || (s.Exit == verdict.ExitHarness) != fails || strings.Contains(out.String(), "is not the program that it was when the soak began: begin another soak in a new folder") != fails {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
		if want := map[bool]int{true: 0, false: 2}[fails]; s.Counts.Runs != want {
			t.Errorf("%s: %d runs count, want %d", script, s.Counts.Runs, want)
		}
	}
}
