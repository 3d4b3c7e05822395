package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/deploy/local"
	"fenceproof/workloads"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// payouts drives the payout workload.
type payouts struct {
	*state
	load *workloads.Payout
	db   *pgxpool.Pool
}

func (d *payouts) phases() map[string]string {
	return map[string]string{
		"seed":  "opening the accounts",
		"drive": "offering payouts and breaking the system",
		"drain": "all is healed; waiting for the payouts to end",
	}
}

// seed opens the accounts.
func (d *payouts) seed(ctx context.Context) error {
	url, err := d.stack.AppURL(local.PayDB)
	if err != nil {
		return fmt.Errorf("find paydb: %w", err)
	}
	if d.db, err = pgxpool.New(ctx, url); err != nil {
		return fmt.Errorf("open paydb for the workload: %w", err)
	}
	p := d.cfg.Plan
	d.load = &workloads.Payout{Seed: p.Seed, Accounts: p.Accounts, Rate: p.Rate, Drive: time.Duration(p.Drive), Limit: p.Payouts, Executors: p.Executors, Funds: p.Funds}
	return d.load.Open(ctx, d.db)
}

func (d *payouts) close() {
	if d.db != nil {
		d.db.Close()
	}
}

// drive offers the payouts, with the plan's lock clients beside them.
func (d *payouts) drive(ctx context.Context) error {
	if err := d.auditor(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		n, err := d.load.Run(ctx, d.db)
		if all := d.load.Offered(); err == nil && ctx.Err() == nil && n < all {
			d.out.say("drive", "paydb took %d of the %d payouts in this time: a lower --rate is what it can keep up with", n, all)
		}
		return err
	})
	g.Go(func() error { return d.lockClients(ctx) })
	return errors.Join(g.Wait(), d.endClients(ctx))
}

// lockClients puts the plan's lock clients to work for as long as the drive lasts. That none of them was ever granted
// anything is an error: such a run has shown nothing of the lock.
func (d *payouts) lockClients(ctx context.Context) error {
	if d.cfg.Plan.Locks == nil {
		return nil
	}
	l := &locks{state: d.state, seen: &lockCounts{}}
	if err := l.seed(ctx); err != nil {
		return err
	}
	err := errors.Join(l.drive(ctx), l.stop(ctx))
	if c := l.seen.read(); err == nil && c.granted == 0 {
		return fmt.Errorf("none of %d lock clients was ever granted a key", d.cfg.Plan.Locks.Clients)
	}
	return err
}

// drain waits until every payout is at its end.
func (d *payouts) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, slowDrain)
	defer cancel()
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	p := newPatience(time.Now())
	for {
		counts, err := d.load.Count(ctx, d.db)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil && (counts.Open() == 0 || p.over(counts.Open(), time.Now())) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// status is the payouts by state and what was fenced out.
func (d *payouts) status() (parts []string) {
	c := d.judge.Counts()
	for _, s := range []contract.State{contract.Pending, contract.Claimed, contract.RailSubmitted, contract.RailAcked, contract.Posted, contract.RailAmbiguous, contract.Failed} {
		if n := c.Payouts[string(s)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", s, n))
		}
	}
	var refused int64
	for _, k := range c.Refusals {
		refused += k
	}
	return append(parts, fmt.Sprintf("%d fenced out", refused))
}
