package invariant

import (
	"strings"
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
		doubt      bool
	}{
		{"a watermark from before the request, while the grant's log entry is still on its way", func(w *world) {
			w.grant(0, "operator", "alice", 60)
			entry, before := w.cut(), w.clock
			w.do("operator", contract.OpClaim, "p2", 60)
			w.passes(before)
			w.record(entry)
		}, 1, false},
		{"a watermark of the very time of the request and of the grant, while the grant's log entry is still on its way", func(w *world) {
			w.grant(0, "operator", "alice", 60)
			entry, n := w.cut(), len(w.events)
			w.do("operator", contract.OpClaim, "p2", 60)
			for _, e := range w.events[n:] {
				if e.Stage == history.Forwarded {
					w.passes(e.T)
				}
			}
			w.record(entry)
		}, 1, false},
		{"a log that has more of the key's grants than are remembered", func(w *world) {
			for token := int64(60); token <= 60+maxTokens; token++ {
				w.grant(0, "operator", "alice", token)
			}
			w.do("operator", contract.OpClaim, "p2", 60)
		}, 1, true},
		{"a grant that was answered before more of the key's than are remembered", func(w *world) {
			w.paymentOff = true
			proper := w.acquire("executor-1", "alice")
			for range maxTokens {
				w.acquire("executor-1", "alice")
			}
			w.do("executor-1", contract.OpClaim, "p2", proper)
		}, 2, true}, // the request and the write
		{"a watermark from behind a hole of the lock store's log", func(w *world) {
			w.grant(0, "operator", "alice", 60)
			w.cut()
			w.record(history.Event{W: history.LockDB, Op: history.OpLostPlace, Msg: "broken"})
			w.do("operator", contract.OpClaim, "p2", 60)
		}, 1, false},
	} {
		for on, begin := range map[string]func() *world{"pg": bank, "etcd": bankOnEtcd} {
			t.Run(c.name+", on "+on, func(t *testing.T) {
				w := begin()
				c.story(w)
				w.watermarks()
				got := w.judgement()["INV-07"]
				if got.Found != 0 || got.Unresolved != c.unresolved || (got.Doubt != "") != c.doubt {
					t.Errorf("%d found and %d left open, doubt %q, want 0, %d and %v: %s", got.Found, got.Unresolved, got.Doubt, c.unresolved, c.doubt, got.Reason)
				}
			})
		}
	}
}

// Only a grant that no wiretap heard is left open. Where one heard its answer, a request received before that had no grant,
// whatever the lock store's log has and whenever it came.
func TestAWriteThatWasReceivedBeforeItsGrantWasAnsweredIsConvictedByTheAnswer(t *testing.T) {
	entry := func(w *world) history.Event {
		w.grant(0, "executor-1", "alice", 60)
		return w.cut()
	}
	early := map[string]bool{"the log has passed the write and has the grant": true} // it tells that no other can have granted it
	for name, story := range map[string]func(w *world) (acquire *request){
		"the log has the grant before the write": func(w *world) *request {
			r := w.asksForAlice()
			w.grant(0, "executor-1", "alice", 60)
			w.do("executor-1", contract.OpClaim, "p2", 60)
			return r
		},
		"the log has the grant after the write": func(w *world) *request {
			r := w.asksForAlice()
			granted := entry(w)
			w.do("executor-1", contract.OpClaim, "p2", 60)
			w.record(granted)
			return r
		},
		"the log has passed the write and has the grant": func(w *world) *request {
			r := w.asksForAlice()
			w.grant(0, "executor-1", "alice", 60)
			w.do("executor-1", contract.OpClaim, "p2", 60)
			w.watermarks()
			return r
		},
		"an acquire before it was answered 503, and a copy of one not at all": func(w *world) *request {
			refused := w.asksForAlice()
			refused.answer = answer{status: 503, code: contract.NotLeader}
			w.reply(refused)
			w.loseAnswer(w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", DupOf: 1}))
			r := w.asksForAlice()
			w.grant(0, "executor-1", "alice", 60)
			w.do("executor-1", contract.OpClaim, "p2", 60)
			return r
		},
		"the log has nothing of the grant yet": func(w *world) *request {
			r := w.asksForAlice()
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
						if id, _, ok := j.First(); ok != early[name] {
							t.Errorf("fell before the grant was answered: %v (%s), want %v", ok, id, early[name])
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

// Two rows of one name are one violation of whoever asked for them.
func TestASuspectIsConvictedOnce(t *testing.T) {
	w := bank()
	w.tearAnswer(w.asksForAlice()) // until the end the log may have its grant
	w.loseAnswer(w.ask("executor-1", contract.OpSubmit, "p2", 60))
	w.commit(w.attemptInsert(&attempt{id: "one", payout: "p2", token: 60}))
	w.commit(w.attemptInsert(&attempt{id: "two", payout: "p2", token: 60}))
	w.watermarks()
	if got := w.judgement()["INV-07"]; got.Found != 1 || !strings.HasPrefix(got.Reason, "executor-1 wrote to account alice with token 60") {
		t.Errorf("%d found, want 1 of executor-1: %s", got.Found, got.Reason)
	}
}

// An answer that refuses one request says nothing about another that bore the same token to the same account.
func TestARefusalClearsItsOwnRequestAndNoOther(t *testing.T) {
	refused := func(w *world, payout string) {
		r := w.ask("executor-1", contract.OpClaim, payout, 60)
		r.answer = answer{status: 409, code: contract.PayoutNotClaimable}
		w.reply(r)
	}
	for name, story := range map[string]func(w *world){
		"the write is there": func(w *world) {
			w.do("executor-1", contract.OpClaim, "p2", 60)
			refused(w, "p3")
		},
		"another is refused before and behind it": func(w *world) {
			refused(w, "p3")
			w.do("executor-1", contract.OpClaim, "p2", 60)
			refused(w, "p3")
		},
		"the first is still on its way": func(w *world) {
			r := w.ask("executor-1", contract.OpClaim, "p2", 60)
			refused(w, "p3")
			w.complete(r)
		},
		"the answer to the first was lost": func(w *world) {
			r := w.ask("executor-1", contract.OpClaim, "p2", 60)
			w.loseAnswer(r)
			refused(w, "p3")
			w.execute(r)
		},
		"more are refused than are remembered side by side": func(w *world) {
			w.do("executor-1", contract.OpClaim, "p2", 60)
			for range 3 * maxAlike {
				refused(w, "p3")
			}
		},
		"more are on their way than are remembered side by side": func(w *world) {
			w.do("executor-1", contract.OpClaim, "p2", 60)
			for i := range 3 * maxAlike {
				w.order("more"+itoa(int64(i)), "alice", 1)
				w.ask("executor-1", contract.OpClaim, "more"+itoa(int64(i)), 60)
			}
			refused(w, "p3")
		},
		"another's is lost, and asked for another payout": func(w *world) {
			w.loseAnswer(w.ask("executor-2", contract.OpClaim, "p3", 60))
			w.do("executor-1", contract.OpClaim, "p2", 60)
		},
		"the wiretap waits for paydb, and more writes than are remembered come meanwhile": func(w *world) {
			proper := w.acquire("executor-2", "alice")
			w.behindPaydb(func() {
				w.ask("executor-2", contract.OpClaim, "p9", proper)
				w.loseAnswer(w.ask("executor-1", contract.OpSubmit, "p2", 60))
				w.commit(w.attemptInsert(&attempt{id: "first", payout: "p2", token: 60}))
				for i := range maxTokens {
					w.commit(w.attemptInsert(&attempt{id: "again" + itoa(int64(i)), payout: "p1", token: proper}))
				}
			})
		},
		"it is the rail's, and a copy of the first is refused by its own mark": func(w *world) {
			r := w.ask("executor-1", contract.OpSubmit, "p2", 60)
			w.complete(r)
			w.complete(w.again(r))
		},
	} {
		for on, begin := range map[string]func() *world{"pg": bank, "etcd": bankOnEtcd} {
			t.Run(name+", on "+on, func(t *testing.T) {
				w := begin()
				acquire := w.asksForAlice()
				w.grant(0, "executor-1", "alice", 60)
				story(w)
				w.answerAcquire(acquire, 60)
				w.watermarks()
				got := w.judgement()["INV-07"]
				if got.Found != 1 || got.Unresolved != 0 || !strings.HasPrefix(got.Reason, "executor-1 wrote to account alice with token 60") {
					t.Errorf("%d found and %d left open, want 1 of executor-1 and 0: %s", got.Found, got.Unresolved, got.Reason)
				}
			})
		}
	}
}

// Where every request of a name was refused, the write of that name is the proper one's.
func TestRefusedRequestsOfOneNameAccuseNobody(t *testing.T) {
	w := bank()
	acquire := w.asksForAlice()
	w.grant(0, "executor-1", "alice", 60)
	var open []*request
	for _, payout := range []string{"p2", "p3"} {
		r := w.ask("executor-1", contract.OpClaim, payout, 60)
		r.answer = answer{status: 409, code: contract.PayoutNotClaimable}
		open = append(open, r)
	}
	for _, r := range open {
		w.reply(r)
	}
	w.answerAcquire(acquire, 60)
	w.do("executor-1", contract.OpClaim, "p2", 60)
	w.watermarks()
	sound(t, "INV-07", w.events, 0)
}

// What an account's later writes have pushed out of memory is still a suspect's.
func TestASuspectsWriteIsConvictedHoweverManyWritesFollowIt(t *testing.T) {
	for name, after := range map[string]func(w *world){
		"":                             func(*world) {},
		", and a proper request comes": func(w *world) { w.do("executor-2", contract.OpSubmit, "p3", 60) },
	} {
		for on, begin := range map[string]func() *world{"pg": bank, "etcd": bankOnEtcd} {
			t.Run("on "+on+name, func(t *testing.T) {
				w := begin()
				w.railOff = true
				proper := w.acquire("executor-1", "alice")
				w.do("operator", contract.OpSubmit, "p2", 60)
				for i := range maxTokens { // the account's writes that are remembered
					w.commit(w.attemptInsert(&attempt{id: "again" + itoa(int64(i)), payout: "p1", token: proper}))
				}
				w.answerAcquire(w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-2", Key: "payout:alice"}), 60)
				after(w)
				w.watermarks()
				got := w.judgement()["INV-07"]
				if got.Found != 1 || got.Unresolved != 0 {
					t.Errorf("%d found and %d left open, want 1 and 0: %s", got.Found, got.Unresolved, got.Reason)
				}
			})
		}
	}
}

// The answer to an acquire was cut on its way, and some of it went on to the client. Asked again, the lock tells its holder the
// same token: that answer came late, and was not the first.
func TestAGrantOfWhoseAnswerAPartCameMayGrantThoughItIsToldAgain(t *testing.T) {
	for name, later := range map[string]int{"soon": 0, "after more writes of the account than are remembered": maxTokens} {
		for _, v := range variations() {
			t.Run(name+v.name, func(t *testing.T) {
				w := v.begin()
				w.railOff = true
				before := w.acquire("executor-2", "alice")
				cut := w.asksForAlice()
				w.grant(0, "executor-1", "alice", 60)
				w.tearAnswer(cut)
				w.do("executor-1", contract.OpSubmit, "p2", 60)
				for i := range later {
					w.commit(w.attemptInsert(&attempt{id: "again" + itoa(int64(i)), payout: "p1", token: before}))
				}
				w.answerAcquire(w.asksForAlice(), 60)
				v.then(w)
				w.watermarks()
				got := w.judgement()["INV-07"]
				if got.Found != 0 || got.Unresolved != 1 || got.Doubt == "" {
					t.Errorf("%d found and %d left open, doubt %q, want 0, 1 and one", got.Found, got.Unresolved, got.Doubt)
				}
			})
		}
	}
}
