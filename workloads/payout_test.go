package workloads

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/deploy/postgres/postgrestest"
	"fenceproof/migrations"

	"github.com/jackc/pgx/v5/pgxpool"
)

// paydb is a paydb with the system's schema on a real PostgreSQL.
func paydb(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pg := postgrestest.Start(t)
	if err := pg.CreateDatabase(t.Context(), "paydb", "payapp"); err != nil {
		t.Fatal(err)
	}
	db, err := pgxpool.New(t.Context(), pg.URL("payapp", "paydb"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	files, err := migrations.PayDB.ReadDir("paydb")
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(files) { // by number: V10 comes after V9
		for _, f := range files {
			if !strings.HasPrefix(f.Name(), fmt.Sprintf("V%d__", n+1)) {
				continue
			}
			sql, err := migrations.PayDB.ReadFile("paydb/" + f.Name())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec(t.Context(), string(sql)); err != nil {
				t.Fatalf("%s: %v", f.Name(), err)
			}
		}
	}
	return db
}

// offered is a payout as it was inserted.
type offered struct {
	ID, Account, Key string
	Amount           int64
}

func all(t *testing.T, db *pgxpool.Pool) (out []offered) {
	t.Helper()
	rows, err := db.Query(t.Context(), "SELECT payout_id, account_id, idempotency_key, amount_minor FROM payout ORDER BY payout_id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var o offered
		if err := rows.Scan(&o.ID, &o.Account, &o.Key, &o.Amount); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

func run(t *testing.T, db *pgxpool.Pool, p *Payout) {
	t.Helper()
	if err := p.Open(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), db); err != nil {
		t.Fatal(err)
	}
}

func TestOneSeedOffersTheSamePayoutsToTheSameAccounts(t *testing.T) {
	load := func(seed uint64) []offered {
		db := paydb(t)
		run(t, db, &Payout{Seed: seed, Accounts: 3, Rate: 1000, Drive: 20 * time.Millisecond, Executors: 2})
		return all(t, db)
	}
	a, b, other := load(7), load(7), load(8)
	if len(a) != 20 || !reflect.DeepEqual(a, b) {
		t.Errorf("seed 7 offered\n%v\nand then\n%v", a, b)
	}
	if reflect.DeepEqual(a, other) {
		t.Error("seeds 7 and 8 offered the same")
	}
	for _, o := range a {
		if o.Key != "payout-"+o.ID || o.Amount < minAmount || o.Amount > maxAmount {
			t.Errorf("offered %+v", o)
		}
	}
}

func TestNoAccountRunsDryEvenIfEveryExecutorPostedEveryPayout(t *testing.T) {
	db := paydb(t)
	p := &Payout{Seed: 1, Accounts: 1, Rate: 1000, Drive: 50 * time.Millisecond, Executors: 6}
	run(t, db, p)
	var opening, sum int64
	if err := db.QueryRow(t.Context(), "SELECT (SELECT min(balance_minor) FROM account), (SELECT sum(amount_minor) FROM payout)").Scan(&opening, &sum); err != nil {
		t.Fatal(err)
	}
	if opening < 6*sum {
		t.Errorf("the account opens with %d, and six times all payouts are %d", opening, 6*sum)
	}
}

func TestAccountsAreOpenedWithWhatThePlanSaysWhereItSaysSo(t *testing.T) {
	db := paydb(t)
	run(t, db, &Payout{Seed: 1, Accounts: 2, Rate: 1000, Drive: 10 * time.Millisecond, Executors: 6, Funds: 9_999})
	var least, most int64
	if err := db.QueryRow(t.Context(), "SELECT min(balance_minor), max(balance_minor) FROM account").Scan(&least, &most); err != nil {
		t.Fatal(err)
	}
	if least != 9_999 || most != 9_999 {
		t.Errorf("accounts open with %d to %d minor units, and the plan says 9999", least, most)
	}
}

func TestALimitEndsTheOfferEarly(t *testing.T) {
	db := paydb(t)
	run(t, db, &Payout{Seed: 1, Accounts: 2, Rate: 1000, Drive: time.Second, Limit: 3, Executors: 2})
	if n := len(all(t, db)); n != 3 {
		t.Errorf("%d payouts were offered", n)
	}
}

func TestAPayoutThatCannotBeInsertedIsAnErrorAndAnInterruptionIsNone(t *testing.T) {
	db := paydb(t)
	p := &Payout{Seed: 1, Accounts: 1, Rate: 1000, Drive: time.Second, Executors: 2}
	if err := p.Open(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Run(ctx, db); err != nil {
		t.Errorf("interrupted: %v", err)
	}
	if _, err := db.Exec(t.Context(), "ALTER TABLE payout ADD CONSTRAINT none CHECK (false) NOT VALID"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), db); err == nil || !strings.Contains(err.Error(), "insert payout 1") {
		t.Errorf("got %v", err)
	}
}

func TestOpenPayoutsAreThoseThatAreNotAtTheirEnd(t *testing.T) {
	c := Counts{contract.Pending: 1, contract.Claimed: 2, contract.RailSubmitted: 4, contract.RailAcked: 8,
		contract.RailAmbiguous: 16, contract.Posted: 32, contract.Failed: 64, contract.Abandoned: 128}
	if got := c.Open(); got != 31 {
		t.Errorf("%d are open", got)
	}
}

func TestEveryAccountGetsTheSameShareInAnOrderOfTheSeeds(t *testing.T) {
	db := paydb(t)
	run(t, db, &Payout{Seed: 5, Accounts: 4, Rate: 1000, Drive: 82 * time.Millisecond, Executors: 2})
	share := map[string]int{}
	for _, o := range all(t, db) {
		share[o.Account]++
	}
	if len(share) != 4 {
		t.Errorf("%d of 4 accounts got a payout", len(share))
	}
	for account, n := range share {
		if n != 20 && n != 21 {
			t.Errorf("account %s got %d of 82 payouts", account, n)
		}
	}
}
