package invariant

import (
	"fmt"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

var allStates = []contract.State{contract.Pending, contract.Claimed, contract.RailSubmitted, contract.RailAcked, contract.RailAmbiguous,
	contract.Posted, contract.Failed, contract.Abandoned}

// jump is a world in which p2 goes from one state to another in one commit, with whatever else the commit holds.
func jump(from, to contract.State, with ...history.Change) *world {
	w := newWorld()
	w.openAccount("alice", 1000)
	p := &worldPayout{id: "p2", account: "alice", amount: 100, state: from}
	if from != contract.Pending {
		p.token, p.by = 44, "executor-1"
	}
	was := w.payoutRow(p)
	w.commit(history.Change{Table: "payout", Kind: history.Insert, New: was})
	w.events[len(w.events)-1].Msg = snapshot
	p.state, p.token, p.by = to, 44, "executor-1"
	w.commit(append(with, history.Change{Table: "payout", Kind: history.Update, Old: was, New: w.payoutRow(p)})...)
	return w
}

func resolution(outcome string) history.Change {
	return history.Change{Table: "payout_resolution", Kind: history.Insert, New: row{"payout_id": "p2", "outcome": outcome, "token": "44"}}
}

func TestOnlyTheTransitionsOfTheContractOccur(t *testing.T) {
	type step struct{ from, to contract.State }
	allowed := map[step][]history.Change{
		{contract.Pending, contract.Claimed}:             nil,
		{contract.Pending, contract.Abandoned}:           {resolution("ABANDONED")},
		{contract.Claimed, contract.RailSubmitted}:       nil,
		{contract.RailSubmitted, contract.RailAcked}:     nil,
		{contract.RailSubmitted, contract.RailAmbiguous}: nil,
		{contract.RailAcked, contract.Posted}:            nil,
		{contract.RailAmbiguous, contract.RailAcked}:     {resolution("ACKED")},
		{contract.RailAmbiguous, contract.Failed}:        {resolution("ABSENT")},
		{contract.RailAmbiguous, contract.Abandoned}:     {resolution("ABANDONED")},
	}
	for _, from := range allStates {
		for _, to := range allStates {
			if from == to {
				continue
			}
			with, ok := allowed[step{from, to}]
			if got := judged(jump(from, to, with...).events, nil)["INV-08"]; (got.Found == 0) != ok {
				t.Errorf("%s → %s: %d violations, %s", from, to, got.Found, got.Reason)
			}
			if len(with) == 0 {
				continue
			}
			if got := judged(jump(from, to).events, nil)["INV-08"]; got.Found != 1 {
				t.Errorf("%s → %s without its row of evidence: %d violations", from, to, got.Found)
			}
			if got := judged(jump(from, to, resolution("SOMETHING")).events, nil)["INV-08"]; got.Found != 1 {
				t.Errorf("%s → %s with evidence of something else: %d violations", from, to, got.Found)
			}
		}
	}
}

func TestStates(t *testing.T) {
	claim := func(w *world, payout string, to contract.State) {
		p := w.payouts[payout]
		was := w.payoutRow(p)
		p.state, p.token, p.by = to, w.acquire("executor-1", p.account), "executor-1"
		w.commit(history.Change{Table: "payout", Kind: history.Update, Old: was, New: w.payoutRow(p)})
	}
	tell(t, []wrong{
		{"a payout comes back from its end", func(w *world) {
			p := w.payouts["p1"]
			was := w.payoutRow(p)
			p.state = contract.RailAcked
			w.commit(history.Change{Table: "payout", Kind: history.Update, Old: was, New: w.payoutRow(p)})
		}, "INV-03 INV-08", map[string]string{"INV-08": "payout p1 went from POSTED to RAIL_ACKED, although POSTED is an end", "INV-03": "payout p1 of 100 minor units is RAIL_ACKED, and its legs take 100 from its account"}},
		{"unknown money is called failed", func(w *world) {
			t1 := w.acquire("executor-1", "alice")
			w.do("executor-1", contract.OpClaim, "p2", t1)
			w.do("executor-1", contract.OpSubmitted, "p2", t1)
			r := w.ask("executor-1", contract.OpSubmit, "p2", t1)
			w.submitIntent(r)
			w.forwardToRail(r, contract.OutcomeTimeout, false)
			w.reply(r)
			o := w.ask("executor-1", contract.OpOutcome, "p2", t1)
			o.reports = contract.OutcomeRejected
			w.complete(o)
		}, "INV-08", map[string]string{"INV-08": "payout p2 went from RAIL_SUBMITTED to FAILED, although no REJECTED of the rail is on record"}},
		{"a payout fails for want of funds that were there", func(w *world) {
			claim(w, "p2", contract.Failed)
		}, "INV-08", map[string]string{"INV-08": "payout p2 of 100 FAILED for want of funds, although 900 were available"}},
		{"a payout is claimed for which the funds do not suffice", func(w *world) {
			w.order("p9", "alice", 901)
			claim(w, "p9", contract.Claimed)
		}, "INV-08", map[string]string{"INV-08": "payout p9 of 901 EUR was claimed, although 900 EUR were available"}},
		{"two payouts of an account are in flight", func(w *world) {
			claim(w, "p2", contract.Claimed)
			claim(w, "p3", contract.Claimed)
		}, "INV-08", map[string]string{"INV-08": "payout p3 was claimed while payout p2 of the same account was in flight"}},
		{"a posted payout is claimed", func(w *world) {
			claim(w, "p1", contract.Posted)
		}, "INV-08", map[string]string{"INV-08": "payout p1 was claimed under token 44 in state POSTED"}},
		{"a payout begins in the middle", func(w *world) {
			p := &worldPayout{id: "p9", account: "alice", amount: 10, state: contract.RailAcked, token: w.acquire("executor-1", "alice"), by: "executor-1"}
			w.payouts["p9"] = p
			w.commit(history.Change{Table: "payout", Kind: history.Insert, New: w.payoutRow(p)})
		}, "INV-08", map[string]string{"INV-08": "payout p9 began in state RAIL_ACKED"}},
		{"a payout is deleted", func(w *world) {
			w.commit(history.Change{Table: "payout", Kind: history.Delete, Old: w.payoutRow(w.payouts["p1"])})
		}, "INV-08", map[string]string{"INV-08": "payout p1 was deleted in state POSTED"}},
	})
}

func TestStatesThatStayAndRefusalsOfTheRailAreNoViolations(t *testing.T) {
	w := bank()
	posted := w.payouts["p1"]
	w.commit(history.Change{Table: "payout", Kind: history.Update, Old: w.payoutRow(posted), New: w.payoutRow(posted)})
	t1 := w.acquire("executor-1", "alice")
	w.do("executor-1", contract.OpClaim, "p2", t1)
	w.do("executor-1", contract.OpSubmitted, "p2", t1)
	r := w.ask("executor-1", contract.OpSubmit, "p2", t1)
	w.submitIntent(r)
	w.forwardToRail(r, contract.OutcomeRejected, false)
	w.reply(r)
	o := w.ask("executor-1", contract.OpOutcome, "p2", t1)
	o.reports = contract.OutcomeRejected
	w.complete(o)
	w.order("p9", "alice", 901)
	w.do("executor-1", contract.OpClaim, "p9", w.acquire("executor-1", "alice")) // for want of funds
	w.watermarks()
	sound(t, "INV-08", w.events, 0)
	if got := judged(w.events, nil)["INV-08"].Danger; got["declined"] != 1 || got["unfunded"] != 1 {
		t.Errorf("danger %s", fmt.Sprint(got))
	}
}
