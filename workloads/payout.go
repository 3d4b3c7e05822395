// Package workloads drives a system under test. Each workload is one file; it declares what it needs as a Target and
// says what a run of it must have exercised.
package workloads

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"fenceproof/checker/contract"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The statements with which the payout workload fills and reads paydb, as payapp.
var (
	//go:embed sql/insert_account.sql
	insertAccount string
	//go:embed sql/insert_payout.sql
	insertPayout string
	//go:embed sql/count_payouts_by_state.sql
	countPayouts string
)

// Currency is the currency of all accounts of the payout workload.
const Currency = "EUR"

// Target is paydb as the payout workload uses it, past the links: it is no client of the system, it is the world that
// wants payouts.
type Target interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Payout is the payout workload: accounts with enough funds for everything unless it is told how much, and payouts offered
// at a steady rate to accounts drawn by the seed.
type Payout struct {
	Seed     uint64
	Accounts int
	Rate     float64       // payouts per second offered
	Drive    time.Duration // how long payouts are offered
	// Limit, where not 0, is how many payouts are offered at most.
	Limit int
	// Executors decides the opening balances: with every fence off each executor may post each payout once, and no
	// account may run dry, or a missing refusal would hide behind insufficient funds.
	Executors int
	// Funds, where not 0, is the opening balance instead, in minor units.
	Funds int64

	rng      *rand.Rand
	accounts []uuid.UUID
	turn     []int // accounts that have no payout of this round yet
}

// Payout amounts, in minor units.
const (
	minAmount = 100
	maxAmount = 9_999
)

// Open inserts the accounts with their opening balances.
func (p *Payout) Open(ctx context.Context, t Target) error {
	p.rng = rand.New(rand.NewPCG(p.Seed, 0x7061796f7574)) // one stream of its own: "payout"
	opening := int64(p.Executors) * maxAmount * int64(p.Offered())
	if p.Funds > 0 {
		opening = p.Funds
	}
	for range p.Accounts {
		id := p.uuid()
		if _, err := t.Exec(ctx, insertAccount, id.String(), Currency, opening); err != nil {
			return fmt.Errorf("insert account %s: %w", id, err)
		}
		p.accounts = append(p.accounts, id)
	}
	return nil
}

// Offered is how many payouts the drive offers.
func (p *Payout) Offered() int {
	n := int(p.Rate * p.Drive.Seconds())
	if p.Limit > 0 {
		n = min(n, p.Limit)
	}
	return max(1, n)
}

// late is how long after the drive's end a payout is still offered that was to come before it.
const late = 2 * time.Second

// Run offers the payouts, evenly spread over the drive, until all are offered, the drive is over or ctx ends, and gives
// how many were. A payout that a database refuses is an error; one that is killed meanwhile is asked again when it is back.
// A database that takes them more slowly than they are offered does not make the drive longer; then fewer are offered
// than the rate says.
func (p *Payout) Run(ctx context.Context, t Target) (offered int, err error) {
	begin := time.Now()
	for i := range p.Offered() {
		next := begin.Add(time.Duration(float64(i) / p.Rate * float64(time.Second)))
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return offered, nil
		case <-timer.C:
		}
		if time.Since(begin) > p.Drive+late {
			return offered, nil
		}
		id, account := p.uuid(), p.next()
		amount := minAmount + p.rng.Int64N(maxAmount-minAmount+1)
		if err := offer(ctx, t, id, account, amount); err != nil {
			if ctx.Err() != nil {
				return offered, nil
			}
			return offered, fmt.Errorf("insert payout %d: %w", i+1, err)
		}
		offered++
	}
	return offered, nil
}

// offer inserts one payout. One whose first insertion was committed without our hearing of it is there already.
func offer(ctx context.Context, t Target, id, account uuid.UUID, amount int64) error {
	return insist(ctx, func(again bool) error {
		_, err := t.Exec(ctx, insertPayout, id.String(), account.String(), amount, Currency, "payout-"+id.String())
		if again && sqlState(err) == uniqueViolation {
			return nil
		}
		return err
	})
}

// next draws the account of the next payout, in rounds: each account once, in an order that the seed decides. An account
// pays one payout at a time, so drawing freely would let the luckiest one's backlog alone decide how long a drain takes.
func (p *Payout) next() uuid.UUID {
	if len(p.turn) == 0 {
		p.turn = p.rng.Perm(len(p.accounts))
	}
	drawn := p.turn[0]
	p.turn = p.turn[1:]
	return p.accounts[drawn]
}

// Counts are payouts by state.
type Counts map[contract.State]int64

// Open counts the payouts that are not at their end.
func (c Counts) Open() int64 {
	var n int64
	for s, k := range c {
		if !s.Terminal() {
			n += k
		}
	}
	return n
}

// Count reads how many payouts are in each state.
func (p *Payout) Count(ctx context.Context, t Target) (c Counts, err error) {
	err = insist(ctx, func(bool) error {
		c, err = count(ctx, t)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count the payouts: %w", err)
	}
	return c, nil
}

func count(ctx context.Context, t Target) (Counts, error) {
	rows, err := t.Query(ctx, countPayouts)
	if err != nil {
		return nil, err
	}
	c := Counts{}
	var state string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error { c[contract.State(state)] = n; return nil })
	return c, err
}

// uuid draws a random (version 4) UUID from the workload's seed.
func (p *Payout) uuid() uuid.UUID {
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[:8], p.rng.Uint64())
	binary.BigEndian.PutUint64(u[8:], p.rng.Uint64())
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u
}
