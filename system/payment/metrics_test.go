package payment_test

import (
	"regexp"
	"testing"
)

func (b *bench) metric(name, label string) float64 {
	b.Helper()
	families, err := b.reg.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	b.Fatalf("there is no metric %s", name)
	return 0
}

func TestFencedOutIsCountedPerResourceAndTheBacklogHasAnAge(t *testing.T) {
	b := newBench(t)
	acct := b.account(1000, 50)
	p := b.payout(acct, 250, "RAIL_ACKED", 41)
	b.exec(`UPDATE payout SET created_at = now() - interval '1 hour' WHERE payout_id = $1`, b.payout(acct, 250, "PENDING", 0))
	b.want(b.send(post(p, 41)), 409, "FENCED_OUT")
	b.want(b.send(submitted(p, 41)), 409, "FENCED_OUT")
	if n := b.metric("lock_fenced_out_total", "account"); n != 2 {
		t.Errorf("lock_fenced_out_total{account} is %v", n)
	}
	if n := b.metric("lock_fenced_out_total", "ledger"); n != 0 {
		t.Errorf("lock_fenced_out_total{ledger} is %v", n)
	}
	if age := b.metric("payout_backlog_age_seconds", ""); age < 3600 {
		t.Errorf("the oldest payout waits for %v s, want an hour at least", age)
	}
}

func TestNoLabelHoldsAKeyAnIDOrAToken(t *testing.T) {
	b := newBench(t)
	acct := b.account(1000, 50)
	b.want(b.send(claim(b.payout(acct, 250, "PENDING", 0), 41, "PENDING")), 409, "FENCED_OUT")
	families, err := b.reg.Gather()
	if err != nil || len(families) == 0 {
		t.Fatalf("%d metrics, %v", len(families), err)
	}
	word := regexp.MustCompile(`^[a-z_]+$`)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !word.MatchString(l.GetValue()) {
					t.Errorf("%s has the label %s=%q", f.GetName(), l.GetName(), l.GetValue())
				}
			}
		}
	}
}
