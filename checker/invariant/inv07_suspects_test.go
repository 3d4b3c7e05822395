package invariant

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// cut takes the latest event out of the history, to be recorded later.
func (w *world) cut() history.Event {
	e := w.events[len(w.events)-1]
	w.events = w.events[:len(w.events)-1]
	return e
}

// passes records that the lock store's log was read up to covers.
func (w *world) passes(covers int64) {
	w.record(history.Event{W: history.LockDB, Type: contract.Info, Op: history.OpWatermark, Covers: covers})
}

// A write under a grant that no wiretap heard is judged by the lock store's log, and no sooner and no further than that tells.
func TestAWriteUnderAGrantThatNobodyHeardIsNotConvictedOn(t *testing.T) {
	for _, c := range []struct {
		name       string
		story      func(w *world)
		unresolved int64
	}{
		{"a watermark from before the request, while the grant's log entry is still on its way", func(w *world) {
			w.grant(0, "operator", "alice", 60)
			entry, before := w.cut(), w.clock
			w.do("operator", contract.OpClaim, "p2", 60)
			w.passes(before)
			w.record(entry)
		}, 1},
		{"a log that has more of the key's grants than are remembered", func(w *world) {
			for token := int64(60); token <= 60+maxTokens; token++ {
				w.grant(0, "operator", "alice", token)
			}
			w.do("operator", contract.OpClaim, "p2", 60)
		}, 1},
		{"a watermark from behind a hole of the lock store's log", func(w *world) {
			w.grant(0, "operator", "alice", 60)
			w.cut()
			w.record(history.Event{W: history.LockDB, Op: history.OpLostPlace, Msg: "broken"})
			w.do("operator", contract.OpClaim, "p2", 60)
		}, 1},
		{"a watermark from after a proper request of the same name", func(w *world) {
			w.railOff = true
			proper := w.acquire("executor-1", "alice")
			w.do("operator", contract.OpSubmit, "p2", 60)
			for i := range maxTokens { // the account's writes that are remembered
				w.commit(w.attemptInsert(&attempt{id: "again" + itoa(int64(i)), payout: "p1", token: proper}))
			}
			w.answerAcquire(w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-2", Key: "payout:alice"}), 60)
			w.do("executor-2", contract.OpSubmit, "p3", 60)
		}, 1},
	} {
		for on, begin := range map[string]func() *world{"pg": bank, "etcd": bankOnEtcd} {
			t.Run(c.name+", on "+on, func(t *testing.T) {
				w := begin()
				c.story(w)
				w.watermarks()
				got := w.judgement()["INV-07"]
				if got.Found != 0 || got.Unresolved != c.unresolved {
					t.Errorf("%d found and %d left open, want 0 and %d: %s", got.Found, got.Unresolved, c.unresolved, got.Reason)
				}
			})
		}
	}
}

// Only a grant that no wiretap heard is left open. Where one heard its answer, a request received before that had no grant,
// whatever the lock store's log has and whenever it came.
func TestAWriteThatWasReceivedBeforeItsGrantWasAnsweredIsConvictedAtTheAnswer(t *testing.T) {
	entry := func(w *world) history.Event {
		w.grant(0, "executor-1", "alice", 60)
		return w.cut()
	}
	for name, story := range map[string]func(w *world) (acquire *request){
		"the log has the grant before the write": func(w *world) *request {
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice"})
			w.grant(0, "executor-1", "alice", 60)
			w.do("executor-1", contract.OpClaim, "p2", 60)
			return r
		},
		"the log has the grant after the write": func(w *world) *request {
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice"})
			granted := entry(w)
			w.do("executor-1", contract.OpClaim, "p2", 60)
			w.record(granted)
			return r
		},
		"the log has passed the write and has the grant": func(w *world) *request {
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice"})
			w.grant(0, "executor-1", "alice", 60)
			w.do("executor-1", contract.OpClaim, "p2", 60)
			w.watermarks()
			return r
		},
		"the log has nothing of the grant yet": func(w *world) *request {
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice"})
			w.do("executor-1", contract.OpClaim, "p2", 60)
			return r
		},
	} {
		for on, begin := range map[string]func() *world{"pg": bank, "etcd": bankOnEtcd} {
			t.Run(name+", on "+on, func(t *testing.T) {
				w := begin()
				acquire := story(w)
				before := len(w.events)
				w.answerAcquire(acquire, 60)
				j := NewJudge(verdict.Settings{Workload: "payout", Backend: on, Nemesis: "none", Fencing: "on"})
				for i := range w.events {
					if i == before {
						if id, _, ok := j.First(); ok {
							t.Errorf("%s fell before the grant was answered", id)
						}
					}
					j.Observe(&w.events[i])
				}
				if id, _, ok := j.First(); !ok || id != "INV-07" {
					t.Errorf("%q fell at the answer, want INV-07", id)
				}
				for _, inv := range j.Conclude(nil) {
					if inv.ID == "INV-07" && (inv.Found != 1 || inv.Unresolved != 0) {
						t.Errorf("%d found and %d left open at the end, want 1 and 0", inv.Found, inv.Unresolved)
					}
				}
			})
		}
	}
}
