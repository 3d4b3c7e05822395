package reports

import (
	"fmt"
	"time"

	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// verdictOf is what the checker says of a scene.
func verdictOf(s scene, fencing string) verdict.Run {
	run := verdict.Run{
		Schema: verdict.SchemaVersion, ID: "20260304T050607.000Z-payout-pg-pause-7", Started: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Overall: verdict.Pass,
		Settings: verdict.Settings{Workload: "payout", Backend: "pg", Nemesis: "pause", Fencing: fencing, Seed: 7, Executors: 6, Accounts: 12, Rate: 20, Drive: 30 * time.Second, Drain: 15 * time.Second,
			Command:  "bin/fenceproof verify --nemesis pause --workload payout --backend pg --duration 30s --executors 6 --seed 7 --fencing " + fencing,
			Services: map[string]string{"LOCK_DEFAULT_TTL": "1s", "EXECUTOR_PREPARE": "50ms", "RAIL_PROXY_TIMEOUT": "200ms", "EXECUTOR_CONCURRENCY": "4"}},
		Versions:   map[string]string{"fenceproof": "devel", "go": "go1.26", "postgres": "16.14"},
		Payouts:    map[string]int64{"POSTED": s.posted},
		Refusals:   map[string]int64{"account": s.row, "rail": s.rail},
		Operations: map[string]int64{"acquire": s.posted + s.rail + s.row, "claim": s.posted + s.rail + s.row, "submit": s.posted + s.rail, "post": s.posted},
		Events:     int64(len(s.events)),
	}
	add := func(id, guarantee string, dangers map[string]int64) {
		run.Invariants = append(run.Invariants, verdict.Invariant{ID: id, Guarantee: guarantee, Status: verdict.Pass, Checked: s.posted * 5, Danger: dangers})
	}
	add("INV-01", "Per customer account, tokens of committed mutating transactions never go down in commit order.", map[string]int64{"takeovers": s.rail + s.row})
	add("INV-02", "Each payout moves money at most once.", map[string]int64{"stale_refused_rail": s.rail})
	add("INV-03", "After every commit the balance equals the opening balance plus the entries.", nil)
	add("INV-04", "Per key, tokens are unique and increase.", map[string]int64{"regrants": s.posted})
	add("INV-05", "At each fence point the stored mark never goes down and no stale request has an effect.", map[string]int64{"stale_refused_payment": s.row, "stale_refused_rail": s.rail})
	return run
}

// accuse turns the scene's second payments into violations of INV-02 and INV-05.
func accuse(run *verdict.Run, s scene) {
	find := func(match func(*history.Event) bool) (out []history.Event) {
		for i := range s.events {
			if match(&s.events[i]) {
				out = append(out, s.events[i])
			}
		}
		return out
	}
	for _, l := range s.lates {
		if l.second == nil {
			continue
		}
		events := find(func(e *history.Event) bool {
			return e.Payout == l.job.payout && (e.Op == history.OpMoney || e.Op == "submit" && e.Stage == history.Answered)
		})
		run.Invariants[1].Violations = append(run.Invariants[1].Violations, verdict.Violation{Payout: l.job.payout, Account: l.job.account, Events: events,
			Sentence: fmt.Sprintf("payout %s was paid twice: %s moved money under token %d after the holder of token %d had", short(l.job.payout), l.who, l.old, l.new)})
		marks := find(func(e *history.Event) bool {
			return len(e.Changes) > 0 && e.Changes[0].Table == "rail_high_water" && e.Changes[0].New["account_id"] == l.job.account &&
				(e.Changes[0].New["highest_token"] == num(l.old) || e.Changes[0].New["highest_token"] == num(l.new))
		})
		run.Invariants[4].Violations = append(run.Invariants[4].Violations, verdict.Violation{Account: l.job.account, Events: marks,
			Sentence: fmt.Sprintf("the rail's mark of account %s went down from %d to %d", short(l.job.account), l.new, l.old)})
	}
	for _, i := range []int{1, 4} {
		inv := &run.Invariants[i]
		inv.Status, inv.Found, inv.Reason = verdict.Violated, int64(len(inv.Violations)), inv.Violations[0].Sentence
		inv.Violations = inv.Violations[:min(len(inv.Violations), verdict.MaxViolations)]
	}
	run.Overall, run.Exit, run.Reason = verdict.Violated, 1, "INV-02 and INV-05 are violated"
	run.Invariants[1].Danger, run.Invariants[4].Danger["stale_refused_rail"] = map[string]int64{"stale_refused_rail": 0}, 0
	run.Refusals["rail"] = 0
}
