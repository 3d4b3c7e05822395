package invariant

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// What a write can hide behind, and must not.
func TestAWriteThatWasNotGrantedIsNeverAPass(t *testing.T) {
	acquire := func(proc string) history.Event {
		return history.Event{Op: contract.OpAcquire, Proc: contract.Process(proc), Key: "payout:alice", Session: "session-" + proc}
	}
	refused := answer{status: 409, code: contract.PayoutNotClaimable}
	for _, c := range []struct {
		name  string
		story func(w *world)
		found int64 // else a doubt
	}{
		{"behind a token of none", func(w *world) {
			w.paymentOff = true
			w.do("executor-1", contract.OpClaim, "p2", 0)
		}, 1},
		{"behind a token below all", func(w *world) {
			w.commit(w.attemptInsert(&attempt{id: "another", payout: "p2", token: -1}))
		}, 1},
		{"behind grants that came after an invented token", func(w *world) {
			w.paymentOff = true
			w.nextToken = 100
			for range maxTokens + 1 {
				w.acquire("executor-1", "alice")
			}
			w.do("executor-1", contract.OpClaim, "p2", 77)
		}, 0},
		{"behind more answers that were lost than are remembered", func(w *world) {
			w.paymentOff = true
			for token := int64(60); token <= 60+maxTokens; token++ {
				r := w.send(acquire("executor-1"))
				w.grant(0, "executor-1", "alice", token)
				w.loseAnswer(r)
			}
			w.do("executor-1", contract.OpClaim, "p2", 60)
		}, 0},
		{"behind the name of an account that was granted", func(w *world) {
			token := w.acquire("executor-1", "bob")
			r := w.ask("executor-1", contract.OpSubmit, "p2", token)
			r.answer = answer{status: 200, outcome: contract.OutcomeAcked}
			w.commit(w.attemptInsert(&attempt{id: "another", payout: "p2", token: token}))
			w.reply(r)
		}, 1},
		{"behind the name of another account, until its own is granted", func(w *world) {
			r := w.send(acquire("executor-1"))
			w.grant(0, "executor-1", "alice", 60)
			early := w.ask("executor-1", contract.OpSubmit, "p2", 60)
			early.Account = "bob"
			w.events[len(w.events)-1].Account, w.events[len(w.events)-2].Account = "bob", "bob"
			w.commit(w.attemptInsert(&attempt{id: "another", payout: "p2", token: 60}))
			w.loseAnswer(early)
			w.answerAcquire(r, 60)
		}, 1},
		{"behind another who may have been the author", func(w *world) {
			token := w.acquire("executor-1", "alice")
			w.do("executor-1", contract.OpClaim, "p2", token)
			w.paymentOff = true
			early := w.ask("executor-1", contract.OpSubmitted, "p2", 999)
			proper := w.ask("executor-1", contract.OpSubmitted, "p2", token)
			w.execute(early)
			w.loseAnswer(early)
			w.loseAnswer(proper)
		}, 0},
		{"behind a grant of the operator's from after the log had passed the request", func(w *world) {
			early := w.ask("executor-1", contract.OpClaim, "p2", 60)
			w.passes(w.clock + 1)
			w.grant(0, "operator", "alice", 60)
			w.execute(early)
			w.loseAnswer(early)
		}, 1},
		{"behind an answer that was lost before its client", func(w *world) {
			r := w.send(acquire("executor-1"))
			w.grant(0, "executor-1", "alice", 60)
			r.Granted, r.answer = 60, answer{status: 200}
			w.replyLost(r)
			w.do("executor-1", contract.OpClaim, "p2", 60)
		}, 0},
		{"behind an answer that was told twice and lost twice", func(w *world) {
			lost, again := w.send(acquire("executor-1")), w.send(acquire("executor-1"))
			w.grant(0, "executor-1", "alice", 60)
			var gone []history.Event
			for _, r := range []*request{lost, again} {
				r.Granted, r.answer = 60, answer{status: 200}
				w.replyLost(r)
				gone = append(gone, w.cut())
			}
			for _, e := range gone {
				w.record(e)
			}
			w.do("executor-1", contract.OpClaim, "p2", 60)
		}, 0},
		{"long after another answer to its session was lost", func(w *world) {
			r := w.send(acquire("executor-1"))
			w.grant(0, "executor-1", "alice", 58)
			r.Granted, r.answer = 58, answer{status: 200}
			w.replyLost(r)
			again := w.send(acquire("executor-1"))
			w.grant(0, "executor-1", "alice", 60)
			w.do("executor-1", contract.OpClaim, "p2", 60)
			w.answerAcquire(again, 60)
		}, 1},
		{"behind the harness's copy of its request", func(w *world) {
			r := w.send(acquire("executor-1"))
			w.grant(0, "executor-1", "alice", 60)
			early := w.ask("executor-1", contract.OpClaim, "p2", 60)
			w.answerAcquire(r, 60)
			copied := w.again(early)
			w.execute(early)
			w.loseAnswer(early)
			w.loseAnswer(copied)
		}, 1},
		{"behind the harness's copy of its request, which was refused itself", func(w *world) {
			r := w.send(acquire("executor-1"))
			w.grant(0, "executor-1", "alice", 60)
			early := w.ask("executor-1", contract.OpClaim, "p2", 60)
			early.answer = refused
			w.reply(early)
			w.answerAcquire(r, 60)
			copied := w.again(early)
			w.execute(copied)
			w.loseAnswer(copied)
		}, 1},
		{"behind the grant of a key that bears the account's name alone", func(w *world) {
			w.commit(w.attemptInsert(&attempt{id: "another", payout: "p2", token: 60}))
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "alice", Session: "session-executor-1"})
			w.answerAcquire(r, 60)
		}, 1},
		{"behind another's answer that broke off", func(w *world) {
			w.tearAnswer(w.send(acquire("executor-2")))
			r := w.send(acquire("executor-1"))
			w.grant(0, "executor-1", "alice", 60)
			w.do("executor-1", contract.OpClaim, "p2", 60)
			w.answerAcquire(r, 60)
		}, 1},
		{"behind its own answer that broke off after another's had", func(w *world) {
			w.tearAnswer(w.send(acquire("executor-2")))
			r := w.send(acquire("executor-1"))
			w.grant(0, "executor-1", "alice", 60)
			w.tearAnswer(r)
			w.do("executor-1", contract.OpClaim, "p2", 60)
		}, 0},
		{"behind a grant whose token could not be read", func(w *world) {
			r := w.send(acquire("executor-1"))
			w.grant(0, "executor-1", "alice", 60)
			w.answerAcquire(r, 0)
			w.do("executor-1", contract.OpClaim, "p2", 60)
		}, 0},
		{"behind a duplicate's answer, which refuses and raises the mark", func(w *world) {
			w.do("executor-1", contract.OpSubmit, "p1", w.acquire("executor-1", "alice"))
			r := w.send(acquire("executor-1"))
			w.grant(0, "executor-1", "alice", 60)
			w.do("executor-1", contract.OpSubmit, "p1", 60)
			w.answerAcquire(r, 60)
		}, 0},
		{"behind a payout that paydb's log does not show yet", func(w *world) {
			w.behindPaydb(func() {
				w.ask("executor-2", contract.OpClaim, "p9", 1)
				r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-7", Key: "payout:alice", Session: "session-executor-7"})
				w.grant(0, "executor-7", "alice", 60)
				w.loseAnswer(r)
			})
			w.do("executor-7", contract.OpClaim, "p2", 60)
		}, 1},
		{"behind a request that is refused when the log has its write", func(w *world) {
			r := w.ask("executor-1", contract.OpClaim, "p2", 60)
			w.execute(r)
			w.watermarks()
			r.answer = refused
			w.reply(r)
		}, 1},
	} {
		for on, begin := range map[string]func() *world{"pg": bank, "etcd": bankOnEtcd} {
			t.Run(c.name+", on "+on, func(t *testing.T) {
				w := begin()
				c.story(w)
				w.watermarks()
				got := w.judgement()["INV-07"]
				if got.Found != c.found || c.found == 0 && got.Doubt == "" {
					t.Errorf("%d found and %d left open, doubt %q, want %d or, for 0, a doubt: %s", got.Found, got.Unresolved, got.Doubt, c.found, got.Reason)
				}
			})
		}
	}
}

// What is no violation, however it looks, is none, and no doubt.
func TestAWriteThatWasGrantedIsNoDoubt(t *testing.T) {
	for name, story := range map[string]func(w *world){
		"its row bears no token, its answer is lost, and its grant is long forgotten": func(w *world) {
			token := w.acquire("executor-1", "alice")
			w.do("executor-1", contract.OpClaim, "p2", token)
			r := w.ask("executor-1", contract.OpSubmitted, "p2", token)
			w.execute(r)
			w.loseAnswer(r)
			for range maxTokens + 1 {
				w.acquire("executor-3", "alice")
			}
		},
		"an early request is kept back until another has written, and refused": func(w *world) {
			r := w.asksForAlice()
			w.grant(0, "executor-1", "alice", 60)
			early := history.Event{W: history.Wiretap, Type: contract.Invoke, Op: contract.OpClaim, Proc: "executor-1", Call: 900, Stage: history.Received, Payout: "p2", Token: 60}
			w.record(early)
			w.answerAcquire(r, 60)
			w.do("executor-1", contract.OpClaim, "p2", 60)
			early.Stage = history.Forwarded
			w.record(early)
			w.reply(&request{Event: early, answer: answer{status: 409, code: contract.PayoutNotClaimable}})
		},
		"an answer to its session that was lost was of another token": func(w *world) {
			r := w.asksForAlice()
			w.grant(0, "executor-1", "alice", 58)
			r.Granted, r.answer = 58, answer{status: 200}
			w.replyLost(r)
			again := w.asksForAlice()
			w.grant(0, "executor-1", "alice", 60)
			w.answerAcquire(again, 60)
			w.do("executor-1", contract.OpClaim, "p2", 60)
		},
	} {
		for on, begin := range map[string]func() *world{"pg": bank, "etcd": bankOnEtcd} {
			t.Run(name+", on "+on, func(t *testing.T) {
				w := begin()
				story(w)
				w.watermarks()
				if got := w.judgement()["INV-07"]; got.Found != 0 || got.Unresolved != 0 || got.Doubt != "" {
					t.Errorf("%d found and %d left open, doubt %q, want none: %s", got.Found, got.Unresolved, got.Doubt, got.Reason)
				}
			})
		}
	}
}

// Told the same token twice, a client has it although the first answer was lost.
func TestAGrantToldAgainIsNoneTheWorseForTheAnswerThatWasLost(t *testing.T) {
	for on, begin := range map[string]func() *world{"pg": bank, "etcd": bankOnEtcd} {
		for name, first := range map[string]bool{"before it is told again": true, "after it was told again": false} {
			t.Run(name+", on "+on, func(t *testing.T) {
				w := begin()
				lost, again := w.asksForAlice(), w.asksForAlice()
				w.grant(0, "executor-1", "alice", 60)
				lost.Granted, lost.answer = 60, answer{status: 200}
				w.reply(lost)
				gone := w.cut()
				gone.Stage, gone.Type = history.Lost, contract.Info
				if first {
					w.record(gone)
				}
				w.answerAcquire(again, 60)
				if !first {
					w.record(gone)
				}
				w.do("executor-1", contract.OpClaim, "p2", 60)
				w.watermarks()
				if got := w.judgement()["INV-07"]; got.Found != 0 || got.Unresolved != 0 || got.Doubt != "" {
					t.Errorf("%d found and %d left open, doubt %q, want none: %s", got.Found, got.Unresolved, got.Doubt, got.Reason)
				}
			})
		}
	}
}

// behindPaydb tells of p9 only after what happens meanwhile: the wiretap's events wait for it, the lock store's log does not.
func (w *world) behindPaydb(meanwhile func()) {
	w.watermarks()
	w.order("p9", "alice", 1)
	row := w.cut()
	meanwhile()
	w.record(row)
}

// replyLost records an answer that came whole and did not reach its client.
func (w *world) replyLost(r *request) {
	w.reply(r)
	e := &w.events[len(w.events)-1]
	e.Stage, e.Type = history.Lost, contract.Info
}

// Behind paydb by more than is held, nobody knows whose payouts the requests are about: the evidence is not whole.
func TestAWiretapThatWaitsTooLongForPaydbIsNoEvidence(t *testing.T) {
	w := bank()
	w.watermarks()
	w.order("p9", "alice", 1)
	row := w.cut()
	w.ask("executor-1", contract.OpClaim, "p9", 60)
	for range maxHeld {
		w.record(history.Event{W: history.Wiretap, Type: contract.Invoke, Op: contract.OpHeartbeat, Call: 1 << 30, Stage: history.Received})
	}
	w.record(row)
	w.watermarks()
	if got := w.judgement()["INV-07"]; got.Status != verdict.Inconclusive {
		t.Errorf("%s: %s", got.Status, got.Reason)
	}
}
