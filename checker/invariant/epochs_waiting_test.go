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

// What the wiretap would have said of an end behind the break of its file nobody knows, whether an epoch ends then or the run.
func TestAnEndBehindTheBreakOfTheWiretapIsLeftOpen(t *testing.T) {
	for name, begin := range map[string]func() *world{"pg": bank, "etcd": bankOnEtcd} {
		t.Run(name, func(t *testing.T) {
			w := begin()
			w.acquire("executor-1", "alice")
			w.record(history.Event{W: history.Wiretap, Type: contract.Info, Op: history.OpLostPlace, Event: history.Missing})
			w.free("alice")
			w.putBack(1)
			got := judged(w.events, map[history.Witness]string{history.Wiretap: "its recording broke off"})
			if inv := got["INV-06"]; inv.Found != 0 || inv.Status != verdict.Inconclusive {
				t.Errorf("INV-06 is %s: %s", inv.Status, inv.Reason)
			}
		})
	}
}

// Of a write behind the break of the wiretap nobody knows whether the only request that was seen made it: the one that did may
// be in what is missing.
func TestAWriteBehindTheBreakOfTheWiretapIsNotLaidToTheOnlyRequestThatWasSeen(t *testing.T) {
	w := bank()
	t1 := w.acquire("executor-1", "alice")
	w.do("executor-1", contract.OpClaim, "p2", t1)
	w.loseAnswer(w.ask("executor-1", contract.OpSubmitted, "p2", t1)) // and it never arrived
	t2 := w.acquire("executor-2", "alice")
	w.do("executor-2", contract.OpClaim, "p2", t2)
	whole := len(w.events)
	w.do("executor-2", contract.OpSubmitted, "p2", t2)
	lost := w.events[:whole:whole]
	lost = append(lost, history.Event{I: int64(whole), T: w.events[whole-1].T, W: history.Wiretap, Type: contract.Info, Op: history.OpLostPlace, Event: history.Missing})
	for _, e := range w.events[whole:] {
		if e.W != history.Wiretap {
			lost = append(lost, e)
		}
	}
	got := judged(lost, map[history.Witness]string{history.Wiretap: "its recording broke off"})
	for _, id := range []string{"INV-01", "INV-07"} {
		if inv := got[id]; inv.Found != 0 || inv.Unresolved == 0 {
			t.Errorf("%s is %s, %d unresolved: %s", id, inv.Status, inv.Unresolved, inv.Reason)
		}
	}
}

// What waited for paydb while the store was put back was answered before: the store that grants it again issues it twice.
func TestATokenWhoseAnswerWaitsForPaydbWhileTheStoreIsPutBackCountsAsIssued(t *testing.T) {
	w := bank()
	claim := w.send(history.Event{Op: contract.OpClaim, Proc: "executor-1", Owner: "executor-1", Payout: "unseen", Token: 2, Link: "executor-1→payment-resource"})
	claim.answer = answer{status: 503}
	w.reply(claim)
	token := w.acquire("executor-1", "alice")
	w.begun("restore-unguarded")
	w.putBack(1)
	w.reissue(1, "executor-2", "alice", token)
	w.order("unseen", "alice", 5)
	w.watermarks()
	if n := judged(w.events, nil)["INV-04"].Danger["issued_twice"]; n != 1 {
		t.Errorf("%d tokens were issued twice, want 1", n)
	}
}
