package payment_test

import "testing"

func TestAPayoutGoesFromPendingToPostedUnderOneToken(t *testing.T) {
	b := newBench(t)
	acct := b.account(1000, 0)
	p := b.payout(acct, 250, "PENDING", 0)

	a := b.want(b.send(claim(p, 41, "PENDING")), 200, "")
	if a.at("state") != "CLAIMED" || a.at("claimToken") != "41" || a.at("accountFence") != "40" || a.at("attemptCount") != "1" || a.at("accountId") != acct {
		t.Errorf("claim answered %s", a.raw)
	}
	if a := b.want(b.send(submitted(p, 41)), 200, ""); a.at("state") != "RAIL_SUBMITTED" {
		t.Errorf("submitted answered %s", a.raw)
	}
	if a := b.want(b.send(outcome(p, 41, acked)), 200, ""); a.at("state") != "RAIL_ACKED" {
		t.Errorf("outcome answered %s", a.raw)
	}
	a = b.want(b.send(post(p, 41)), 200, "")
	if a.at("state") != "POSTED" || a.at("balanceMinor") != "750" || len(a.body["entries"].([]any)) != 2 {
		t.Errorf("post answered %s", a.raw)
	}
	a = b.want(b.get("/v1/accounts/"+acct), 200, "")
	if a.at("balanceMinor") != "750" || a.at("fence") != "41" || a.at("ledgerSumMinor") != "-250" || a.at("currency") != "EUR" {
		t.Errorf("the account answered %s", a.raw)
	}
	a = b.want(b.get("/v1/payouts/"+p), 200, "")
	if a.at("state") != "POSTED" || a.at("claimedBy") != "executor-1" || a.at("claimToken") != "41" || a.at("idempotencyKey") != "payout-"+p {
		t.Errorf("the payout answered %s", a.raw)
	}
	a = b.want(b.get("/v1/payouts?accountId="+acct+"&state=PENDING,POSTED"), 200, "")
	if len(a.body["items"].([]any)) != 1 || a.at("nextCursor") != "" {
		t.Errorf("the list answered %s", a.raw)
	}
}
