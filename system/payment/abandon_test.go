package payment_test

import "testing"

// abandon is P8 as an operator's command sends it, under a grant that it took itself.
func abandon(payout string, token int64) request {
	return request{payout: payout, verb: "resolve", token: token, owner: "lockctl",
		body: `{"resolution":"ABANDONED","operator":"a.person","reason":"beneficiary closed the account"}`}
}

func TestAnOperatorAbandonsAPayoutThatNobodyBeganOrNobodyKnowsTheEndOf(t *testing.T) {
	for _, c := range []struct {
		state string
		held  int64
	}{{"PENDING", 0}, {"RAIL_AMBIGUOUS", 40}} {
		t.Run(c.state, func(t *testing.T) {
			b := newBench(t)
			acct := b.account(1000, 40)
			p := b.payout(acct, 800, c.state, c.held)
			next := b.payout(acct, 300, "PENDING", 0)

			b.want(b.send(abandon(p, 40)), 409, "FENCED_OUT")
			if a := b.want(b.send(abandon(p, 50)), 200, ""); a.at("state") != "ABANDONED" {
				t.Errorf("answered %s", a.raw)
			}
			got := b.row(`SELECT concat_ws('|', state, claimed_by, claim_token, outcome, operator, reason, evidence, token, rail_reference)
				FROM payout JOIN payout_resolution USING (payout_id) WHERE payout_id = $1`, p)
			if want := "ABANDONED|lockctl|50|ABANDONED|a.person|beneficiary closed the account|given up by a.person|50"; got != want {
				t.Errorf("stored %s\nwant   %s", got, want)
			}
			if got := b.row(`SELECT fence::text FROM account WHERE account_id = $1`, acct); got != "49" {
				t.Errorf("the fence is %s", got)
			}
			a := b.want(b.get("/v1/payouts/"+p), 200, "")
			if a.at("resolution", "outcome") != "ABANDONED" || a.at("resolution", "operator") != "a.person" || a.at("resolution", "reason") != "beneficiary closed the account" {
				t.Errorf("the payout answered %s", a.raw)
			}
			t.Run("and the same request again finds it done", func(t *testing.T) {
				b := b.in(t)
				b.want(b.send(abandon(p, 50)), 200, "")
				if n := b.row(`SELECT count(*)::text FROM payout_resolution WHERE payout_id = $1`, p); n != "1" {
					t.Errorf("%s resolutions", n)
				}
			})
			t.Run("and its funds are free again", func(t *testing.T) {
				b := b.in(t)
				b.want(b.send(claim(next, 51, "PENDING")), 200, "")
			})
			t.Run("and it stays abandoned", func(t *testing.T) {
				b := b.in(t)
				for _, r := range []request{claim(p, 60, "PENDING"), post(p, 61), abandon(p, 62),
					{payout: p, verb: "resolve", token: 63, body: `{"resolution":"ACKED","railReference":"rail-1"}`}} {
					b.want(b.send(r), 409, "PAYOUT_NOT_CLAIMABLE")
				}
			})
		})
	}
}
