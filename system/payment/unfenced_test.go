package payment_test

import (
	"fmt"
	"testing"
)

// A stale executor was stopped after its outcome was accepted. Its successor took over and posted. Then it goes on.
func stalePost(b *bench) (acct, p string) {
	b.Helper()
	acct = b.account(1000, 0)
	p = b.payout(acct, 250, "PENDING", 0)
	b.want(b.send(claim(p, 41, "PENDING")), 200, "")
	b.want(b.send(submitted(p, 41)), 200, "")
	b.want(b.send(outcome(p, 41, acked)), 200, "")
	successor := claim(p, 43, "RAIL_ACKED")
	successor.owner = "executor-2"
	b.want(b.send(successor), 200, "")
	successor = post(p, 43)
	successor.owner = "executor-2"
	b.want(b.send(successor), 200, "")
	return acct, p
}

// accountLine is what INV-03 and INV-05 look at.
func (b *bench) accountLine(acct string) string {
	b.Helper()
	return b.row(`SELECT concat_ws(' ', balance_minor, 'fence', fence, 'entries',
		(SELECT sum(CASE direction WHEN 'CREDIT' THEN amount_minor ELSE -amount_minor END) FROM ledger_entry e WHERE e.account_id = a.account_id))
		FROM account a WHERE account_id = $1`, acct)
}

func TestWithFencingOnTheStaleExecutorsPostIsRefusedAtTheRow(t *testing.T) {
	b := newBench(t)
	acct, p := stalePost(b)
	a := b.want(b.send(post(p, 41)), 409, "FENCED_OUT")
	if a.at("details", "highestToken") != "43" {
		t.Errorf("answered %s", a.raw)
	}
	if got := b.accountLine(acct); got != "750 fence 43 entries -250" {
		t.Errorf("the account holds %s", got)
	}
}

// With fencing off the same request debits the account a second time without a second pair of legs (INV-03), takes the
// fence back (INV-05), and has an effect under a token older than one that was accepted before it (INV-01).
func TestWithFencingOffTheStaleExecutorsPostCorruptsTheBooks(t *testing.T) {
	b := newUnfencedBench(t)
	acct, p := stalePost(b)
	a := b.want(b.send(post(p, 41)), 200, "")
	if a.at("balanceMinor") != "500" || len(a.body["entries"].([]any)) != 2 {
		t.Errorf("answered %s", a.raw)
	}
	if got := b.accountLine(acct); got != "500 fence 41 entries -250" {
		t.Errorf("the account holds %s", got)
	}
	if got := b.row(`SELECT string_agg(DISTINCT fence::text, ',') FROM ledger_entry WHERE payout_id = $1`, p); got != "43" {
		t.Errorf("the legs carry tokens %s, want the successor's alone", got)
	}
	if n := len(b.log.events("payout_posted", p)); n != 2 {
		t.Errorf("payout_posted logged %d times", n)
	}
}

func TestTheSwitchMayBeTurnedWhileAPayoutIsOnItsWay(t *testing.T) {
	on, off := newBench(t), newUnfencedBench(t)
	acct, p := stalePost(on)
	off.want(off.send(post(p, 41)), 200, "")
	if got := on.accountLine(acct); got != "500 fence 41 entries -250" {
		t.Errorf("the account holds %s", got)
	}
	q := on.payout(acct, 100, "PENDING", 0)
	on.want(on.send(claim(q, 41, "PENDING")), 409, "FENCED_OUT")
	on.want(on.send(claim(q, 44, "PENDING")), 200, "")
}

func TestWithFencingOffTokensDecideNothingAndStatesStillDo(t *testing.T) {
	b := newUnfencedBench(t)
	for _, state := range allStates {
		for _, token := range []int64{fence - 1, fence, fence + 1} {
			for _, held := range claimTokens(state, token) {
				for _, v := range verbs {
					t.Run(fmt.Sprintf("%s %s in %s claimed by %d under %d", v.verb, v.body, state, held, token), func(t *testing.T) {
						judgeUnfenced(b.in(t), state, held, request{verb: v.verb, body: v.body, token: token})
					})
				}
			}
		}
	}
}

func judgeUnfenced(b *bench, state string, held int64, r request) {
	acct := b.account(1000, fence)
	r.payout = b.payout(acct, 250, state, held)
	if state == "POSTED" {
		b.legs(acct, r.payout, 250, held)
	}
	before := b.books(r.payout)
	to := allowed[r.verb+" "+r.body][state]
	if r.verb == "post" && state == "POSTED" {
		to = "POSTED"
	}
	if to == "" {
		b.want(b.send(r), 409, "PAYOUT_NOT_CLAIMABLE")
		if after := b.books(r.payout); after != before {
			b.Errorf("a request without effect changed\n%s to\n%s", before, after)
		}
		return
	}
	b.want(b.send(r), 200, "")
	if got := b.row(`SELECT state FROM payout WHERE payout_id = $1`, r.payout); got != to {
		b.Errorf("stored %s, want %s", got, to)
	}
	b.checkFence(acct, r)
	if r.verb == "post" {
		if got := b.row(`SELECT balance_minor::text FROM account WHERE account_id = $1`, acct); got != "750" {
			b.Errorf("the balance is %s, want 750", got)
		}
	}
}
