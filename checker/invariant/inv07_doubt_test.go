package invariant

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// Of requests of one name that wait side by side only so many are remembered. What the rest wrote is left open, and the run is
// no pass.
func TestASuspectForWhomThereIsNoRoomLeavesADoubt(t *testing.T) {
	for name, refusedFirst := range map[string]bool{"the write comes first": false, "the others are refused first": true} {
		t.Run(name, func(t *testing.T) {
			w := bank()
			acquire := w.asksForAlice()
			w.grant(0, "executor-1", "alice", 60)
			var waiting []*request
			for range maxAlike {
				waiting = append(waiting, w.ask("executor-1", contract.OpClaim, "p2", 60))
			}
			last := w.ask("executor-1", contract.OpClaim, "p2", 60)
			if !refusedFirst {
				w.complete(last)
			}
			for _, r := range waiting {
				r.answer = answer{status: 409, code: contract.PayoutNotClaimable}
				w.reply(r)
			}
			if refusedFirst {
				w.complete(last)
			}
			w.answerAcquire(acquire, 60)
			w.watermarks()
			if got := w.judgement()["INV-07"]; got.Found != 0 || got.Unresolved != 1 || got.Doubt == "" {
				t.Errorf("%d found and %d left open, doubt %q, want 0, 1 and one: %s", got.Found, got.Unresolved, got.Doubt, got.Reason)
			}
		})
	}
}

// The one for whom there was no room may have been granted its token by an answer of which a part came, and the write may be its own.
func TestADoubtOutlastsTheRoomForIt(t *testing.T) {
	w := bank()
	for range maxAlike {
		w.loseAnswer(w.ask("executor-2", contract.OpClaim, "p2", 60))
	}
	torn := w.asksForAlice()
	w.grant(0, "executor-1", "alice", 60)
	w.tearAnswer(torn)
	w.do("executor-1", contract.OpClaim, "p2", 60)
	for _, again := range []bool{false, true} {
		if again {
			w.answerAcquire(w.asksForAlice(), 60)
		}
		w.watermarks()
		if got := w.judgement()["INV-07"]; got.Found != 0 || got.Unresolved != 1 || got.Doubt == "" {
			t.Errorf("%d found and %d left open, doubt %q, want 0, 1 and one; told again: %v: %s", got.Found, got.Unresolved, got.Doubt, again, got.Reason)
		}
	}
}

// Nor is it one where more names are under suspicion than are followed.
func TestMoreSuspectsThanAreFollowedLeaveADoubt(t *testing.T) {
	w := bank()
	for token := int64(60); token < 60+maxSuspects; token++ {
		w.ask("executor-1", contract.OpClaim, "p2", token)
	}
	acquire := w.asksForAlice()
	w.grant(0, "executor-1", "alice", 5000)
	w.do("executor-1", contract.OpClaim, "p3", 5000)
	w.answerAcquire(acquire, 5000)
	w.watermarks()
	if got := w.judgement()["INV-07"]; got.Found != 0 || got.Unresolved != 1 || got.Doubt == "" {
		t.Errorf("%d found and %d left open, doubt %q, want 0, 1 and one: %s", got.Found, got.Unresolved, got.Doubt, got.Reason)
	}
}

type variation struct {
	name  string
	begin func() *world
	then  func(w *world)
}

// variations of a story: on both stores, and with more grants of the key afterwards than are remembered.
func variations() (all []variation) {
	for on, begin := range map[string]func() *world{"pg": bank, "etcd": bankOnEtcd} {
		all = append(all, variation{", on " + on, begin, func(*world) {}}, variation{", long before the end, on " + on, begin, func(w *world) {
			w.nextToken = max(w.nextToken, 1000)
			for range maxTokens + 1 {
				w.acquire("executor-3", "alice")
			}
		}})
	}
	return all
}

// A client asked before its grant was answered and again after. The write of that name may be either's, until one is refused.
func TestAWriteThatWasAskedForBeforeTheGrantAndAgainAfter(t *testing.T) {
	refused := answer{status: 409, code: contract.PayoutNotClaimable}
	for _, c := range []struct {
		name              string
		story             func(w *world, early *request)
		found, unresolved int64
		doubt             bool
	}{
		{"neither is answered", func(w *world, early *request) {
			proper := w.ask("executor-1", contract.OpClaim, "p2", 60)
			w.execute(early)
			w.loseAnswer(early)
			w.loseAnswer(proper)
		}, 0, 1, true},
		{"the early one is refused", func(w *world, early *request) {
			early.answer = refused
			proper := w.ask("executor-1", contract.OpClaim, "p2", 60)
			w.reply(early)
			w.complete(proper)
		}, 0, 0, false},
		{"the early one is refused when the write is in the log", func(w *world, early *request) {
			early.answer = refused
			w.do("executor-1", contract.OpClaim, "p2", 60)
			w.reply(early)
		}, 0, 0, false},
		{"the one after is refused", func(w *world, early *request) {
			proper := w.ask("executor-1", contract.OpClaim, "p2", 60)
			w.execute(early)
			proper.answer = refused
			w.reply(proper)
			w.loseAnswer(early)
		}, 1, 0, false},
		{"the write is there before it asks again", func(w *world, early *request) {
			w.execute(early)
			w.loseAnswer(early)
			w.do("executor-1", contract.OpClaim, "p2", 60)
		}, 1, 0, false},
		{"it asks after for another payout only", func(w *world, early *request) {
			proper := w.ask("executor-1", contract.OpClaim, "p3", 60)
			w.execute(early)
			w.loseAnswer(early)
			w.loseAnswer(proper)
		}, 1, 0, false},
		{"it asks after more often than is remembered", func(w *world, early *request) {
			var proper []*request
			for range maxAlike + 1 {
				proper = append(proper, w.ask("executor-1", contract.OpClaim, "p2", 60))
			}
			w.execute(early)
			w.loseAnswer(early)
			for _, r := range proper[:maxAlike] {
				r.answer = refused
				w.reply(r)
			}
			w.loseAnswer(proper[maxAlike])
		}, 0, 1, true},
	} {
		for _, v := range variations() {
			t.Run(c.name+v.name, func(t *testing.T) {
				w := v.begin()
				others := judged(append([]history.Event{}, w.events...), nil)["INV-07"].Checked
				acquire := w.asksForAlice()
				w.grant(0, "executor-1", "alice", 60)
				early := w.ask("executor-1", contract.OpClaim, "p2", 60)
				w.answerAcquire(acquire, 60)
				c.story(w, early)
				v.then(w)
				w.watermarks()
				got := w.judgement()["INV-07"]
				if n := got.Checked + got.Unresolved; n != others+1 {
					t.Errorf("%d writes were judged or left open, want the %d before it and this one", n, others)
				}
				if got.Found != c.found || got.Unresolved != c.unresolved || (got.Doubt != "") != c.doubt {
					t.Errorf("%d found and %d left open, doubt %q, want %d, %d and %v: %s", got.Found, got.Unresolved, got.Doubt, c.found, c.unresolved, c.doubt, got.Reason)
				}
			})
		}
	}
}

// The rail's mark was raised and no attempt says for which payout, while one request under the token was early.
func TestAMarkThatNamesNoPayoutLeavesADoubtWhereARequestWasEarly(t *testing.T) {
	for name, early := range map[string]bool{"early": true, "proper": false} {
		t.Run(name, func(t *testing.T) {
			w := bank()
			acquire := w.asksForAlice()
			w.grant(0, "executor-1", "alice", 60)
			if early {
				w.loseAnswer(w.ask("executor-1", contract.OpSubmit, "p2", 60))
			}
			w.answerAcquire(acquire, 60)
			if !early {
				w.loseAnswer(w.ask("executor-1", contract.OpSubmit, "p2", 60))
			}
			w.commit(history.Change{Table: "rail_high_water", Kind: history.Insert, New: row{"account_id": "alice", "highest_token": "60"}})
			w.watermarks()
			if got := w.judgement()["INV-07"]; got.Found != 0 || (got.Doubt != "") != early {
				t.Errorf("%d found and %d left open, doubt %q, want 0 and a doubt: %v", got.Found, got.Unresolved, got.Doubt, early)
			}
		})
	}
}
