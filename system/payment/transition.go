package payment

import (
	"context"
	"fmt"

	"fenceproof/system/payment/machine"

	"github.com/jackc/pgx/v5"
)

// carryOut does what the state machine says, inside tx and behind the account's row lock.
func carryOut(ctx context.Context, tx pgx.Tx, c command, s sight, fencing bool) (effect, error) {
	switch c.Operation {
	case machine.Claim:
		return claim(ctx, tx, c, s, fencing)
	case machine.Post:
		return post(ctx, tx, c, s, fencing)
	case machine.Resolve:
		return resolve(ctx, tx, c, s, fencing)
	default:
		return move(ctx, tx, c, s, fencing)
	}
}

// refuse turns a decision that writes nothing into the refusal that the caller gets.
func refuse(d machine.Decision, s sight) error {
	if d.Reason == machine.None {
		return fmt.Errorf("a statement refused what the state machine allows: state %s, fence %d, claim token %d", s.State, s.Fence, s.ClaimToken)
	}
	return &refusal{reason: d.Reason, resource: "account", accountID: s.accountID, facts: s.Facts}
}

// done is the effect of a transition to state to, as far as it is known from what was seen.
func done(s sight, to machine.State) effect {
	return effect{accountID: s.accountID, from: s.State, to: to, amount: s.Amount, currency: s.Currency, fence: s.Fence, balance: s.Balance}
}

// claim shuts out everybody older in the transaction that claims: fence = token − 1 where fence < token. The row
// decides whether the token passes.
func claim(ctx context.Context, tx pgx.Tx, c command, s sight, fencing bool) (effect, error) {
	before := s
	passed := false
	b := &pgx.Batch{}
	b.Queue(either(fencing, sqlRaiseFence, sqlRaiseFenceOff), s.accountID, c.Token).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&s.Fence)
		passed = err == nil
		return unlessNone(err)
	})
	b.Queue(sqlReadInFlight, s.accountID, c.payoutID).QueryRow(func(row pgx.Row) error {
		var blocking *string
		err := row.Scan(&s.Reserved, &blocking)
		if blocking != nil {
			s.Blocking = *blocking
		}
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return effect{}, failed("raise the fence for the claim", err)
	}
	if !passed {
		return effect{}, refuse(machine.Judge(c.Command, before.Facts, fencing), before)
	}
	d := machine.JudgeBehindFence(c.Command, s.Facts, fencing)
	if d.To == "" {
		return effect{}, refuse(d, s)
	}
	e := done(s, d.To)
	e.reason = d.Reason
	if err := tx.QueryRow(ctx, sqlClaimPayout, c.payoutID, d.To, c.owner, c.Token).Scan(&e.attempts); err != nil {
		return effect{}, failed("claim the payout", err)
	}
	return e, nil
}

// move carries out submitted and outcome: they need the claim's token and leave the fence where it is.
func move(ctx context.Context, tx pgx.Tx, c command, s sight, fencing bool) (effect, error) {
	d := machine.Judge(c.Command, s.Facts, fencing)
	if d.To == "" {
		return effect{}, refuse(d, s)
	}
	e := done(s, d.To)
	if err := tx.QueryRow(ctx, sqlMovePayout, c.payoutID, d.To).Scan(&e.to); err != nil {
		return effect{}, failed("move the payout", err)
	}
	return e, nil
}

// resolve claims and resolves in one step, and writes down on what evidence.
func resolve(ctx context.Context, tx pgx.Tx, c command, s sight, fencing bool) (effect, error) {
	before := s
	err := tx.QueryRow(ctx, either(fencing, sqlRaiseFence, sqlRaiseFenceOff), s.accountID, c.Token).Scan(&s.Fence)
	if unlessNone(err) != nil {
		return effect{}, failed("raise the fence for the resolution", err)
	}
	if err != nil {
		return effect{}, refuse(machine.Judge(c.Command, before.Facts, fencing), before)
	}
	d := machine.JudgeBehindFence(c.Command, s.Facts, fencing)
	if d.To == "" {
		return effect{}, refuse(d, s)
	}
	e := done(s, d.To)
	b := &pgx.Batch{}
	b.Queue(sqlResolvePayout, c.payoutID, d.To, c.owner, c.Token).QueryRow(func(row pgx.Row) error { return row.Scan(&e.to) })
	b.Queue(sqlStoreResolution, c.payoutID, c.Finding, orNull(c.railReference), evidence(c), orNull(c.operator), orNull(c.reason), c.Token)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return effect{}, failed("resolve the payout", err)
	}
	return e, nil
}

// evidence is the sentence that the resolution's row keeps.
func evidence(c command) string {
	switch c.Finding {
	case machine.Acked:
		return "the rail's look-up shows transfer " + c.railReference
	case machine.Absent:
		return "the rail's look-up of " + c.lookedUpAt + " shows no transfer after the settlement window"
	default:
		return "given up by " + c.operator
	}
}

// orNull keeps an empty optional text out of the table.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
