package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fenceproof/checker/verdict"
)

// twoFailovers are one in which commits wait in vain for a standby that hears nothing, and one of the server that was promoted
// then, whose standby hears everything.
const twoFailovers = `{"schema": 1, "workload": "payout", "backend": "pg", "nemesis": "script", "seed": 3, "executors": 3, "accounts": 4, "rate": 8,
  "drive": "16s", "prepare": "50ms", "together": 1, "steps": [
    {"fault": "failover", "target": "lockdb", "at": "1500ms", "delay": "300ms", "for": "500ms"},
    {"fault": "failover", "target": "lockdb", "at": "7s", "for": "300ms"}]}`

func TestAPromotedStandbyServesOnAndWhatItLacksIsTold(t *testing.T) {
	script := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(script, []byte(twoFailovers), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args      []string
		failovers int64
		stands    string // of the promoted server's sequence
		reason    string
		falls     string // what may, "" for nothing
	}{
		"every commit waits for it": {[]string{"--plan", script}, 2, `its sequence stands at \d+, no lower`, `INV-04, .* held`, ""},
		"nobody waits for it": {[]string{"--nemesis", "failover-async", "--workload", "lock", "--duration", "12s", "--seed", "3"}, 1,
			`its sequence stands at \d+, \d+ below that`, `1 promoted standby lacked \d+ tokens that had been answered, and the effects of \d+ answers in all`, "INV-04,LIVE-01"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, c.args...)
			if got := r.wait(); got != 0 {
				t.Fatalf("exit status %d", got)
			}
			awaitNobody(t, r.folder())
			v := r.verdict()
			if !regexp.MustCompile(c.reason).MatchString(v.Reason) {
				t.Errorf("the reason: %s", v.Reason)
			}
			for _, i := range v.Invariants {
				if i.Status == verdict.Violated && !strings.Contains(c.falls, i.ID) {
					t.Errorf("%s is violated: %s", i.ID, i.Violations[0].Sentence)
				}
			}
			met, lost := danger(v, "DUR-01"), c.falls != ""
			if met[verdict.Failovers] != c.failovers || met[verdict.StandbysBehind] == 0 || (met[verdict.AnswersUndone] > 0) != lost || (met[verdict.TokensLost] > 0) != lost {
				t.Errorf("DUR-01 met %v", met)
			}
			if across := danger(v, "INV-04")["regrants_across"]; across == 0 {
				t.Error("nobody was granted a key again after a failover")
			}
			log, err := os.ReadFile(filepath.Join(r.folder(), "history", "nemesis.ndjson"))
			if err != nil || !regexp.MustCompile(c.stands).Match(log) || strings.Count(string(log), "lockdb has a standby that follows") != int(c.failovers) {
				t.Errorf("the log of the nemesis says nothing of it (%v):\n%s", err, log)
			}
			if out, again := fenceproof(t, "recheck", r.folder()); again != 0 {
				t.Errorf("recheck ended with %d:\n%s", again, out)
			}
		})
	}
}
