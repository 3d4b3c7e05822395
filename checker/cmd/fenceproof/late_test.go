package main

import (
	"path/filepath"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/verdict"
)

// A holder's link is held until his successor was accepted and then delivers what he had sent: it arrives long after he has
// given it up, and after his lease.
func TestAWriteThatIsDeliveredAfterItsLeaseIsRefusedAtTheFenceAndWithoutTheFenceItIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		plan, fencing string
		refused       string // where
		expect        string // what falls
	}{
		"a submit, refused": {"late-submit.json", "on", "rail", ""},
		"a submit, paid":    {"late-submit.json", "rail-off", "", "INV-02,INV-05"},
		"a post, refused":   {"late-post.json", "on", "account", ""},
		"a post, booked":    {"late-post.json", "payment-off", "", "INV-01,INV-03,INV-05"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--plan", filepath.Join("..", "..", "..", "docs", "experiment", c.plan), "--fencing", c.fencing}
			if c.expect != "" {
				args = append(args, "--expect", c.expect)
			}
			r := start(t, args...)
			if got := r.wait(); got != 0 {
				t.Fatalf("exit status %d", got)
			}
			v := r.verdict()
			if v.Payouts[string(contract.Posted)] != 1 {
				t.Errorf("payouts %v", v.Payouts)
			}
			if c.expect == "" && (v.Overall != verdict.Pass || v.Refusals[c.refused] != 1 || len(v.Refusals) != 1) {
				t.Errorf("overall %s, refusals %v", v.Overall, v.Refusals)
			}
			if c.expect != "" && (v.Overall != verdict.Violated || !v.Expect.Met || len(v.Refusals) != 0) {
				t.Errorf("overall %s, expectation %+v, refusals %v", v.Overall, v.Expect, v.Refusals)
			}
		})
	}
}
