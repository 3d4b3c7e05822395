package workloads

import (
	"context"
	"testing"
	"time"
)

func TestTheClosedLoopKeepsAsManyPayoutsOpenAsItSays(t *testing.T) {
	db := paydb(t)
	p := &Payout{Seed: 1, Accounts: 3, Rate: 1, Drive: 1000 * time.Second, Executors: 1}
	if err := p.Open(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.KeepOpen(ctx, db, 10) }()
	open := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			counts, err := p.Count(t.Context(), db)
			if err != nil {
				t.Fatal(err)
			}
			if counts.Open() == 10 && len(all(t, db)) == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d are open of %d", counts.Open(), len(all(t, db)))
			}
		}
	}
	open(10)
	// Four come to their ends, and four new ones are offered.
	if _, err := db.Exec(t.Context(), "UPDATE payout SET state = 'FAILED' WHERE payout_id IN (SELECT payout_id FROM payout LIMIT 4)"); err != nil {
		t.Fatal(err)
	}
	open(14)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("interrupted: %v", err)
	}
}

func TestAClosedLoopThatCannotInsertIsAnError(t *testing.T) {
	db := paydb(t)
	p := &Payout{Seed: 1, Accounts: 1, Rate: 1, Drive: time.Second, Executors: 1}
	if err := p.Open(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), "ALTER TABLE payout ADD CONSTRAINT none CHECK (false) NOT VALID"); err != nil {
		t.Fatal(err)
	}
	if err := p.KeepOpen(t.Context(), db, 1); err == nil {
		t.Error("nothing could be inserted, and it said nothing")
	}
}
