package payment_test

import (
	"testing"

	"fenceproof/system/payment"

	"github.com/google/uuid"
)

func TestAPendingPayoutWaitsForWhatIsInFlight(t *testing.T) {
	for _, state := range []string{"CLAIMED", "RAIL_SUBMITTED", "RAIL_ACKED"} {
		t.Run(state, func(t *testing.T) {
			b := newBench(t)
			acct := b.account(1000, 0)
			inFlight, p := b.payout(acct, 100, state, 40), b.payout(acct, 100, "PENDING", 0)
			b.payout(acct, 100, "RAIL_AMBIGUOUS", 39) // holds its money and nobody up
			before := b.books(p)
			a := b.want(b.send(claim(p, 41, "PENDING")), 409, "PAYOUT_NOT_CLAIMABLE")
			if a.at("details", "blockingPayoutId") != inFlight {
				t.Errorf("answered %s, in flight is %s", a.raw, inFlight)
			}
			if after := b.books(p); after != before {
				t.Errorf("it changed\n%s to\n%s", before, after)
			}
			b.want(b.send(claim(inFlight, 41, state)), 200, "")
		})
	}
}

func TestOtherAccountsAndFinishedPayoutsBlockNothing(t *testing.T) {
	b := newBench(t)
	acct, other := b.account(100, 0), b.account(100, 0)
	b.payout(other, 100, "CLAIMED", 40)
	for _, state := range []string{"POSTED", "FAILED", "ABANDONED"} {
		b.payout(acct, 100, state, 40)
	}
	b.payout(acct, 100, "PENDING", 0)
	b.want(b.send(claim(b.payout(acct, 100, "PENDING", 0), 41, "PENDING")), 200, "")
}

func TestMoneyThatMayHaveMovedIsNotSpentTwice(t *testing.T) {
	b := newBench(t)
	acct := b.account(300, 0)
	b.payout(acct, 100, "RAIL_AMBIGUOUS", 39)
	b.payout(acct, 100, "RAIL_AMBIGUOUS", 39)
	enough, tooMuch := b.payout(acct, 100, "PENDING", 0), b.payout(acct, 101, "PENDING", 0)
	b.want(b.send(claim(tooMuch, 41, "PENDING")), 422, "INSUFFICIENT_FUNDS")
	b.want(b.send(claim(enough, 42, "PENDING")), 200, "")
	if got := b.row(`SELECT fence::text FROM account WHERE account_id = $1`, acct); got != "41" {
		t.Errorf("the fence is %s", got)
	}
}

func TestAPayoutInACurrencyThatTheAccountDoesNotHoldFailsBeforeTheRailIsAsked(t *testing.T) {
	b := newBench(t)
	p := b.payout(b.account(1000, 0), 100, "PENDING", 0)
	b.exec(`UPDATE payout SET currency = 'USD' WHERE payout_id = $1`, p)
	b.want(b.send(claim(p, 41, "PENDING")), 422, "INSUFFICIENT_FUNDS")
}

func TestAPostWithoutFundsIsAnErrorAndThePayoutStays(t *testing.T) {
	b := newBench(t)
	acct := b.account(249, 0)
	p := b.payout(acct, 250, "RAIL_ACKED", 41)
	before := b.books(p)
	b.want(b.send(post(p, 41)), 422, "INSUFFICIENT_FUNDS")
	if after := b.books(p); after != before {
		t.Errorf("it changed\n%s to\n%s", before, after)
	}
	if e := b.log.events("post_without_funds", p); len(e) != 1 || e[0]["level"] != "ERROR" {
		t.Errorf("logged %v", e)
	}
	b.exec(`UPDATE account SET balance_minor = 250 WHERE account_id = $1`, acct)
	b.want(b.send(post(p, 41)), 200, "") // the refusal was not remembered
}

func TestEveryPostingHasItsOtherSideOnAClearingAccount(t *testing.T) {
	b := newBench(t)
	used := map[string]bool{}
	for range 40 {
		acct := b.account(1000, 0)
		p := b.payout(acct, 250, "RAIL_ACKED", 41)
		b.want(b.send(post(p, 41)), 200, "")
		clearing := payment.ClearingAccount(uuid.MustParse(acct), "EUR").String()
		used[clearing] = true
		got := b.row(`SELECT string_agg(concat_ws(' ', account_id, direction, amount_minor, fence), ', ' ORDER BY direction) FROM ledger_entry WHERE payout_id = $1`, p)
		if want := clearing + " CREDIT 250 41, " + acct + " DEBIT 250 41"; got != want {
			t.Errorf("the legs are %s, want %s", got, want)
		}
	}
	if len(used) < 8 || len(used) > 16 {
		t.Errorf("40 accounts share %d clearing accounts; there are 16", len(used))
	}
	for clearing := range used {
		a := b.want(b.get("/v1/accounts/"+clearing), 200, "")
		if a.at("balanceMinor") != a.at("ledgerSumMinor") || a.at("fence") != "0" {
			t.Errorf("the clearing account answers %s", a.raw)
		}
	}
	eur, usd := payment.ClearingAccount(uuid.Nil, "EUR"), payment.ClearingAccount(uuid.Nil, "USD")
	if eur == usd || eur.String() != "62a2ebfb-ce74-5bc6-90dd-84771b9d5837" {
		t.Errorf("the clearing accounts of EUR and USD are %s and %s; an id once used must never change", eur, usd)
	}
}
