package workloads

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed sql/count_open_payouts.sql
	countOpenPayouts string
	//go:embed sql/insert_payouts.sql
	insertPayouts string
)

// refillEvery is how often the closed loop looks how many payouts are open.
const refillEvery = 20 * time.Millisecond

// KeepOpen is the closed loop: it keeps n payouts open until ctx ends, so that the system always has as much to do and
// its own speed decides how much it does. Open must have come before, with a Limit that the loop is not expected to reach.
func (p *Payout) KeepOpen(ctx context.Context, t Target, n int) error {
	tick := time.NewTicker(refillEvery)
	defer tick.Stop()
	for {
		if err := p.refill(ctx, t, n); err != nil && ctx.Err() == nil {
			return fmt.Errorf("keep %d payouts open: %w", n, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// refill inserts what is missing to n open payouts.
func (p *Payout) refill(ctx context.Context, t Target, n int) error {
	rows, err := t.Query(ctx, countOpenPayouts)
	if err != nil {
		return fmt.Errorf("count the open payouts: %w", err)
	}
	open, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	if err != nil {
		return fmt.Errorf("count the open payouts: %w", err)
	}
	var ids, accounts []string
	var amounts []int64
	for range n - open {
		ids, accounts = append(ids, p.uuid().String()), append(accounts, p.accounts[p.rng.IntN(len(p.accounts))].String())
		amounts = append(amounts, minAmount+p.rng.Int64N(maxAmount-minAmount+1))
	}
	if len(ids) == 0 {
		return nil
	}
	if _, err := t.Exec(ctx, insertPayouts, ids, accounts, amounts, Currency); err != nil {
		return fmt.Errorf("insert %d payouts: %w", len(ids), err)
	}
	return nil
}
