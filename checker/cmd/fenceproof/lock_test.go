package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"fenceproof/checker/verdict"
)

func TestLockClientsThatWereStoppedAreToldThatTheyHaveLostTheirKeys(t *testing.T) {
	r := start(t, "--workload", "lock", "--nemesis", "pause", "--seed", "3", "--duration", "7s", "--lapses", "0.08")
	if got := r.wait(); got != 0 {
		t.Fatalf("exit status %d", got)
	}
	v := r.verdict()
	var judged []string
	for _, i := range v.Invariants {
		judged = append(judged, i.ID)
		if i.ID == "INV-06" && i.Danger["woken_refused"] == 0 {
			t.Errorf("nobody woke up without its key: %v", i.Danger)
		}
	}
	if v.Overall != verdict.Pass || slices.Contains(judged, "INV-02") || !slices.Contains(judged, "INV-04") || len(v.Payouts) > 0 {
		t.Errorf("overall %s, judged %v, payouts %v", v.Overall, judged, v.Payouts)
	}
	if n := v.Operations["acquire"]; n < 100 {
		t.Errorf("a key was asked for %d times", n)
	}
	logs, err := filepath.Glob(filepath.Join(r.folder(), "logs", "*"))
	if err != nil || len(logs) < 6+4 { // the clients, operator, sweeper, lock-server and lockdb
		t.Errorf("logs of %v (%v)", logs, err)
	}
	for _, l := range logs {
		if name := filepath.Base(l); strings.HasPrefix(name, "pay") || strings.HasPrefix(name, "executor") || strings.HasPrefix(name, "rail") {
			t.Errorf("a lock run started %s", name)
		}
	}
	out, status := fenceproof(t, "recheck", "--json", r.folder())
	before, err := os.ReadFile(filepath.Join(r.folder(), "verdict.json"))
	if err != nil || status != 0 || strings.TrimSpace(out) != strings.TrimSpace(string(before)) {
		t.Errorf("recheck ended with %d (%v) and printed\n%.2000s", status, err, out)
	}
	if s, err := os.Stat(filepath.Join(r.folder(), "report.html")); err != nil || s.Size() == 0 {
		t.Errorf("the report: %v", err)
	}
	throughJepsen(t, r.folder())
}

// throughJepsen exports a run for Jepsen and imports it again: LIN-01 says the same of it, from what clients were told alone, and
// nothing else is said.
func throughJepsen(t *testing.T, run string) {
	t.Helper()
	edn, back := filepath.Join(t.TempDir(), "history.edn"), filepath.Join(t.TempDir(), "back")
	for _, args := range [][]string{{"export", run, "--out", edn}, {"import", edn, "--into", back, "--reentrant"}} {
		if out, status := fenceproof(t, args...); status != 0 {
			t.Fatalf("%v ended with %d:\n%s", args, status, out)
		}
	}
	statuses := func(dir string) map[string]verdict.Status {
		out, _ := fenceproof(t, "recheck", "--json", dir)
		var v verdict.Run
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatalf("%v:\n%.500s", err, out)
		}
		all := map[string]verdict.Status{}
		for _, inv := range v.Invariants {
			all[inv.ID] = inv.Status
		}
		return all
	}
	was, is := statuses(run), statuses(back)
	for id, s := range is {
		if want := map[bool]verdict.Status{true: was[id], false: verdict.NotExercised}[id == "LIN-01"]; s != want {
			t.Errorf("%s was %s with all witnesses and is %s by the answers alone", id, was[id], s)
		}
	}
	if is["LIN-01"] != verdict.Pass {
		t.Errorf("LIN-01 is %s", is["LIN-01"])
	}
}

func TestNothingOfALockRunIsLeftWhenItsHarnessIsKilledWhileAClientIsStopped(t *testing.T) {
	t.Parallel()
	r := start(t, "--workload", "lock", "--nemesis", "pause", "--seed", "5", "--duration", "60s")
	r.awaitLine("now pause lock-client")
	signalTo(t, r, syscall.SIGKILL)
	if got := r.wait(); got != -1 {
		t.Errorf("exit status %d", got)
	}
	awaitNobody(t, r.folder())
}

func TestALockRunThatIsInterruptedGivesEveryKeyBackAndIsJudged(t *testing.T) {
	t.Parallel()
	r := start(t, "--workload", "lock", "--nemesis", "pause", "--seed", "4", "--duration", "60s")
	r.awaitLine("now pause")
	signalTo(t, r, syscall.SIGINT)
	if got := r.wait(); got != 2 { // what was judged held, and what was asked for was not done
		t.Errorf("exit status %d", got)
	}
	awaitNobody(t, r.folder())
	if v := r.verdict(); v.Harness != "" || !strings.Contains(v.Reason, "interrupted") {
		t.Errorf("harness %q, %s", v.Harness, v.Reason)
	}
}

func TestFlagsOfAnotherWorkloadAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"fences where there are none":    {[]string{"--workload", "lock", "--fencing", "off"}, "--fencing says something of payouts"},
		"a control of locks":             {[]string{"--workload", "lock", "--control"}, "--control says something of payouts"},
		"executors of locks":             {[]string{"--workload", "lock", "--executors", "4"}, "--executors says something of payouts"},
		"clients of payouts":             {[]string{"--clients", "4"}, "--clients is for --workload lock"},
		"one client alone":               {[]string{"--workload", "lock", "--clients", "1"}, "at least 2"},
		"no keys":                        {[]string{"--workload", "lock", "--keys", "0"}, "keys is 0; 1 to 1000"},
		"a plan of payouts run as locks": {[]string{"--plan", "../../../docs/experiment/plan.json", "--workload", "lock"}, `leave "executors" out`},
		"a mistyped workload":            {[]string{"--workload", "lok"}, `did you mean "lock"?`},
	} {
		t.Run(name, func(t *testing.T) {
			out, status := fenceproof(t, append([]string{"verify"}, c.args...)...)
			if status != exitUsage || !strings.Contains(out, c.want) {
				t.Errorf("status %d, want %d and %q:\n%s", status, exitUsage, c.want, out)
			}
		})
	}
}

func TestAPrintedLockPlanReadsBack(t *testing.T) {
	out, status := fenceproof(t, "verify", "--workload", "lock", "--nemesis", "pause", "--seed", "7", "--clients", "3", "--plan-only")
	if status != 0 {
		t.Fatal(out)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
	if again, status := fenceproof(t, "verify", "--plan", file, "--plan-only"); status != 0 || again != out {
		t.Errorf("status %d, and it came back as\n%s", status, again)
	}
	other, status := fenceproof(t, "verify", "--plan", file, "--keys", "2", "--plan-only")
	if status != 0 || strings.Replace(other, `"keys": 2`, `"keys": 4`, 1) != out {
		t.Errorf("status %d, and with other keys it came back as\n%s", status, other)
	}
}

func TestWhatALockClientCannotDoIsWrongUsage(t *testing.T) {
	if out, status := fenceproof(t, "lock-client", `{"role":"thief"}`); status != exitUsage || !strings.Contains(out, "has a role") {
		t.Errorf("status %d: %s", status, out)
	}
}
