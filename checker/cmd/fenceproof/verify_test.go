package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

func TestStoppedHoldersAreRefusedAtBothFencePointsAndNothingBreaks(t *testing.T) {
	r := start(t, "--nemesis", "pause", "--seed", "3", "--duration", "8s")
	if got := r.wait(); got != 0 {
		t.Fatalf("exit status %d", got)
	}
	v := r.verdict()
	if v.Overall != verdict.Pass || v.Refusals["rail"] == 0 || v.Refusals["account"]+v.Refusals["ledger"] == 0 {
		t.Errorf("overall %s, refusals %v", v.Overall, v.Refusals)
	}
	for _, i := range v.Invariants {
		if i.ID == "INV-03" && i.Danger["balances_selected"] <= int64(v.Settings.Accounts) { // the customers' and the clearing accounts
			t.Errorf("a SELECT confirmed %d balances, and there are %d customers alone", i.Danger["balances_selected"], v.Settings.Accounts)
		}
	}
	awaitNobody(t, r.folder())
	for _, f := range []string{"report.html", "summary.md", "junit.xml", "plan.json"} {
		if s, err := os.Stat(filepath.Join(r.runs, "latest", f)); err != nil || s.Size() == 0 {
			t.Errorf("%s: %v", f, err)
		}
	}
	if _, err := os.Stat(filepath.Join(r.folder(), "data")); !os.IsNotExist(err) {
		t.Errorf("the databases' folders are still there after a pass: %v", err)
	}
	t.Run("and the files alone give the same verdict again", func(t *testing.T) {
		before, err := os.ReadFile(filepath.Join(r.folder(), "verdict.json"))
		if err != nil {
			t.Fatal(err)
		}
		out, status := fenceproof(t, "recheck", "--json", r.folder())
		if status != 0 || strings.TrimSpace(out) != strings.TrimSpace(string(before)) {
			t.Errorf("recheck ended with %d and printed\n%.2000s\nverdict.json is\n%.2000s", status, out, before)
		}
	})
	t.Run("and for how long the clients were kept from running is known of all that they sent while they worked", func(t *testing.T) {
		if _, err := os.Stat("/proc/self/schedstat"); errors.Is(err, os.ErrNotExist) {
			t.Skip("this kernel does not count for how long threads wait for a processor, as doctor says, and a run does without")
		}
		var asked, sent int64
		events(t, r.folder(), func(e *history.Event) {
			switch {
			case e.W == history.Run && e.Op == history.OpWaits:
				took, err := time.ParseDuration(e.Attrs[history.AskedFor])
				if err != nil {
					t.Errorf("for how long it asked: %v", err)
				}
				asked = e.T - int64(took)
			case e.Stage == history.Received && e.Op.Fenced():
				sent = e.T
			}
		})
		if asked < sent || sent == 0 {
			t.Errorf("the last request was sent at %d, and what is known goes to %d", sent, asked)
		}
	})
	t.Run("and where the logs are gone that is noted and nothing more", func(t *testing.T) {
		logs := filepath.Join(r.folder(), "history", "logs.ndjson")
		if err := os.Rename(logs, logs+".away"); err != nil {
			t.Fatal(err)
		}
		out, status := fenceproof(t, "recheck", r.folder())
		if status != 0 || !strings.Contains(out, "not whole: logs: the file is missing") {
			t.Errorf("recheck ended with %d and printed\n%.2000s", status, out)
		}
		if err := os.Rename(logs+".away", logs); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("and the story of a stopped holder can be told", func(t *testing.T) {
		out, status := fenceproof(t, "transcript", r.folder())
		if status != 0 || !strings.Contains(out, "STOPPED") || !strings.Contains(out, "FENCED_OUT") {
			t.Errorf("status %d:\n%.2000s", status, out)
		}
	})
}

func TestWithTheFencesOffTheMoneyIsPaidTwiceAndTheSuiteSaysSo(t *testing.T) {
	r := start(t, "--plan", filepath.Join("..", "..", "..", "docs", "experiment", "plan.json"), "--fencing", "off", "--control")
	if got := r.wait(); got != 0 {
		t.Fatalf("exit status %d", got)
	}
	v := r.verdict()
	if v.Expect == nil || !v.Expect.Met || len(v.Refusals) != 0 {
		t.Errorf("expectation %+v, refusals %v", v.Expect, v.Refusals)
	}
	b, err := os.ReadFile(filepath.Join(r.folder(), "rail-journal.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	transfers, twice := map[string]int{}, 0
	for line := range strings.Lines(string(b)) {
		var l struct{ ClientRef string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if transfers[l.ClientRef]++; transfers[l.ClientRef] == 2 {
			twice++
		}
	}
	if twice == 0 {
		t.Errorf("the rail's journal shows no payout twice among %d", len(transfers))
	}
	if _, err := os.Stat(filepath.Join(r.folder(), "data")); !os.IsNotExist(err) {
		t.Errorf("the databases' folders are still there behind what was asked for: %v", err)
	}
}

func TestAViolationThatNobodyExpectedIsExitStatusOne(t *testing.T) {
	r := start(t, "--plan", filepath.Join("..", "..", "..", "docs", "experiment", "plan.json"), "--fencing", "rail-off")
	if got := r.wait(); got != 1 {
		t.Errorf("exit status %d", got)
	}
	v := r.verdict()
	if v.Overall != verdict.Violated || v.Refusals["account"] != 1 || v.Refusals["rail"] != 0 {
		t.Errorf("overall %s, refusals %v", v.Overall, v.Refusals)
	}
	if _, err := os.Stat(filepath.Join(r.folder(), "data", "paydb", "PG_VERSION")); err != nil {
		t.Errorf("what shows how it came to it is gone: %v", err)
	}
}

func TestTheExperimentsPlanReplaysToTheSameTwoRefusals(t *testing.T) {
	r := start(t, "--plan", filepath.Join("..", "..", "..", "docs", "experiment", "plan.json"))
	if got := r.wait(); got != 0 {
		t.Errorf("exit status %d", got)
	}
	if v := r.verdict(); v.Refusals["rail"] != 1 || v.Refusals["account"] != 1 || v.Payouts[string(contract.Posted)] != 2 {
		t.Errorf("refusals %v, payouts %v", v.Refusals, v.Payouts)
	}
}

func TestWhateverEndsTheHarnessNothingOfTheRunIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		at     string
		signal syscall.Signal
		status int
		report bool
		data   bool // of a run that was no pass, and had begun
	}{
		"kill -9 while it boots":             {"starting the services", syscall.SIGKILL, -1, false, false},
		"Ctrl-C while it boots":              {"starting the services", syscall.SIGINT, 2, true, false},
		"Ctrl-C while processes are stopped": {"now pause", syscall.SIGINT, 2, true, true},
		"SIGTERM in the drive":               {"offering payouts", syscall.SIGTERM, 2, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, "--nemesis", "pause", "--seed", "5")
			r.awaitLine(c.at)
			signalTo(t, r, c.signal)
			status := r.wait()
			if status != c.status {
				t.Errorf("exit status %d", status)
			}
			awaitNobody(t, r.folder())
			if _, err := os.Stat(filepath.Join(r.folder(), "report.html")); (err == nil) != c.report {
				t.Errorf("the report: %v", err)
			}
			if _, err := os.Stat(filepath.Join(r.folder(), "data", "paydb", "PG_VERSION")); (err == nil) != c.data {
				t.Errorf("what paydb had come to: %v", err)
			}
			out, status := fenceproof(t, "recheck", r.folder())
			if status != 2 || c.report && !strings.Contains(out, "INCONCLUSIVE: interrupted") {
				t.Errorf("recheck ended with %d:\n%s", status, out)
			}
		})
	}
}

func TestARunWhoseHarnessFailedIsNoPassInAnyFile(t *testing.T) {
	t.Parallel()
	r := start(t, "--nemesis", "none", "--duration", "20s")
	r.awaitLine("offering payouts")
	r.killWarden()
	if got := r.wait(); got != exitHarness {
		t.Errorf("exit status %d", got)
	}
	awaitNobody(t, r.folder())
	v := r.verdict()
	if v.Overall != verdict.Inconclusive || v.Exit != exitHarness || !strings.Contains(v.Harness, "warden") {
		t.Errorf("verdict.json: %s, exit %d, harness %q", v.Overall, v.Exit, v.Harness)
	}
	if out, status := fenceproof(t, "recheck", "-q", r.folder()); status != exitHarness || !strings.Contains(out, "warden") {
		t.Errorf("recheck ended with %d:\n%s", status, out)
	}
}

func TestASystemThatDoesNotStartIsNoVerdictAboutIt(t *testing.T) {
	t.Parallel()
	r := startIn(t, withBroken(t, "rail-proxy", "#!/bin/sh\necho no rail today\nexit 3\n"), "--nemesis", "none")
	if got := r.wait(); got != exitHarness {
		t.Errorf("exit status %d", got)
	}
	awaitNobody(t, r.folder())
	if v := r.verdict(); v.Exit != exitHarness || !strings.Contains(v.Harness, "no rail today") {
		t.Errorf("verdict.json: exit %d, harness %q", v.Exit, v.Harness)
	}
	if out, status := fenceproof(t, "recheck", "-q", r.folder()); status != exitHarness || !strings.Contains(out, "no rail today") {
		t.Errorf("recheck ended with %d:\n%s", status, out)
	}
}

func TestAWrongCommandLineIsStatus254AndNamesWhatWasMeant(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a mistyped flag":             {[]string{"verify", "--nemsis", "pause"}, "did you mean --nemesis?"},
		"a mistyped nemesis":          {[]string{"verify", "--nemesis", "pauze"}, `did you mean "pause"?`},
		"a flag like no other":        {[]string{"verify", "--zzzzzzzz", "pause"}, "fenceproof verify -h lists them"},
		"no number":                   {[]string{"verify", "--seed", "x"}, `--seed is "x"; it takes a whole number`},
		"a duration of no unit":       {[]string{"verify", "--duration", "5"}, `--duration is "5"; it takes a duration such as 250ms`},
		"a mistyped fence":            {[]string{"verify", "--fencing", "of"}, `--fencing: "of" is not known; did you mean "off"?`},
		"a mistyped command":          {[]string{"verfy"}, "verify"},
		"a mistyped invariant":        {[]string{"verify", "--expect", "INV-2"}, "INV-02"},
		"a control of nothing":        {[]string{"verify", "--control"}, "needs a fence point that is off"},
		"a plan for no invariant":     {[]string{"verify", "--expect", "INV-99", "--plan-only"}, "INV-99"},
		"a plan for no control":       {[]string{"verify", "--control", "--plan-only"}, "needs a fence point that is off"},
		"short of funds, a fence off": {[]string{"verify", "--plan", "../../mutant/plans/tight-funds.json", "--fencing", "payment-off"}, "want of funds would stand in for the fence"},
		"one executor alone":          {[]string{"verify", "--executors", "1"}, "at least 2"},
		"a plan that is not there":    {[]string{"verify", "--plan", "nowhere.json"}, "nowhere.json"},
		"plan and nemesis together":   {[]string{"verify", "--plan", "../../../docs/experiment/plan.json", "--nemesis", "pause"}, "exclude one another"},
		"what payouts are judged by":  {[]string{"verify", "--expect", "LIN-01", "--plan-only"}, "workload payout is not judged by LIN-01, but by INV-01, "},
		"what locks are judged by":    {[]string{"verify", "--expect", "INV-04,INV-02?", "--workload", "lock", "--plan-only"}, "workload lock is not judged by INV-02, but by INV-04, "},
		"an empty expectation":        {[]string{"verify", "--expect", ""}, "INV-02,INV-05,INV-03?"},
		"a drive of a moment":         {[]string{"verify", "--duration", "1ms"}, "--duration is 1ms; at least 1s, at most 1h0m0s"},
		"a drive back in time":        {[]string{"verify", "--duration", "-1s"}, "--duration is -1s; at least 1s, at most 1h0m0s"},
		"a drive of years":            {[]string{"verify", "--duration", "100000h"}, "at most 1h"},
		"recheck of nothing":          {[]string{"recheck"}, "runs/latest"},
		"a transcript of no run":      {[]string{"transcript", "nowhere"}, "nowhere is no run: it has no folder history"},
		"no plan":                     {[]string{"verify", "--plan", ""}, "--plan is empty"},
		"runs without a folder":       {[]string{"verify", "--runs", ""}, "--runs is empty"},
		"runs in what is no folder":   {[]string{"verify", "--runs", "/dev/null"}, "--runs /dev/null: /dev/null is no folder"},
		"runs below what is none":     {[]string{"verify", "--runs", "/dev/null/x/y"}, "--runs /dev/null/x/y: /dev/null is no folder"},
		"a sweep into no folder":      {[]string{"sweep", "--runs", "/dev/null"}, "/dev/null is no folder"},
		"mutants in no folder":        {[]string{"mutants", "--runs", "/dev/null"}, "/dev/null is no folder"},
		"a doctor sent to no folder":  {[]string{"doctor", "--runs", "/dev/null"}, "/dev/null is no folder"},
		"a doctor without a folder":   {[]string{"doctor", "--runs", ""}, "--runs is empty"},
		"a sweep without a folder":    {[]string{"sweep", "--runs", ""}, "--runs is empty"},
		"mutants without a folder":    {[]string{"mutants", "--runs", ""}, "--runs is empty"},
		"no folder to clean":          {[]string{"clean", "--runs", ""}, "--runs is empty"},
		"a folder that is not there":  {[]string{"clean", "--runs", "nowhere/at/all"}, "--runs nowhere/at/all: there is no such folder"},
		"a duration that is none":     {[]string{"verify", "--duration", "30"}, "duration"},
	} {
		t.Run(name, func(t *testing.T) {
			out, status := fenceproof(t, c.args...)
			if status != exitUsage || !strings.Contains(out, c.want) {
				t.Errorf("status %d, want %d and %q:\n%s", status, exitUsage, c.want, out)
			}
		})
	}
}

func TestAPrintedPlanNeedsNoDatabaseAndReadsBack(t *testing.T) {
	out, status := fenceproof(t, "verify", "--nemesis", "pause", "--seed", "7", "--plan-only")
	if status != 0 {
		t.Fatal(out)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
	again, status := fenceproof(t, "verify", "--plan", file, "--plan-only")
	if status != 0 || again != out {
		t.Errorf("status %d, and it came back as\n%s", status, again)
	}
}

func TestRecheckOfWhatIsNoRunSaysSo(t *testing.T) {
	out, status := fenceproof(t, "recheck", t.TempDir())
	if status != exitUsage || !strings.Contains(out, "history") {
		t.Errorf("status %d:\n%s", status, out)
	}
}

func TestRecheckOfWhatHasNoEndSaysSoAndDoesNotWait(t *testing.T) {
	folder := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(folder, "history"), 0o755), syscall.Mkfifo(filepath.Join(folder, "history", "wiretap.ndjson"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, status := fenceproof(t, "recheck", folder); status != exitHarness || !strings.Contains(out, "wiretap.ndjson is no regular file") {
		t.Errorf("status %d:\n%s", status, out)
	}
	empty := t.TempDir()
	if err := os.Mkdir(filepath.Join(empty, "history"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"recheck", "transcript", "replay"} {
		if out, status := fenceproof(t, command, empty); status != exitUsage || !strings.Contains(out, "no file there has a header") {
			t.Errorf("%s: status %d:\n%s", command, status, out)
		}
	}
	pipe := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(pipe, "history"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, status := fenceproof(t, "recheck", pipe); status != exitUsage || !strings.Contains(out, "history is no folder") {
		t.Errorf("status %d:\n%s", status, out)
	}
}

func TestCleanFailsWhereItIsToFindNothingGoingOnAndSomethingIs(t *testing.T) {
	runs, bin := t.TempDir(), t.TempDir()
	clean := func() (string, int) {
		out, err := exec.Command(filepath.Join(bin, "fenceproof"), "clean", "--idle", "--runs", runs).CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return string(out), exit.ExitCode()
		}
		return string(out), 0
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(sleep)
	if err := errors.Join(err, os.WriteFile(filepath.Join(bin, "service"), program, 0o755), os.Link(filepath.Join(binaries, "fenceproof"), filepath.Join(bin, "fenceproof"))); err != nil {
		t.Fatal(err)
	}
	if out, status := clean(); status != 0 {
		t.Errorf("nothing is going on, status %d: %s", status, out)
	}
	folder := filepath.Join(runs, "20260101T000000.000Z-payout-pg-pause-1")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	mark, err := os.Create(filepath.Join(folder, ".in-use"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(mark.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if out, status := clean(); status != exitUsage || !strings.Contains(out, "a run is going on (20260101T000000.000Z-payout-pg-pause-1)") {
		t.Errorf("a run is going on, status %d: %s", status, out)
	}
	if err := mark.Close(); err != nil {
		t.Fatal(err)
	}
	service := exec.Command(filepath.Join(bin, "service"), "600")
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	out, status := clean()
	_, _ = service.Process.Kill(), service.Wait() // it was killed, and says so
	if status != exitUsage || !strings.Contains(out, "service is running") {
		t.Errorf("a service runs from the same folder, status %d: %s", status, out)
	}
	if out, status := clean(); status != 0 || !strings.Contains(out, "removed 0 runs") {
		t.Errorf("all is over, status %d: %s", status, out)
	}
}

func TestCleanRemovesOldRunsAndNothingElse(t *testing.T) {
	runs := t.TempDir()
	for _, d := range []string{"20260101T000000.000Z-payout-pg-pause-1", "20260102T000000.000Z-payout-pg-pause-2", "mine"} {
		if err := os.MkdirAll(filepath.Join(runs, d, "history"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out, status := fenceproof(t, "clean", "--runs", runs, "--keep", "1")
	if status != 0 || !strings.Contains(out, "removed 1 run") {
		t.Errorf("status %d: %s", status, out)
	}
	left, err := os.ReadDir(runs)
	if err != nil || len(left) != 2 || left[0].Name() != "20260102T000000.000Z-payout-pg-pause-2" || left[1].Name() != "mine" {
		t.Errorf("left: %v (%v)", left, err)
	}
}
