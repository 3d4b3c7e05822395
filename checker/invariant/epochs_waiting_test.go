package invariant

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// A call about a payout that paydb's log has not shown yet waits, and all that the wiretap saw after it waits behind. The lock
// store may be put back meanwhile: then nobody can know who asked for what had ended.
func TestAReleaseThatWaitsForPaydbWhileTheStoreIsPutBackIsNotMissed(t *testing.T) {
	for name, begin := range map[string]func() *world{"pg": bank, "etcd": bankOnEtcd} {
		t.Run(name, func(t *testing.T) {
			w := begin()
			token := w.acquire("executor-1", "alice")
			claim := w.send(history.Event{Op: contract.OpClaim, Proc: "executor-1", Owner: "executor-1", Payout: "unseen", Token: token, Link: "executor-1→payment-resource"})
			claim.answer = answer{status: 503}
			w.reply(claim)
			w.release("alice")
			w.putBack(1)
			w.reissue(1, "executor-2", "alice", 1<<32)
			w.order("unseen", "alice", 5)
			w.watermarks()
			got := judged(w.events, nil)
			if inv := got["INV-06"]; inv.Found != 0 || inv.Unresolved != 1 {
				t.Errorf("INV-06 is %s, %d unresolved: %s", inv.Status, inv.Unresolved, inv.Reason)
			}
			if n := got["LIVE-01"].Danger["dead_holders"]; n != 0 {
				t.Errorf("%d holders died", n)
			}
		})
	}
}

// A history's times may be coarse: what has the same one as the next epoch's first event was recorded just before it, and nobody
// can know what the wiretap would have said.
func TestAnEndAtTheTimeOfTheNextEpochIsLeftOpen(t *testing.T) {
	for name, begin := range map[string]func() *world{"pg": bank, "etcd": bankOnEtcd} {
		t.Run(name, func(t *testing.T) {
			w := begin()
			w.acquire("executor-1", "alice")
			w.free("alice")
			w.putBack(1, w.bystander()...)
			n := len(w.events)
			w.events[n-2].T = w.events[n-3].T
			w.reissue(1, "executor-2", "alice", 1<<32)
			w.watermarks()
			if inv := judged(w.events, nil)["INV-06"]; inv.Found != 0 || inv.Unresolved != 1 {
				t.Errorf("INV-06 is %s, %d found, %d unresolved: %s", inv.Status, inv.Found, inv.Unresolved, inv.Reason)
			}
		})
	}
}

// bystander is a session that a store was put back with.
func (w *world) bystander() []history.Change {
	g := &worldGrant{owner: "executor-3", session: "session-executor-3"}
	return []history.Change{{Table: "lock_session", Kind: history.Insert, New: w.sessionRow(g, w.clock, w.clock+worldSession)}}
}

// An update of a row that nobody saw begin, without what it was before, is a gap: no grant, no renewal and no panic.
func TestAnUpdateOfARowThatNobodyKnowsIsAGap(t *testing.T) {
	for _, row := range []map[string]string{{"lock_key": "k"}, {"lock_key": "k", "owner_id": "executor-1", "session_id": "session-executor-1", "fencing_token": "60"}} {
		w := bank()
		w.commitLock(0, history.Change{Table: "lock_entry", Kind: history.Update, New: row})
		if inv := judged(w.events, nil)["INV-06"]; inv.Found != 0 || inv.Status != verdict.Inconclusive {
			t.Errorf("%v: INV-06 is %s: %s", row, inv.Status, inv.Reason)
		}
	}
}
