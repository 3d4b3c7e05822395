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
// the answer beside the log: the fold that added up every commit must have come to the same (INV-03). That there was no
// answer stands there as well.
func (e *evidence) audit(ctx context.Context, url string) {
	n, err := e.balances(ctx, url)
	done := history.Event{Type: contract.Info, Proc: contract.PayDB, Op: history.OpAudited, Attrs: map[string]string{"accounts": strconv.Itoa(n)}}
	if err != nil {
		done.Attrs, done.Msg = nil, err.Error()
	}
	e.rec.Record(history.Run, done)
}

// balances records what paydb says of each account, and counts them.
func (e *evidence) balances(ctx context.Context, url string) (n int, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, fmt.Errorf("ask paydb for its balances: %w", err)
	}
	defer conn.Close(ctx) // everything was read by then
	rows, err := conn.Query(ctx, selectBalances)
	if err != nil {
		return 0, fmt.Errorf("ask paydb for its balances: %w", err)
	}
	var account string
	var balance, fence, entries int64
	_, err = pgx.ForEachRow(rows, []any{&account, &balance, &fence, &entries}, func() error {
		n++
		e.rec.Record(history.Run, history.Event{Type: contract.Info, Proc: contract.PayDB, Op: history.OpBalance, Account: account,
			Attrs: map[string]string{"balance_minor": decimal(balance), "fence": decimal(fence), "entries_minor": decimal(entries)}})
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("read paydb's balances: %w", err)
	}
	return n, nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
