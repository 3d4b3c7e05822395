package run

import (
	"strings"
	"testing"

	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"
)

func unguarded() plan.Plan {
	return plan.Plan{Nemesis: plan.Script, Steps: []plan.Step{{Fault: plan.Pause}, {Fault: plan.RestoreUnguarded}}}
}

func TestAPlanThatBreaksSomethingOnPurposeDeclaresIt(t *testing.T) {
	if c := (Config{Plan: unguarded()}).expecting(); c.Expect == nil || c.Expect.String() != "INV-04,LIVE-01?" || c.Expect.DeclaredBy != "restore-unguarded" {
		t.Errorf("it declares %+v", c.Expect)
	}
	own := &verdict.Expectation{Must: []string{"INV-02"}}
	if c := (Config{Plan: unguarded(), Expect: own}).expecting(); c.Expect != own {
		t.Errorf("what was asked for became %+v", c.Expect)
	}
	named := plan.Plan{Nemesis: "pause,restore-unguarded", Steps: []plan.Step{{Fault: plan.Pause}}}
	if c := (Config{Plan: named}).expecting(); c.Expect == nil || c.Expect.DeclaredBy != "restore-unguarded" {
		t.Errorf("a plan of that name without such a step declares %+v, so that it would pass", c.Expect)
	}
	p := unguarded()
	p.Steps[1].Fault = plan.Restore
	if c := (Config{Plan: p}).expecting(); c.Expect != nil {
		t.Errorf("a restore by the procedure declares %+v", c.Expect)
	}
}

// Where there is no fence nobody waits for tokens to come past one; where there is, that excuses no other lateness.
func TestNobodyIsExcusedForBeingLateWhereNoFenceHoldsHimUp(t *testing.T) {
	late := func(across int64) []verdict.Invariant {
		return []verdict.Invariant{{ID: "INV-04", Status: verdict.Violated, Found: 1, Across: 1}, {ID: "LIVE-01", Status: verdict.Violated, Found: 2, Across: across}}
	}
	for _, fault := range []plan.Fault{plan.RestoreUnguarded, plan.FailoverAsync} {
		for _, c := range []struct {
			workload string
			across   int64
			exit     int
		}{
			{plan.PayoutWorkload, 2, verdict.ExitPass},
			{plan.PayoutWorkload, 1, verdict.ExitViolated},
			{plan.LockWorkload, 2, verdict.ExitViolated},
			{plan.LockWorkload, 0, verdict.ExitViolated},
		} {
			v := verdict.Run{Expect: Declared(plan.Plan{Workload: c.workload, Nemesis: string(fault)}), Invariants: late(c.across)}
			if v.Conclude(); v.Exit != c.exit || c.exit == verdict.ExitViolated && !strings.Contains(v.Reason, "LIVE-01") {
				t.Errorf("%s, %s, %d of 2 across: exit %d, because %q", fault, c.workload, c.across, v.Exit, v.Reason)
			}
		}
	}
}

// A run whose nemesis declares what it breaks is told from one that broke, and from one in which nothing did.
func TestWhatIsDeclaredAndFoundIsNoFailure(t *testing.T) {
	const sentence = "2 tokens were issued twice"
	for _, c := range []struct {
		name     string
		statuses map[string]verdict.Status // of what did not pass
		exit     int
		says     string
	}{
		{"found", map[string]verdict.Status{"INV-04": verdict.Violated}, verdict.ExitPass, "VIOLATED AS DECLARED: violated as restore-unguarded declares (INV-04,LIVE-01?): " + sentence},
		{"found, with what may fall", map[string]verdict.Status{"INV-04": verdict.Violated, "LIVE-01": verdict.Violated}, verdict.ExitPass, "VIOLATED AS DECLARED: "},
		{"not found", nil, verdict.ExitOpen, "NOT AS DECLARED: INV-04 not violated, although restore-unguarded breaks it on purpose"},
		{"found, and something else", map[string]verdict.Status{"INV-04": verdict.Violated, "INV-02": verdict.Violated}, verdict.ExitViolated, "NOT AS DECLARED: INV-02 violated"},
		{"found, and something is not known", map[string]verdict.Status{"INV-04": verdict.Violated, "INV-02": verdict.Inconclusive}, verdict.ExitOpen, "NOT AS DECLARED: "},
	} {
		v := verdict.Run{Expect: Declared(unguarded())}
		for _, id := range []string{"INV-02", "INV-04", "LIVE-01"} {
			inv := verdict.Invariant{ID: id, Status: verdict.Pass}
			if s, ok := c.statuses[id]; ok {
				inv.Status = s
			}
			if inv.Status == verdict.Violated {
				inv.Found, inv.Violations = 1, []verdict.Violation{{Sentence: sentence}}
				if id == "INV-04" || id == "LIVE-01" {
					inv.Across = 1
				}
			}
			v.Invariants = append(v.Invariants, inv)
		}
		v.Conclude()
		var out strings.Builder
		if err := Print(&out, &v, true); err != nil {
			t.Fatal(err)
		}
		if v.Exit != c.exit || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: exit status %d, and it prints %s", c.name, v.Exit, out.String())
		}
	}
}
