package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

func TestAStoreThatIsPutBackByTheProcedureIssuesNothingTwice(t *testing.T) {
	for name, args := range map[string][]string{
		"payouts on PostgreSQL": {"--seed", "1", "--duration", "25s", "--rate", "8"},
		"locks on etcd":         {"--workload", "lock", "--backend", "etcd", "--seed", "1", "--duration", "20s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, append([]string{"--nemesis", "restore"}, args...)...)
			if got := r.wait(); got != 0 {
				t.Fatalf("exit status %d", got)
			}
			awaitNobody(t, r.folder())
			v := r.verdict()
			grants := danger(v, "INV-04")
			if v.Overall != verdict.Pass || grants["rewinds"] == 0 || grants["regrants_across"] == 0 || grants["issued_twice"] != 0 {
				t.Errorf("%s; INV-04 met %v", v.Overall, grants)
			}
			healed := phase(t, r.folder(), "healed")
			if !strings.Contains(healed.Msg, "restore-guard moved the store from token") || !strings.Contains(healed.Msg, "clients are granted keys again") {
				t.Errorf("the log of the nemesis says %q", healed.Msg)
			}
			if _, err := os.Stat(filepath.Join(r.folder(), "data")); !os.IsNotExist(err) {
				t.Errorf("the stores' folders are still there after a pass: %v", err)
			}
		})
	}
}

func TestAStoreThatIsPutBackAsItIsIssuesTokensTwiceAndTheRunSaysWhichAndToWhom(t *testing.T) {
	for name, args := range map[string][]string{
		"payouts on etcd":     {"--backend", "etcd", "--seed", "1", "--duration", "20s"},
		"locks on PostgreSQL": {"--workload", "lock", "--seed", "1", "--duration", "20s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, append([]string{"--nemesis", "restore-unguarded"}, args...)...)
			if got := r.wait(); got != 0 {
				t.Fatalf("exit status %d", got)
			}
			v := r.verdict()
			if v.Overall != verdict.Violated || v.Expect == nil || v.Expect.DeclaredBy != "restore-unguarded" || !v.Expect.Met {
				t.Errorf("%s, expected %+v", v.Overall, v.Expect)
			}
			if !strings.Contains(v.Reason, "issued twice, by a lock store that was put back to an older state") || !strings.Contains(v.Reason, " and again to ") {
				t.Errorf("the reason: %s", v.Reason)
			}
			out, again := fenceproof(t, "recheck", r.folder())
			if again != 0 || !strings.Contains(out, "VIOLATED AS DECLARED") {
				t.Errorf("recheck ended with %d:\n%s", again, out)
			}
		})
	}
}

// The operator's program is the system's: that it fails is no failure of the harness, which would end a soak. Nobody is let in all
// the same, and the stores stay for whoever has to look at them.
func TestAGuardThatFailsMakesTheRunInconclusiveInItsOwnWords(t *testing.T) {
	t.Parallel()
	r := startIn(t, withBroken(t, "lockctl", "#!/bin/sh\necho it forgets how >&2\nexit 1\n"), "--nemesis", "restore", "--seed", "1", "--duration", "12s", "--rate", "8")
	if got := r.wait(); got != verdict.ExitOpen {
		t.Errorf("exit status %d", got)
	}
	awaitNobody(t, r.folder())
	const words = "nobody is let in, as the store may grant tokens a second time: lockctl restore-guard: exit status 1: it forgets how; "
	if v := r.verdict(); v.Overall != verdict.Inconclusive || v.Harness != "" || !strings.Contains(v.Reason, words) {
		t.Errorf("%s, the harness: %q, the reason: %s", v.Overall, v.Harness, v.Reason)
	}
	if out, again := fenceproof(t, "recheck", r.folder()); again != verdict.ExitOpen || !strings.Contains(out, words) {
		t.Errorf("recheck ended with %d:\n%s", again, out)
	}
	if _, err := os.Stat(filepath.Join(r.folder(), "data")); err != nil {
		t.Errorf("what the guard has left is gone: %v", err)
	}
}

// late is a plan in which a backup is kept for a long time before it is needed.
const late = `{"schema": 1, "workload": "payout", "backend": "pg", "nemesis": "script", "seed": 1, "executors": 2, "accounts": 2, "rate": 2,
  "drive": "40s", "prepare": "50ms", "together": 1, "steps": [{"fault": "restore", "target": "lock-store", "at": "500ms", "delay": "30s", "for": "2s"}]}`

func TestAHarnessThatIsKilledLeavesNoBackup(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, []byte(late), 0o644); err != nil {
		t.Fatal(err)
	}
	r := start(t, "--plan", file)
	r.awaitLine("offering payouts")
	data, err := filepath.EvalSymlinks(filepath.Join(r.folder(), "data", "lockdb"))
	if err != nil {
		t.Fatal(err)
	}
	backup := data + ".backup"
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) { // the pause between two looks at the condition
		if _, err := os.Stat(backup); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("no backup was made: %v", err)
		}
	}
	signalTo(t, r, syscall.SIGKILL)
	r.wait()
	awaitNobody(t, r.folder())
	for _, name := range []string{data, backup} {
		if _, err := os.Lstat(name); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
}

func danger(v *verdict.Run, id string) map[string]int64 {
	for _, i := range v.Invariants {
		if i.ID == id {
			return i.Danger
		}
	}
	return nil
}

// phase is the first event of that phase in the log of the nemesis.
func phase(t *testing.T, folder, name string) (e history.Event) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(folder, "history", "nemesis.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, `"phase":"`+name+`"`) {
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			return e
		}
	}
	t.Fatalf("nothing in the log of the nemesis is %s:\n%s", name, log)
	return e
}

func TestWhereTheLockStoreIsPutBackMoreHoldersDieUnlessSomebodySaysHowMany(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--nemesis", "restore"}, `"lapses": 0.08`},
		{[]string{"--nemesis", "pause,restore-unguarded", "--backend", "etcd"}, `"lapses": 0.08`},
		{[]string{"--nemesis", "restore", "--lapses", "0.02"}, `"lapses": 0.02`},
		{[]string{"--nemesis", "kill"}, `"lapses": 0.02`},
	} {
		out, status := fenceproof(t, append([]string{"verify", "--plan-only", "--workload", "lock", "--seed", "1"}, c.args...)...)
		if status != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit status %d, and the plan is\n%.500s", c.args, status, out)
		}
	}
}
