package payment_test

import (
	"fmt"
	"testing"
)

// spelled differs from what an executor sends in spelling only.
var spelled = map[string]string{
	"claim": `{ "expectedState" : "PENDING" }`, "submitted": `{ }`, "outcome": `{"railReference":"rail-1","outcome":"ACKED"}`,
	"post": `{"railOutcome":"ACKED","submissionId":"0b9cd5c1-3b0e-4d43-8f2c-2a4c2f6f8a11","railReference":"rail-1"}`,
}

func TestTheSameRequestUnderTheSameTokenGetsTheSameAnswerAndNoSecondEffect(t *testing.T) {
	b := newBench(t)
	acct := b.account(1000, 0)
	p := b.payout(acct, 250, "PENDING", 0)
	var way []request
	var answers []string
	for _, r := range []request{claim(p, 41, "PENDING"), submitted(p, 41), outcome(p, 41, acked), post(p, 41)} {
		way = append(way, r)
		answers = append(answers, b.want(b.send(r), 200, "").raw)
		before := b.books(p)
		for i, again := range way { // all that went before, too: a late copy of each
			for _, body := range []string{again.body, spelled[again.verb]} {
				again.body = body
				if got := b.want(b.send(again), 200, "").raw; got != answers[i] {
					t.Errorf("%s again answered %s, at first %s", again.verb, got, answers[i])
				}
			}
		}
		if after := b.books(p); after != before {
			t.Errorf("replays changed\n%s to\n%s", before, after)
		}
	}
	for _, event := range []string{"payout_claimed", "payout_posted"} {
		if n := len(b.log.events(event, p)); n != 1 {
			t.Errorf("%s logged %d times", event, n)
		}
	}
	if n := len(b.log.events("fenced_out", p)); n != 0 {
		t.Errorf("a replay was logged as fenced out %d times", n)
	}
}

func TestAnotherBodyUnderAUsedTokenIsAConflict(t *testing.T) {
	b := newBench(t)
	acct := b.account(1000, 0)
	p := b.payout(acct, 250, "PENDING", 0)
	conflict := func(r request, body string) {
		t.Helper()
		before := b.books(p)
		r.body = body
		b.want(b.send(r), 422, "IDEMPOTENCY_CONFLICT")
		if after := b.books(p); after != before {
			t.Errorf("the conflict changed\n%s to\n%s", before, after)
		}
	}
	b.want(b.send(claim(p, 41, "PENDING")), 200, "")
	conflict(claim(p, 41, ""), `{"expectedState":"CLAIMED"}`)
	b.want(b.send(submitted(p, 41)), 200, "")
	b.want(b.send(outcome(p, 41, acked)), 200, "")
	conflict(outcome(p, 41, ""), `{"outcome":"REJECTED"}`)
	b.want(b.send(post(p, 41)), 200, "")
	conflict(post(p, 41), `{"railReference":"rail-2","submissionId":"0b9cd5c1-3b0e-4d43-8f2c-2a4c2f6f8a11","railOutcome":"ACKED"}`)
	if n := len(b.log.events("transition_refused", p)); n != 3 {
		t.Errorf("transition_refused logged %d times, want once per conflict", n)
	}
}

func TestARefusalIsNotRememberedButAFailedClaimIs(t *testing.T) {
	b := newBench(t)
	acct := b.account(100, 0)
	p, q := b.payout(acct, 250, "PENDING", 0), b.payout(acct, 50, "PENDING", 0)
	first := b.want(b.send(claim(p, 41, "PENDING")), 422, "INSUFFICIENT_FUNDS")
	if got := b.row(`SELECT concat_ws(' ', state, claim_token, attempt_count) FROM payout WHERE payout_id = $1`, p); got != "FAILED 41 1" {
		t.Errorf("the payout is %s", got)
	}
	if again := b.want(b.send(claim(p, 41, "PENDING")), 422, "INSUFFICIENT_FUNDS"); again.raw != first.raw {
		t.Errorf("again answered %s, at first %s", again.raw, first.raw)
	}
	if n := len(b.log.events("payout_failed", p)); n != 1 {
		t.Errorf("payout_failed logged %d times", n)
	}
	// The state moves on, so the refusal of before is not the answer of now.
	b.want(b.send(submitted(q, 41)), 409, "PAYOUT_NOT_CLAIMABLE")
	b.want(b.send(claim(q, 41, "PENDING")), 200, "")
	b.want(b.send(submitted(q, 41)), 200, "")
}

func TestAReplayIsAnsweredAfterTheFenceMovedOn(t *testing.T) {
	b := newBench(t)
	acct := b.account(1000, 0)
	p := b.payout(acct, 250, "PENDING", 0)
	first := b.want(b.send(claim(p, 41, "PENDING")), 200, "").raw
	b.want(b.send(claim(p, 50, "CLAIMED")), 200, "")
	if got := b.want(b.send(claim(p, 41, "PENDING")), 200, "").raw; got != first {
		t.Errorf("the replay answered %s, at first %s", got, first)
	}
	b.want(b.send(submitted(p, 41)), 409, "FENCED_OUT")
	if got := b.row(`SELECT claim_token::text FROM payout WHERE payout_id = $1`, p); got != "50" {
		t.Errorf("the claim is %s", got)
	}
}

func TestAHigherTokenThatFindsThePayoutPostedGetsTheEntriesAndWritesNothing(t *testing.T) {
	b := newBench(t)
	acct := b.account(250, 0) // after the post there is no money left: the work is done, not unaffordable
	p := b.payout(acct, 250, "RAIL_ACKED", 41)
	first := b.want(b.send(post(p, 41)), 200, "")
	before := b.books(p)
	for _, token := range []int64{42, 77} {
		a := b.want(b.send(post(p, token)), 200, "")
		if fmt.Sprint(a.body["entries"]) != fmt.Sprint(first.body["entries"]) || a.at("balanceMinor") != "0" {
			t.Errorf("answered %s, the post itself %s", a.raw, first.raw)
		}
	}
	if after := b.books(p); after != before {
		t.Errorf("it changed\n%s to\n%s", before, after)
	}
	if n := len(b.log.events("payout_posted", p)); n != 1 {
		t.Errorf("payout_posted logged %d times", n)
	}
}
