package payment

import (
	"context"

	"fenceproof/system/payment/machine"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// post writes the double entry in C1's order: (a) the account, (b) the debit leg and the credit leg, (c) the payout. The
// rows decide, not this process: (a) whether the token passes the fence and the funds suffice, (c) whether the state and
// the claim fit. Whatever gives no row, everything is rolled back, and the state machine says why.
func post(ctx context.Context, tx pgx.Tx, c command, s sight, fencing bool) (effect, error) {
	e := done(s, machine.Posted)
	err := tx.QueryRow(ctx, either(fencing, sqlDebit, sqlDebitOff), s.Amount, c.Token, s.accountID, s.Currency).Scan(&e.balance, &e.fence)
	if unlessNone(err) != nil {
		return effect{}, failed("debit the account (C1 1.6 a)", err)
	}
	if err != nil {
		return undebited(ctx, tx, c, s, fencing)
	}
	if fencing && machine.FindsPosted(c.Command, s.Facts) {
		return postedAlready(ctx, tx, s, c)
	}
	w := &posting{c: c, account: s.accountID, amount: s.Amount, currency: s.Currency, fencing: fencing}
	if err := w.write(ctx, tx); err != nil {
		return effect{}, err
	}
	switch {
	case fencing && w.legs < 2:
		return effect{}, &refusal{reason: machine.FencedOut, resource: "ledger", accountID: s.accountID, facts: s.Facts}
	case w.posted == 0:
		return effect{}, refuse(machine.JudgeBehindFence(c.Command, s.Facts, fencing), s)
	}
	e.entries, err = readEntries(ctx, tx, c.payoutID)
	return e, err
}

// undebited finds out why (a) gave no row: C1's one diagnostic SELECT, then the contract's order of judgement.
func undebited(ctx context.Context, tx pgx.Tx, c command, s sight, fencing bool) (effect, error) {
	if err := tx.QueryRow(ctx, sqlDiagnose, s.accountID).Scan(&s.Fence, &s.Balance); err != nil {
		return effect{}, failed("diagnose why the account was not debited", err)
	}
	d := machine.Judge(c.Command, s.Facts, fencing)
	if d.Reason == machine.AlreadyPosted {
		return postedAlready(ctx, tx, s, c)
	}
	return effect{}, refuse(d, s)
}

// postedAlready answers a higher token that finds the work done: the entries as they stand, and nothing is written.
func postedAlready(ctx context.Context, tx pgx.Tx, s sight, c command) (effect, error) {
	e := done(s, machine.Posted)
	e.replay = true
	var err error
	e.entries, err = readEntries(ctx, tx, c.payoutID)
	return e, err
}

// posting is the part of a post behind the debit.
type posting struct {
	c        command
	account  string
	amount   int64 // minor units
	currency string
	fencing  bool

	legs   int64 // ledger rows written
	posted int64 // payout rows moved
}

// write sends (b) twice, the clearing account's credit and (c) in one round trip. The clearing account is opened where
// it does not exist yet; its row is always locked after the customer's, so that no two posts wait for each other.
func (w *posting) write(ctx context.Context, tx pgx.Tx) error {
	clearing := ClearingAccount(uuid.MustParse(w.account), w.currency)
	b := &pgx.Batch{}
	w.leg(b, w.account, "DEBIT")
	b.Queue(sqlOpenClearing, clearing, w.currency)
	w.leg(b, clearing.String(), "CREDIT")
	b.Queue(sqlCreditClearing, w.amount, clearing, w.currency).QueryRow(func(row pgx.Row) error {
		var balance int64
		return row.Scan(&balance)
	})
	post := b.Queue(either(w.fencing, sqlPostPayout, sqlPostPayoutOff), w.arguments()...)
	post.Query(func(rows pgx.Rows) error {
		for rows.Next() {
			w.posted++
		}
		return rows.Err()
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return failed("write the posting (C1 1.6 b, c)", err)
	}
	return nil
}

func (w *posting) leg(b *pgx.Batch, account, direction string) {
	q := b.Queue(either(w.fencing, sqlLedgerLeg, sqlLedgerLegOff), uuid.New(), w.c.payoutID, account, direction, w.amount, w.c.Token)
	q.Query(func(rows pgx.Rows) error {
		for rows.Next() {
			w.legs++
		}
		return rows.Err()
	})
}

func (w *posting) arguments() []any {
	if w.fencing {
		return []any{w.c.payoutID, w.c.Token}
	}
	return []any{w.c.payoutID}
}

func readEntries(ctx context.Context, tx pgx.Tx, payoutID string) ([]entry, error) {
	rows, err := tx.Query(ctx, sqlReadEntries, payoutID)
	if err != nil {
		return nil, failed("read the ledger entries", err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	if err != nil {
		return nil, failed("read the ledger entries", err)
	}
	return entries, nil
}
