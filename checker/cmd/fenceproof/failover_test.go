package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fenceproof/checker/verdict"
)

func TestAPromotedStandbyServesOnAndWhatItLacksIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		nemesis string
		told    string // of what the promoted server knows
		falls   string // what may, "" for nothing
	}{
		"every commit waits for it": {"failover", `tokens up to \d+ had been answered, and its sequence stands at \d+: none of them lost`, ""},
		"nobody waits for it":       {"failover-async", `tokens up to \d+ had been answered, and its sequence stands at \d+: \d+ tokens lost`, "INV-04,LIVE-01"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, "--nemesis", c.nemesis, "--workload", "lock", "--duration", "12s", "--seed", "3")
			if got := r.wait(); got != 0 {
				t.Fatalf("exit status %d", got)
			}
			awaitNobody(t, r.folder())
			for _, i := range r.verdict().Invariants {
				if i.Status == verdict.Violated && !strings.Contains(c.falls, i.ID) {
					t.Errorf("%s is violated: %s", i.ID, i.Violations[0].Sentence)
				}
				if n, asked := i.Danger["failovers"]; (i.ID == "INV-04" || i.ID == "DUR-01") && (!asked || n == 0) {
					t.Errorf("%s met no failover: %v", i.ID, i.Danger)
				}
			}
			log, err := os.ReadFile(filepath.Join(r.folder(), "history", "nemesis.ndjson"))
			if err != nil || !regexp.MustCompile(c.told).Match(log) || !strings.Contains(string(log), "lockdb has a standby that follows") {
				t.Errorf("the log of the nemesis says nothing of it (%v):\n%s", err, log)
			}
			if out, again := fenceproof(t, "recheck", r.folder()); again != 0 {
				t.Errorf("recheck ended with %d:\n%s", again, out)
			}
		})
	}
}
