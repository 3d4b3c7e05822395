package run

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/select_balances.sql
var selectBalances string

// audit asks paydb itself for its balances once nobody writes any more and its log has been read to the end, and writes
// the answer beside the log: the fold that added up every commit must have come to the same (INV-03).
func (e *evidence) audit(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("ask paydb for its balances: %w", err)
	}
	defer conn.Close(ctx) // everything was read by then
	rows, err := conn.Query(ctx, selectBalances)
	if err != nil {
		return fmt.Errorf("ask paydb for its balances: %w", err)
	}
	n := 0
	var account string
	var balance, fence, entries int64
	_, err = pgx.ForEachRow(rows, []any{&account, &balance, &fence, &entries}, func() error {
		n++
		e.rec.Record(history.Run, history.Event{Type: contract.Info, Proc: contract.PayDB, Op: history.OpBalance, Account: account,
			Attrs: map[string]string{"balance_minor": decimal(balance), "fence": decimal(fence), "entries_minor": decimal(entries)}})
		return nil
	})
	if err != nil {
		return fmt.Errorf("read paydb's balances: %w", err)
	}
	e.rec.Record(history.Run, history.Event{Type: contract.Info, Proc: contract.PayDB, Op: history.OpAudited, Attrs: map[string]string{"accounts": strconv.Itoa(n)}})
	return nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
