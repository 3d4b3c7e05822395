package invariant

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

func TestGranted(t *testing.T) {
	tell(t, []wrong{
		{"a claim under a token that nobody was granted", func(w *world) {
			w.do("executor-1", contract.OpClaim, "p2", 999)
		}, "INV-07", map[string]string{"INV-07": "executor-1 wrote to account alice with token 999 (claim), which had not been granted for key payout:alice when the request was received"}},
		{"a claim under the token of another account's key", func(w *world) {
			w.do("executor-1", contract.OpClaim, "p2", w.acquire("executor-1", "bob"))
		}, "INV-07", map[string]string{"INV-07": "with token 44 (claim), which had not been granted for key payout:alice"}},
		{"a claim that was received before its grant was answered", func(w *world) {
			r := w.ask("executor-1", contract.OpClaim, "p2", w.nextToken)
			w.acquire("executor-1", "alice")
			w.complete(r)
		}, "INV-07", map[string]string{"INV-07": "executor-1 wrote to account alice with token 44 (claim)"}},
		{"a claim that was received before its grant was answered, and forwarded after", func(w *world) {
			e := history.Event{W: history.Wiretap, Type: contract.Invoke, Op: contract.OpClaim, Proc: "executor-1", Call: 900, Stage: history.Received, Payout: "p2", Token: w.nextToken}
			w.record(e)
			w.acquire("executor-1", "alice")
			e.Stage = history.Forwarded
			w.record(e)
			w.complete(&request{Event: e})
		}, "INV-07", map[string]string{"INV-07": "executor-1 wrote to account alice with token 44 (claim)"}},
		{"only the header of submitted tells that its token was never granted", func(w *world) {
			w.do("executor-1", contract.OpClaim, "p2", w.acquire("executor-1", "alice"))
			w.paymentOff = true
			w.do("executor-1", contract.OpSubmitted, "p2", 999)
		}, "INV-07", map[string]string{"INV-07": "with token 999 (submitted)"}},
		{"a submitted whose answer was lost has one possible author", func(w *world) {
			w.do("executor-1", contract.OpClaim, "p2", w.acquire("executor-1", "alice"))
			w.paymentOff = true
			r := w.ask("executor-1", contract.OpSubmitted, "p2", 999)
			w.execute(r)
			w.loseAnswer(r)
		}, "INV-07", map[string]string{"INV-07": "with token 999 (submitted)"}},
		{"a submission under a token that nobody was granted", func(w *world) {
			t1 := w.acquire("executor-1", "alice")
			w.do("executor-1", contract.OpClaim, "p2", t1)
			w.do("executor-1", contract.OpSubmitted, "p2", t1)
			w.do("executor-1", contract.OpSubmit, "p2", 999)
		}, "INV-07", map[string]string{"INV-07": "with token 999 (submit)"}},
		{"a write that nobody asked for", func(w *world) {
			w.commit(w.attemptInsert(&attempt{id: "another", payout: "p2", token: 999}))
		}, "INV-07", map[string]string{"INV-07": "account alice was written to with token 999 (submit), which was never granted for key payout:alice"}},
		{"a write that nobody asked for, under another key's token", func(w *world) {
			w.acquire("executor-1", "bob")
			w.commit(w.attemptInsert(&attempt{id: "another", payout: "p2", token: 44}))
		}, "INV-07", map[string]string{"INV-07": "which was granted for key payout:bob and not for payout:alice"}},
		{"a write that nobody asked for, when there is a grant of whose answer a part came", func(w *world) {
			r := w.asksForAlice()
			w.grant(0, "executor-1", "alice", 60)
			w.tearAnswer(r)
			w.commit(w.attemptInsert(&attempt{id: "another", payout: "p2", token: 999}))
		}, "INV-07", map[string]string{"INV-07": "account alice was written to with token 999 (submit)"}},
		{"the grant of which a part was answered is not in the lock store's log", func(w *world) {
			w.tearAnswer(w.asksForAlice())
			w.do("executor-1", contract.OpClaim, "p2", 60)
		}, "INV-07", map[string]string{"INV-07": "executor-1 wrote to account alice with token 60 (claim)"}},
		{"a claim before the answer to its acquire, of which nothing ever came", func(w *world) {
			r := w.asksForAlice()
			w.grant(0, "executor-1", "alice", 60)
			w.do("executor-1", contract.OpClaim, "p2", 60)
			w.loseAnswer(r)
		}, "INV-07", map[string]string{"INV-07": "executor-1 wrote to account alice with token 60 (claim)"}},
		{"a claim before the answer to its acquire, which the run did not live to see", func(w *world) {
			w.asksForAlice()
			w.grant(0, "executor-1", "alice", 60)
			w.do("executor-1", contract.OpClaim, "p2", 60)
		}, "INV-07", map[string]string{"INV-07": "executor-1 wrote to account alice with token 60 (claim)"}},
		{"a claim before the answer to its acquire, of which a part came later", func(w *world) {
			r := w.asksForAlice()
			w.grant(0, "executor-1", "alice", 60)
			w.do("executor-1", contract.OpClaim, "p2", 60)
			w.tearAnswer(r)
		}, "INV-07", map[string]string{"INV-07": "executor-1 wrote to account alice with token 60 (claim)"}},
		{"a claim received before a part of the answer came, and forwarded after", func(w *world) {
			r := w.asksForAlice()
			e := history.Event{W: history.Wiretap, Type: contract.Invoke, Op: contract.OpClaim, Proc: "executor-1", Call: 900, Stage: history.Received, Payout: "p2", Token: 60}
			w.record(e)
			w.grant(0, "executor-1", "alice", 60)
			w.tearAnswer(r)
			e.Stage = history.Forwarded
			w.record(e)
			w.complete(&request{Event: e})
		}, "INV-07", map[string]string{"INV-07": "executor-1 wrote to account alice with token 60 (claim)"}},
		{"a claim under a token that the log never had, long before more grants than are remembered", func(w *world) {
			w.tearAnswer(w.asksForAlice())
			w.do("executor-1", contract.OpClaim, "p2", 60)
			w.nextToken = 62
			for range maxTokens + 1 {
				w.acquire("executor-1", "alice")
			}
		}, "INV-07", map[string]string{"INV-07": "executor-1 wrote to account alice with token 60 (claim)"}},
		{"a claim that was refused, and is in the log, under a token that nobody was granted", func(w *world) {
			r := w.ask("executor-1", contract.OpClaim, "p2", 60)
			w.execute(r)
			r.answer = answer{status: 409, code: contract.PayoutNotClaimable}
			w.reply(r)
		}, "INV-07", map[string]string{"INV-07": "account alice was written to with token 60 (claim), which was never granted for key payout:alice"}},
		{"a claim under what only the copy of an acquire was answered, whose answer is for nobody", func(w *world) {
			w.loseAnswer(w.asksForAlice())
			copied := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1", DupOf: 1})
			w.grant(0, "executor-1", "alice", 60)
			w.answerAcquire(copied, 60)
			w.do("executor-1", contract.OpClaim, "p2", 60)
		}, "INV-07", map[string]string{"INV-07": "executor-1 wrote to account alice with token 60 (claim)"}},
		{"a write that nobody asked for, under a grant whose answer never came", func(w *world) {
			r := w.asksForAlice()
			w.grant(0, "executor-1", "alice", 60)
			w.loseAnswer(r)
			w.commit(w.attemptInsert(&attempt{id: "another", payout: "p2", token: 60}))
		}, "INV-07", map[string]string{"INV-07": "account alice was written to with token 60 (submit), which was never granted for key payout:alice"}},
	})
}

// asksForAlice lets executor-1 ask for the key, and nobody has answered yet.
func (w *world) asksForAlice() *request {
	return w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1"})
}

// The answer was cut on its way to the wiretap, and some of it went on to the client: it may have read the token, and may not.
// The lock store's log has the grant. That is no violation, and no pass.
func TestAGrantOfWhoseAnswerAPartCameMayGrant(t *testing.T) {
	for on, begin := range map[string]func() *world{"pg": bank, "etcd": bankOnEtcd} {
		t.Run("on "+on, func(t *testing.T) {
			w := begin()
			r := w.asksForAlice()
			w.grant(0, "executor-1", "alice", 60)
			w.tearAnswer(r)
			w.do("executor-1", contract.OpClaim, "p2", 60)
			w.do("executor-1", contract.OpSubmitted, "p2", 60)
			w.do("executor-1", contract.OpSubmit, "p2", 60)
			w.watermarks()
			got := w.judgement()["INV-07"]
			if got.Found != 0 || got.Unresolved != 3 || got.Status != verdict.Inconclusive {
				t.Errorf("%s with %d found and %d left open, want inconclusive with 0 and 3: %s", got.Status, got.Found, got.Unresolved, got.Reason)
			}
		})
	}
}

// An operator, or another client that goes past the wiretap, is granted a key that nobody heard it ask for. The lock store's
// log has the grant: the system did nothing wrong, and when the grant was answered nobody can tell.
func TestAGrantThatTheWiretapNeverHeardOfIsLeftOpenWhereTheLogHasIt(t *testing.T) {
	for name, begin := range map[string]func() *world{"on pg": bank, "on etcd": bankOnEtcd} {
		for when, late := range map[string]bool{"its log comes first": false, "its log comes last": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				w := begin()
				w.grant(0, "operator", "alice", 60)
				granted := w.events[len(w.events)-1]
				if late {
					w.events = w.events[:len(w.events)-1]
				}
				w.do("operator", contract.OpClaim, "p2", 60)
				w.do("operator", contract.OpSubmitted, "p2", 60)
				w.commit(w.attemptInsert(&attempt{id: "another", payout: "p2", token: 60})) // nor was this heard
				if late {
					w.events = append(w.events, granted)
				}
				for i := range w.events {
					w.events[i].I = int64(i + 1)
				}
				w.watermarks()
				got := judged(w.events, nil)["INV-07"]
				if got.Found != 0 || got.Unresolved != 3 {
					t.Errorf("%d found and %d left open, want 0 and 3: %s", got.Found, got.Unresolved, got.Reason)
				}
			})
		}
	}
}

// The log of another key's grant is no licence.
func TestAViolationIsCaughtWhileTheRunGoesOnOnceTheLockStoresLogHasPassedIt(t *testing.T) {
	w := bank()
	w.grant(0, "operator", "bob", 60)
	w.do("executor-1", contract.OpClaim, "p2", 60)
	j := NewJudge(verdict.Settings{Workload: "payout", Backend: "pg", Nemesis: "none", Fencing: "on"})
	for i := range w.events {
		j.Observe(&w.events[i])
	}
	if id, _, ok := j.First(); ok {
		t.Errorf("%s fell before the lock store's log had passed the write", id)
	}
	n := len(w.events)
	w.watermarks()
	for i := n; i < len(w.events); i++ {
		j.Observe(&w.events[i])
	}
	if id, _, ok := j.First(); !ok || id != "INV-07" {
		t.Errorf("%q fell once it had, want INV-07", id)
	}
}

func TestARefusedRequestNeedsNoGrant(t *testing.T) {
	w := bank()
	t1 := w.acquire("executor-1", "alice")
	w.do("executor-1", contract.OpClaim, "p2", t1)
	w.do("executor-1", contract.OpClaim, "p2", 12)
	w.do("executor-1", contract.OpSubmit, "p1", 12)
	r := w.ask("executor-1", contract.OpClaim, "p3", w.nextToken) // it is refused, and asked again under its grant
	r.answer = answer{status: 409, code: contract.PayoutNotClaimable}
	w.reply(r)
	w.do("executor-1", contract.OpSubmitted, "p2", t1)
	w.do("executor-1", contract.OpSubmit, "p2", t1)
	w.do("executor-1", contract.OpOutcome, "p2", t1)
	w.do("executor-1", contract.OpPost, "p2", t1)
	w.do("executor-1", contract.OpClaim, "p3", w.acquire("executor-1", "alice"))
	w.watermarks()
	sound(t, "INV-07", w.events, 0)
}

func TestWithoutTheWiretapNobodyKnowsWhatWasGranted(t *testing.T) {
	w := bank()
	n := len(w.events)
	w.acquire("executor-1", "alice")
	w.do("executor-1", contract.OpClaim, "p2", 44)
	events := append([]history.Event{}, w.events[:n]...)
	events = append(events, history.Event{W: history.Wiretap, Op: history.OpLostPlace, Msg: "broken"})
	for _, e := range w.events[n:] {
		if e.W != history.Wiretap {
			events = append(events, e)
		}
	}
	if got := judged(events, nil)["INV-07"]; got.Status != verdict.Inconclusive || got.Found != 0 || got.Unresolved != 1 {
		t.Errorf("%s with %d found and %d unresolved, want inconclusive with 0 and 1", got.Status, got.Found, got.Unresolved)
	}
}
