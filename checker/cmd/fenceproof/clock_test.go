package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fenceproof/checker/verdict"
)

func TestWrongClocksChangeNobodysRightsAndAreSeenInEveryDirection(t *testing.T) {
	for name, args := range map[string][]string{
		"payouts on PostgreSQL": {"--duration", "16s", "--rate", "8"},
		"locks on PostgreSQL":   {"--workload", "lock", "--duration", "16s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, append([]string{"--nemesis", "clock", "--seed", "5"}, args...)...)
			if got := r.wait(); got != 0 {
				t.Fatalf("exit status %d", got)
			}
			awaitNobody(t, r.folder())
			v := r.verdict()
			leases := danger(v, "INV-06")
			for _, counter := range []string{"lockdb_ahead", "lockdb_behind", "refused_behind", "early_ends_judged"} {
				if leases[counter] == 0 {
					t.Errorf("INV-06 met no %s: %v", counter, leases)
				}
			}
			if v.Overall != verdict.Pass {
				t.Errorf("it is %s: %s", v.Overall, v.Reason)
			}
			log, err := os.ReadFile(filepath.Join(r.folder(), "history", "nemesis.ndjson"))
			if err != nil || !strings.Contains(string(log), "grants that would have lasted too long were revoked") {
				t.Errorf("nobody looked for what outlives a clock that was ahead, %v:\n%s", err, log)
			}
			for _, i := range v.Invariants {
				if i.ID == "LIN-01" && (i.Checked == 0 || i.Danger["after_clock"] == 0) {
					t.Errorf("LIN-01 checked %d operations and left out %d", i.Checked, i.Danger["after_clock"])
				}
			}
			if out, again := fenceproof(t, "recheck", r.folder()); again != 0 {
				t.Errorf("recheck ended with %d:\n%s", again, out)
			}
		})
	}
}
