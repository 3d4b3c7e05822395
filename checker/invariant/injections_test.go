package invariant

import (
	"fmt"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// told has the nemesis say how a window of its own went, phase by phase.
func (w *world) told(window int, op contract.Op, e history.Event, phases ...string) {
	e.W, e.Type, e.Proc, e.Op, e.Window = history.Nemesis, contract.Info, "nemesis", op, window
	for _, e.Phase = range phases {
		w.record(e)
	}
}

func TestLinksCountByWhatTheyWereSeenToBe(t *testing.T) {
	w := bank()
	link := history.Event{Target: "executor-1→lock-server"}
	seen, unseen := []string{"inject", "seen", "heal", "healed"}, []string{"inject", "failed", "heal", "healed"}
	window := 0
	for op, n := range map[contract.Op]int{"cut": 2, "hold": 3, "slow": 4, "reset": 5} {
		for range n {
			window++
			w.told(window, op, link, seen...)
		}
		w.told(window+1, op, link, unseen...)
		w.told(window+2, op, link, "missed")
		window += 2
	}
	got := judged(w.events, nil)
	for id, want := range map[string]map[string]int64{
		"INV-06": {"links_cut": 2, "links_held": 3, "links_slowed": 4, "links_reset": 0}, "DUR-01": {"links_reset": 5, "links_slowed": 0},
	} {
		for counter, n := range want {
			if got[id].Danger[counter] != n {
				t.Errorf("%s: %s is %d, want %d", id, counter, got[id].Danger[counter], n)
			}
		}
	}
}

func TestARevokeIsTheNemesisOnlyWhereItsOwnOperatorWasToldSo(t *testing.T) {
	revoke := func(w *world, by contract.Process, a answer) {
		w.answered(history.Event{Op: contract.OpRevoke, Proc: by, Key: "payout:alice"}, a)
	}
	carriedOut := func(token int64) answer {
		return answer{status: 200, res: fmt.Sprintf(`{"revokedToken":%d,"newTokenFloor":%d}`, token, token+1)}
	}
	grant := history.Event{Target: "executor-1", Key: "payout:alice", Token: 44}
	done := []string{"inject", "seen", "healed"}
	for name, c := range map[string]struct {
		events func(*world)
		want   int64
	}{
		"it was carried out": {func(w *world) {
			revoke(w, contract.Operator, carriedOut(44))
			w.told(1, contract.OpRevoke, grant, done...)
		}, 1},
		"the operator of the load revokes as well": {func(w *world) {
			revoke(w, contract.LockOperator, carriedOut(44))
			w.told(1, contract.OpRevoke, grant, "failed")
		}, 0},
		"another operator was told of the same grant": {func(w *world) {
			revoke(w, contract.LockOperator, carriedOut(44))
			w.told(1, contract.OpRevoke, grant, done...)
		}, 0},
		"the operator was refused, whatever the refusal says": {func(w *world) {
			refused := carriedOut(44)
			refused.status, refused.code = 400, contract.InvalidRequest
			revoke(w, contract.Operator, refused)
			w.told(1, contract.OpRevoke, grant, done...)
		}, 0},
		"the operator was told of another grant": {func(w *world) {
			revoke(w, contract.Operator, carriedOut(43))
			w.told(1, contract.OpRevoke, grant, done...)
		}, 0},
		"one answer is one revoke": {func(w *world) {
			revoke(w, contract.Operator, carriedOut(44))
			w.told(1, contract.OpRevoke, grant, done...)
			w.told(2, contract.OpRevoke, grant, done...)
		}, 1},
	} {
		w := bank()
		w.acquire("executor-1", "alice")
		c.events(w)
		if got := judged(w.events, nil)["INV-04"].Danger["revokes_injected"]; got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
