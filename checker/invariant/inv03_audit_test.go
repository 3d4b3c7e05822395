package invariant

import (
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// audit writes down what a SELECT finds in the end.
func (w *world) audit() {
	for _, id := range sortedKeys(w.accounts) {
		a := w.accounts[id]
		w.record(history.Event{W: history.Run, Type: contract.Info, Proc: contract.PayDB, Op: history.OpBalance, Account: id, Attrs: row{
			"balance_minor": itoa(a.balance), "fence": itoa(a.fence), "entries_minor": itoa(a.balance - opened(w, id))}})
	}
	w.record(history.Event{W: history.Run, Type: contract.Info, Proc: contract.PayDB, Op: history.OpAudited, Attrs: row{"accounts": itoa(int64(len(w.accounts)))}})
}

// opened is the balance of the row's insert.
func opened(w *world, account string) int64 {
	for _, e := range w.events {
		for _, c := range e.Changes {
			if c.Table == "account" && c.Kind == history.Insert && c.New["account_id"] == account {
				return history.Int(c.New["balance_minor"])
			}
		}
	}
	return 0
}

func TestASelectOfTheBalancesStandsBesideTheFold(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(w *world)
		says   string // of the gap; empty: all is well
		silent bool   // paydb did not answer to the end
	}{
		"and agrees":                              {func(*world) {}, "", false},
		"and gets no answer":                      {func(*world) {}, "its sums could not be confirmed: connection refused", true},
		"and finds more money than the log":       {func(w *world) { w.accounts["alice"].balance++ }, "a SELECT says that account alice holds", false},
		"and finds another fence":                 {func(w *world) { w.accounts["alice"].fence++ }, "a SELECT says that account alice holds", false},
		"and finds an account that no one opened": {func(w *world) { w.accounts["carol"] = &worldAccount{id: "carol"} }, "paydb has an account carol of which its log says nothing", false},
		"and does not find one that was opened":   {func(w *world) { delete(w.accounts, "alice") }, "accounts, and its log says", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := healthy()
			c.spoil(w)
			if w.audit(); c.silent {
				w.events = append(w.events[:len(w.events)-1], history.Event{I: int64(len(w.events)), T: w.clock, W: history.Run, Type: contract.Info, Proc: contract.PayDB, Op: history.OpAudited, Msg: "connection refused"})
			}
			got := judged(w.events, nil)["INV-03"]
			if v := violated(judged(w.events, nil)); v != "" {
				t.Fatalf("%s is violated by a witness that is not whole", v)
			}
			if c.says == "" {
				if got.Status != verdict.Pass || got.Danger["balances_selected"] != int64(len(w.accounts)) {
					t.Errorf("INV-03 is %s (%s), balances selected %d of %d", got.Status, got.Reason, got.Danger["balances_selected"], len(w.accounts))
				}
				return
			}
			if got.Status != verdict.Inconclusive || !strings.Contains(got.Reason, c.says) {
				t.Errorf("INV-03 is %s: %s", got.Status, got.Reason)
			}
		})
	}
}
