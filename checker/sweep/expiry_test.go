package sweep

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// PostgreSQL logs the microseconds of an expiry of which the answer may tell the milliseconds only.
func TestAnExtensionIsFoundInTheLogByItsExpiry(t *testing.T) {
	const from, until, answered = "2026-01-01 10:00:01.25+00", "2026-01-01 10:00:02.123456+00", `{"expiresAt":"2026-01-01T10:00:02.123Z"}`
	row := func(expires string) map[string]string {
		return map[string]string{"session_id": "s", "lock_key": "k", "fencing_token": "7", "expires_at": expires}
	}
	for table, asked := range map[string]history.Event{
		"lock_session": {Op: contract.OpHeartbeat, Session: "s"},
		"lock_entry":   {Op: contract.OpRenew, Key: "k", Token: 7},
	} {
		for logged, good := range map[string]bool{until: true, "2026-01-01 10:00:02.124+00": false} {
			w := sweeping(plan.BackendPG, step(plan.Drop, "executor-*→lock-server", asked.Op))
			n := w.call(asked, 200, "", answered)
			w.commit(history.LockDB, history.Change{Table: table, Kind: history.Update, Old: row(from), New: row(logged)})
			w.met(plan.Drop, n)
			if got := w.read(t); got.Good() != good {
				t.Errorf("%s, logged as %s: good %t, want %t: %+v", table, logged, got.Good(), good, *got.Cells[0])
			}
		}
	}
}
