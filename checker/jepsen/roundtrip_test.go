package jepsen_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"fenceproof/checker/history"
	"fenceproof/checker/jepsen"
	"fenceproof/checker/linear"
	"fenceproof/checker/synthetic"
	"fenceproof/checker/verdict"
)

// recorded is a history with the log of its lock's store, and LIN-01's verdict on it.
func recorded(t *testing.T, o synthetic.Options) (string, verdict.Invariant) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), jepsen.HistoryDir)
	if _, err := synthetic.Write(dir, o); err != nil {
		t.Fatal(err)
	}
	s := locks
	s.Backend = o.Backend
	inv, err := linear.Judge(t.Context(), dir, s, nil, linear.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return dir, inv
}

// there exports the history in dir and imports it again.
func there(t *testing.T, dir string) string {
	t.Helper()
	back, _ := imported(t, exported(t, dir, jepsen.ExportOptions{}), jepsen.ImportOptions{Reentrant: true})
	return back
}

func TestAHealthyHistoryIsHealthyWhenJepsenGivesItBack(t *testing.T) {
	for seed := range uint64(12) {
		for _, o := range []synthetic.Options{
			{Seed: seed, Events: 1500, Workload: "lock", Backend: "pg"}, {Seed: seed, Events: 1500, Workload: "lock", Backend: "etcd"},
			{Seed: seed, Events: 1500, Executors: 4, Accounts: 3, Backend: "pg"}, {Seed: seed, Events: 900, Workload: "lock", Restore: true},
		} {
			t.Run(fmt.Sprint(seed, o.Workload, o.Backend), func(t *testing.T) {
				t.Parallel()
				dir, with := recorded(t, o)
				without := judge(t, there(t, dir))
				if with.Status != verdict.Pass || without.Status != verdict.Pass {
					t.Errorf("with its log it is judged %q, without %q (%s)", story(with), story(without), without.Reason)
				}
				if without.Danger["contended"] == 0 && o.Workload == "lock" {
					t.Error("nobody was refused, so that was not judged")
				}
			})
		}
	}
}

// What the answers alone prove is found without the log as well; that a lease was renewed after its end, they do not tell.
func TestAViolationThatTheAnswersShowIsFoundWhenJepsenGivesItBack(t *testing.T) {
	for _, v := range []synthetic.Violation{synthetic.RepeatedToken, synthetic.LowerToken, synthetic.GrantWhileHeld, synthetic.EarlyEnd} {
		for _, backend := range []string{"pg", "etcd"} {
			for seed := range uint64(3) {
				t.Run(fmt.Sprint(v, backend, seed), func(t *testing.T) {
					t.Parallel()
					dir, with := recorded(t, synthetic.Options{Seed: seed, Events: 600, Workload: "lock", Backend: backend, Violation: v})
					without := judge(t, there(t, dir))
					if with.Status != verdict.Violated || without.Status != verdict.Violated || without.Violations[0].Key != with.Violations[0].Key {
						t.Errorf("with its log it is judged %q, without %q", story(with), story(without))
					}
				})
			}
		}
	}
}

func TestNothingOfALockIsLostOnTheWayToJepsenAndBack(t *testing.T) {
	dir, _ := recorded(t, synthetic.Options{Seed: 5, Events: 1500, Workload: "lock"})
	once := exported(t, dir, jepsen.ExportOptions{})
	back, _ := imported(t, once, jepsen.ImportOptions{})
	again := exported(t, back, jepsen.ExportOptions{})
	bare := func(text string) string { // but for the names of the processes, which are Jepsen's then
		var out []string
		for line := range strings.Lines(text) {
			head, rest, _ := strings.Cut(line, ", :node ")
			_, tail, _ := strings.Cut(rest, `"`)
			_, tail, _ = strings.Cut(tail, `"`)
			_, f, _ := strings.Cut(head, ", :f ")
			out = append(out, f+tail)
		}
		return strings.Join(out, "\n")
	}
	if a, b := strings.Split(bare(once), "\n"), strings.Split(bare(again), "\n"); len(a) != len(b) {
		t.Errorf("%d operations went, %d came", len(a), len(b))
	} else {
		for i := range a {
			if a[i] != b[i] {
				t.Fatalf("operation %d was\n%s\nand is\n%s", i, a[i], b[i])
			}
		}
	}
}

func TestOneLockIsExportedForAModelThatKnowsNoKeys(t *testing.T) {
	dir, _ := recorded(t, synthetic.Options{Seed: 5, Events: 600, Workload: "lock"})
	text := exported(t, dir, jepsen.ExportOptions{Key: "key-1"})
	if !strings.Contains(text, `:f :acquire, :value {:client "`) || strings.Contains(text, "key-2") || strings.Contains(text, ":value [") {
		t.Errorf("%.600s", text)
	}
	open := map[string]bool{}
	for line := range strings.Lines(text) { // a process does one thing at a time, and none after an :info
		_, rest, _ := strings.Cut(line, ":process ")
		p, _, _ := strings.Cut(rest, ",")
		begins := strings.Contains(line, ":type :invoke")
		if begins == open[p] {
			t.Fatalf("process %s: %s", p, line)
		}
		open[p] = begins || strings.Contains(line, ":type :info")
	}
}

func TestAnExportOfAHistoryThatLacksAnswersIsRefused(t *testing.T) {
	dir, _ := recorded(t, synthetic.Options{Seed: 5, Events: 300, Workload: "lock"})
	cut(t, filepath.Join(dir, string(history.Wiretap)+".ndjson"))
	var out strings.Builder
	if _, err := jepsen.Export(dir, &out, jepsen.ExportOptions{}); err == nil || !strings.Contains(err.Error(), "the last line is torn") {
		t.Errorf("%v", err)
	}
}
