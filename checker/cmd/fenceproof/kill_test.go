package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"fenceproof/checker/verdict"
)

func TestWhatIsKilledComesBackAndNothingThatWasAnsweredIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		kills map[string]string // by invariant, the counter that must have been met
	}{
		"payouts on PostgreSQL": {[]string{"--seed", "1", "--duration", "15s", "--rate", "8"},
			map[string]string{"INV-03": "kills_in_post", "INV-04": "kills_after_grant", "INV-06": "kills_holding", "DUR-01": "kills_of_stores"}},
		"locks on three members of etcd": {[]string{"--workload", "lock", "--backend", "etcd", "--etcd-members", "3", "--seed", "1", "--duration", "15s"},
			map[string]string{"INV-04": "kills_after_grant", "INV-06": "kills_holding", "DUR-01": "kills_of_stores"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, append([]string{"--nemesis", "kill"}, c.args...)...)
			if got := r.wait(); got != 0 {
				t.Fatalf("exit status %d", got)
			}
			awaitNobody(t, r.folder())
			met := map[string]map[string]int64{}
			for _, i := range r.verdict().Invariants {
				met[i.ID] = i.Danger
			}
			for id, counter := range c.kills {
				if met[id][counter] == 0 {
					t.Errorf("%s met no %s: %v", id, counter, met[id])
				}
			}
			log, err := os.ReadFile(filepath.Join(r.folder(), "history", "nemesis.ndjson"))
			if seen, healed := strings.Count(string(log), `"phase":"seen"`), strings.Count(string(log), `"phase":"healed"`); err != nil || seen == 0 || seen != healed {
				t.Errorf("%v; %d kills were seen and %d healed", err, seen, healed)
			}
		})
	}
}

// dead is a plan in which paydb is dead for a long time.
const dead = `{"schema": 1, "workload": "payout", "backend": "pg", "nemesis": "script", "seed": 1, "executors": 2, "accounts": 2, "rate": 2,
  "drive": "20s", "prepare": "50ms", "together": 1, "steps": [{"fault": "kill", "target": "paydb", "at": "1s", "for": "15s"}]}`

func TestAHarnessThatIsInterruptedWhileADatabaseIsDeadStartsItAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, []byte(dead), 0o644); err != nil {
		t.Fatal(err)
	}
	r := start(t, "--plan", file)
	r.awaitLine("now kill paydb")
	signalTo(t, r, syscall.SIGINT)
	status := r.wait()
	awaitNobody(t, r.folder())
	out, again := fenceproof(t, "recheck", r.folder())
	log, err := os.ReadFile(filepath.Join(r.folder(), "history", "nemesis.ndjson"))
	if err != nil || again != status || !strings.Contains(out, "interrupted") || !strings.Contains(string(log), `"phase":"healed"`) {
		t.Errorf("%v; exit status %d; recheck ended with %d:\n%s\nthe log of the nemesis:\n%s", err, status, again, out, log)
	}
}

// pidOf is the process of the run that writes a log of that name.
func (r *running) pidOf(name string) int {
	r.t.Helper()
	out, err := filepath.Glob("/proc/*/fd/1")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, fd := range out {
		if to, err := os.Readlink(fd); err == nil && to == filepath.Join(r.folder(), "logs", name+".log") {
			if pid, err := strconv.Atoi(strings.Split(fd, "/")[2]); err == nil {
				return pid
			}
		}
	}
	r.t.Fatalf("nobody writes the log of %s", name)
	return 0
}

func TestARunWhoseServiceEndsByItselfIsNoPassAndSaysSo(t *testing.T) {
	t.Parallel()
	r := start(t, "--nemesis", "none", "--duration", "4s", "--rate", "5")
	r.awaitLine("offering payouts")
	if err := syscall.Kill(r.pidOf("executor-6"), syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	if got := r.wait(); got != 2 {
		t.Errorf("exit status %d", got)
	}
	awaitNobody(t, r.folder())
	const words = "executor-6 ended by itself (exit status 2); logs/executor-6.log says more"
	if v := r.verdict(); v.Overall != verdict.Inconclusive || !strings.Contains(v.Reason, words) {
		t.Errorf("%s: %s", v.Overall, v.Reason)
	}
	if out, status := fenceproof(t, "recheck", r.folder()); status != 2 || !strings.Contains(out, words) {
		t.Errorf("recheck ended with %d:\n%s", status, out)
	}
	summary, err := os.ReadFile(filepath.Join(r.folder(), "summary.md"))
	if err != nil || !strings.Contains(string(summary), words) {
		t.Errorf("the summary: %v\n%s", err, summary)
	}
}
