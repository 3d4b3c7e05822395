package invariant

import (
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// judgedIDs are the invariants that a payout run is judged by, in their order.
var judgedIDs = []string{"INV-01", "INV-02", "INV-03", "INV-04", "INV-05"}

// judged runs a Judge over the events of a run whose fences were on, and gives the verdicts by id.
func judged(events []history.Event, gaps map[history.Witness]string) map[string]verdict.Invariant {
	return judgedUnder("on", events, gaps)
}

// judgement is judged, with the fences as they are in w.
func (w *world) judgement() map[string]verdict.Invariant {
	return judgedUnder(w.fencing(), w.events, nil)
}

// fencing names what w's fence points refuse.
func (w *world) fencing() string {
	switch {
	case w.paymentOff && w.railOff:
		return "off"
	case w.paymentOff:
		return "payment-off"
	case w.railOff:
		return "rail-off"
	}
	return "on"
}

// judgedUnder is judged, with the fences as named.
func judgedUnder(fencing string, events []history.Event, gaps map[history.Witness]string) map[string]verdict.Invariant {
	backend := "pg"
	for i := range events {
		if events[i].Proc == "etcd" {
			backend = "etcd"
		}
	}
	j := NewJudge(verdict.Settings{Workload: "payout", Backend: backend, Nemesis: "none", Fencing: fencing})
	for i := range events {
		j.Observe(&events[i])
	}
	out := map[string]verdict.Invariant{}
	for _, inv := range j.Conclude(gaps) {
		out[inv.ID] = inv
	}
	return out
}

// violated lists the ids that were violated.
func violated(verdicts map[string]verdict.Invariant) string {
	var ids []string
	for _, id := range judgedIDs {
		if verdicts[id].Status == verdict.Violated {
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, " ")
}

// bank is a world with two customers and a clearing account, a payout paid on each.
func bank() *world { return bankOn(newWorld()) }

// bankOnEtcd is a bank whose lock's store is etcd.
func bankOnEtcd() *world {
	w := newWorld()
	w.etcd = true
	return bankOn(w)
}

func bankOn(w *world) *world {
	w.openAccount("clearing", 0)
	w.openAccount("alice", 1000)
	w.openAccount("bob", 1000)
	for _, p := range []string{"p1", "p2", "p3"} {
		w.order(p, "alice", 100)
	}
	for _, p := range []string{"q1", "q2"} {
		w.order(p, "bob", 70)
	}
	w.pay("executor-1", "p1")
	w.pay("executor-2", "q1")
	return w
}

// stall pauses executor-1 with p2 before the step op, lets executor-2 take over and finish, and gives executor-1's token.
func stall(w *world, op contract.Op) int64 {
	t1 := w.acquire("executor-1", "alice")
	steps := []contract.Op{contract.OpClaim, contract.OpSubmitted, contract.OpSubmit, contract.OpOutcome, contract.OpPost}
	at := 0
	for ; steps[at] != op; at++ {
		w.do("executor-1", steps[at], "p2", t1)
	}
	t2 := w.acquire("executor-2", "alice")
	w.do("executor-2", contract.OpClaim, "p2", t2)
	for _, s := range steps[max(at, 1):] {
		w.do("executor-2", s, "p2", t2)
	}
	return t1
}

// healthy is a run with stalls before every step, at both fence points, and a lost answer.
func healthy() *world { return healthyOn(bank()) }

func healthyOn(w *world) *world {
	t1 := stall(w, contract.OpSubmit)
	w.do("executor-1", contract.OpSubmit, "p2", t1)
	w.do("executor-1", contract.OpOutcome, "p2", t1)
	t := w.acquire("executor-3", "alice")
	w.do("executor-3", contract.OpClaim, "p3", t)
	lost := w.ask("executor-3", contract.OpSubmitted, "p3", t)
	w.execute(lost)
	w.loseAnswer(lost)
	t = w.acquire("executor-1", "alice")
	w.do("executor-1", contract.OpClaim, "p3", t)
	w.do("executor-1", contract.OpClaim, "p3", t) // sent again
	w.do("executor-1", contract.OpSubmit, "p3", t)
	w.do("executor-1", contract.OpOutcome, "p3", t)
	t2 := w.acquire("executor-2", "alice")
	w.do("executor-2", contract.OpClaim, "p3", t2)
	w.do("executor-1", contract.OpPost, "p3", t)
	w.do("executor-2", contract.OpPost, "p3", t2)
	w.do("executor-2", contract.OpClaim, "p3", t2) // a replay behind its own post
	w.watermarks()
	return w
}

func TestAHealthyHistoryPassesWithItsDangerCounted(t *testing.T) {
	got := judged(healthy().events, nil)
	for _, id := range judgedIDs {
		if inv := got[id]; inv.Status != verdict.Pass || inv.Checked == 0 || inv.Unresolved != 0 {
			t.Errorf("%s is %s (%s), checked %d, unresolved %d; want a pass with nothing left open", id, inv.Status, inv.Reason, inv.Checked, inv.Unresolved)
		}
	}
	want := map[string]int64{"stale_refused_payment": 2, "stale_refused_rail": 1}
	for counter, n := range want {
		if got := got["INV-05"].Danger[counter]; got != n {
			t.Errorf("danger %s is %d, want %d", counter, got, n)
		}
	}
	if got := got["INV-04"].Danger["regrants"]; got < 3 {
		t.Errorf("regrants is %d, want at least 3", got)
	}
}

func TestATokenJustBelowItsSuccessorsIsCountedAsStaleThoughTheRefusalNamesItAsTheHighest(t *testing.T) {
	w := bank()
	t1 := w.acquire("executor-1", "alice")
	w.do("executor-1", contract.OpClaim, "p2", t1)
	w.nextToken = t1 + 1
	t2 := w.acquire("executor-2", "alice")
	w.do("executor-2", contract.OpClaim, "p2", t2)
	w.do("executor-1", contract.OpSubmitted, "p2", t1)
	w.watermarks()
	if got := judged(w.events, nil)["INV-05"].Danger["stale_refused_payment"]; got != 1 {
		t.Errorf("%d stale refusals were counted, want 1", got)
	}
}

func TestATokenThatItsOwnPostHasSpentIsNotStale(t *testing.T) {
	w := bank()
	token := w.acquire("executor-1", "alice")
	for _, op := range []contract.Op{contract.OpClaim, contract.OpSubmitted, contract.OpSubmit, contract.OpOutcome, contract.OpPost} {
		w.do("executor-1", op, "p2", token)
	}
	w.do("executor-1", contract.OpClaim, "p3", token)
	w.watermarks()
	got := judged(w.events, nil)["INV-05"]
	if got.Danger["stale_refused_payment"] != 0 || got.Status != verdict.Pass {
		t.Errorf("%d stale refusals were counted, status %s", got.Danger["stale_refused_payment"], got.Status)
	}
}

// wrong is a way to break an invariant: what the world does, which invariants fall, and words of the first sentence.
type wrong struct {
	name  string
	story func(w *world)
	falls string
	words map[string]string
}

func check(t *testing.T, cases []wrong) {
	t.Helper()
	checkOf(t, bank, cases)
	t.Run("on etcd", func(t *testing.T) { checkOf(t, bankOnEtcd, cases) })
}

func checkOf(t *testing.T, begin func() *world, cases []wrong) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := begin()
			c.story(w)
			w.watermarks()
			got := judged(w.events, nil)
			if v := violated(got); v != c.falls {
				t.Errorf("violated: %q, want %q", v, c.falls)
			}
			for _, inv := range got {
				for _, v := range inv.Violations {
					least := 3
					if strings.HasSuffix(v.Sentence, "is no payout's") { // nothing that is known led to it
						least = 1
					}
					if n := len(v.Events); n < least || n > maxEvidence {
						t.Errorf("%s: %q is proved by %d events, want %d to %d", inv.ID, v.Sentence, n, least, maxEvidence)
					}
				}
			}
			for id, words := range c.words {
				if vs := got[id].Violations; len(vs) == 0 || !strings.Contains(vs[0].Sentence, words) {
					t.Errorf("%s says %+v, want a sentence with %q", id, vs, words)
				}
			}
		})
	}
}

func TestTokenOrder(t *testing.T) {
	check(t, []wrong{
		{"a stale post lands behind a newer one", func(w *world) {
			w.paymentOff = true
			w.do("executor-1", contract.OpPost, "p2", stall(w, contract.OpPost))
		}, "INV-01 INV-03 INV-05", map[string]string{"INV-01": "executor-1 wrote to account alice with token 44 (post) after 46 had written (post)"}},
		{"a stale take-over stamps an older claim token", func(w *world) {
			w.paymentOff = true
			t1 := w.acquire("executor-1", "alice")
			t2 := w.acquire("executor-2", "alice")
			w.do("executor-2", contract.OpClaim, "p2", t2)
			w.do("executor-1", contract.OpClaim, "p2", t1)
		}, "INV-01 INV-05", map[string]string{"INV-01": "executor-1 wrote to account alice with token 44 (claim) after 46 had written (claim)"}},
		{"only the header of submitted tells that it was stale", func(w *world) {
			t1 := w.acquire("executor-1", "alice")
			w.do("executor-1", contract.OpClaim, "p2", t1)
			t2 := w.acquire("executor-2", "alice")
			w.do("executor-2", contract.OpClaim, "p2", t2)
			w.paymentOff = true
			w.do("executor-1", contract.OpSubmitted, "p2", t1)
		}, "INV-01 INV-05", map[string]string{"INV-01": "with token 44 (submitted) after 46"}},
		{"a stale outcome whose answer was lost has one possible author", func(w *world) {
			t1 := w.acquire("executor-1", "alice")
			w.do("executor-1", contract.OpClaim, "p2", t1)
			w.do("executor-1", contract.OpSubmitted, "p2", t1)
			late := w.ask("executor-1", contract.OpOutcome, "p2", t1)
			t2 := w.acquire("executor-2", "alice")
			w.do("executor-2", contract.OpClaim, "p2", t2)
			w.paymentOff = true
			w.execute(late)
			w.loseAnswer(late)
		}, "INV-01", map[string]string{"INV-01": "with token 44 (outcome) after 46"}},
		{"a request takes effect under a token below one that was answered before it was sent", func(w *world) {
			t1 := w.acquire("executor-1", "alice")
			t2 := w.acquire("executor-2", "alice")
			w.do("executor-2", contract.OpClaim, "p2", t2)
			r := w.ask("executor-1", contract.OpClaim, "p3", t1)
			r.answer = answer{status: 200}
			w.reply(r)
		}, "INV-01 INV-05", map[string]string{"INV-01": "executor-1's claim of payout p3 took effect with token 44, although 46 had been accepted"}},
	})
}

func TestAWriteThatTwoRequestsMayHaveMadeIsLeftOutAndCounted(t *testing.T) {
	w := bank()
	t1 := w.acquire("executor-1", "alice")
	w.do("executor-1", contract.OpClaim, "p2", t1)
	late := w.ask("executor-1", contract.OpSubmitted, "p2", t1)
	t2 := w.acquire("executor-2", "alice")
	w.do("executor-2", contract.OpClaim, "p2", t2)
	w.paymentOff = true
	w.execute(late)
	w.loseAnswer(late)
	w.loseAnswer(w.ask("executor-2", contract.OpSubmitted, "p2", t2))
	got := judged(w.events, nil)["INV-01"]
	if got.Status != verdict.Pass || got.Unresolved != 1 {
		t.Errorf("INV-01 is %s with %d unresolved, want a pass with 1", got.Status, got.Unresolved)
	}
}

func TestPaidOnce(t *testing.T) {
	check(t, []wrong{
		{"a stale submission moves money a second time", func(w *world) {
			w.railOff = true
			w.do("executor-1", contract.OpSubmit, "p2", stall(w, contract.OpSubmit))
		}, "INV-02 INV-05", map[string]string{"INV-02": "the rail moved money for payout p2 2 times: rail-3 and now rail-4"}},
		{"two submissions of a payout end ACKED", func(w *world) {
			stall(w, contract.OpSubmit)
			second := &attempt{id: "another", payout: "p2", token: 99}
			w.commit(w.attemptInsert(second))
			old := w.attemptRow(second)
			second.outcome = contract.OutcomeAcked
			w.commit(history.Change{Table: "rail_submission", Kind: history.Update, Old: old, New: w.attemptRow(second)})
		}, "INV-02", map[string]string{"INV-02": "payout p2 has two submissions with the final outcome ACKED"}},
	})
}

func TestAPayoutThatIsStillOpenOrAmbiguousIsLeftOutOfTheEnd(t *testing.T) {
	w := bank()
	t1 := w.acquire("executor-1", "alice")
	w.do("executor-1", contract.OpClaim, "p2", t1)
	w.do("executor-1", contract.OpSubmitted, "p2", t1)
	w.do("executor-1", contract.OpSubmit, "p2", t1) // money moved, and the answer is lost
	r := w.ask("executor-1", contract.OpOutcome, "p2", t1)
	r.reports = contract.OutcomeTimeout
	w.complete(r)
	if v := violated(judged(w.events, nil)); v != "" {
		t.Errorf("violated: %s, want nothing", v)
	}
}

func TestGrants(t *testing.T) {
	revoke := func(w *world, res string) {
		r := w.send(history.Event{Op: contract.OpRevoke, Proc: "operator", Key: "payout:alice"})
		r.answer = answer{status: 200, res: res}
		w.reply(r)
	}
	check(t, []wrong{
		{"a waiter is granted an older token", func(w *world) {
			waiting := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-2", Key: "payout:alice"})
			w.acquire("executor-1", "alice")
			w.grant(0, "executor-2", "alice", 43)
			w.answerAcquire(waiting, 43)
		}, "INV-04", map[string]string{"INV-04": "executor-2 was granted key payout:alice with token 43 after 44 had been granted"}},
		{"a take-over keeps the token of the dead holder", func(w *world) {
			waiting := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-2", Key: "payout:alice"})
			token := w.acquire("executor-1", "alice")
			w.grant(0, "executor-2", "alice", token)
			w.answerAcquire(waiting, token)
		}, "INV-04", map[string]string{"INV-04": "key payout:alice was granted twice with token 44, the second time to executor-2"}},
		{"the answered token is not the logged one", func(w *world) {
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice"})
			w.grant(0, "executor-1", "alice", 50)
			w.answerAcquire(r, 51)
		}, "INV-04", map[string]string{"INV-04": "executor-1 was answered token 51 for key payout:alice, but the lock store's log has no such grant"}},
		{"a restored store issues a token again", func(w *world) {
			w.acquire("executor-1", "alice")
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-2", Key: "payout:alice"})
			w.grant(1, "executor-2", "alice", 41)
			w.answerAcquire(r, 41)
		}, "INV-04", map[string]string{"INV-04": "executor-2 was answered token 41 for key payout:alice, although 44 had been answered before it asked"}},
		{"renewing issues another token", func(w *world) {
			token := w.acquire("executor-1", "alice")
			r := w.send(history.Event{Op: contract.OpRenew, Proc: "executor-1", Key: "payout:alice", Token: token})
			w.answerAcquire(r, token+1)
		}, "INV-04", map[string]string{"INV-04": "executor-1 renewed key payout:alice with token 44 and was answered token 45"}},
		{"a revoke leaves the floor at the revoked token", func(w *world) {
			w.acquire("executor-1", "alice")
			revoke(w, `{"revokedToken":44,"newTokenFloor":44,"revocationId":1}`)
		}, "INV-04", map[string]string{"INV-04": "does not exceed the revoked token 44"}},
		{"a grant below the floor of a revoke", func(w *world) {
			w.acquire("executor-1", "alice")
			revoke(w, `{"revokedToken":44,"newTokenFloor":60,"revocationId":1}`)
			w.acquire("executor-2", "alice")
		}, "INV-04", map[string]string{"INV-04": "executor-2 was answered token 46 for key payout:alice, although a revoke had raised its floor to 60"}},
		{"a revoke enters the revoked token as its floor", func(w *world) {
			revoked := w.acquire("executor-1", "alice")
			held := w.grantRow("alice", w.grants["alice"])
			delete(w.grants, "alice")
			w.commitLock(0, history.Change{Table: "lock_entry", Kind: history.Delete, Old: held}, history.Change{Table: "lock_revocation", Kind: history.Insert,
				New: row{"lock_key": "payout:alice", "prev_token": itoa(revoked), "token_floor": itoa(revoked)}})
		}, "INV-04", map[string]string{"INV-04": "a revoke of key payout:alice took token 44 and set the floor to 44, not above it"}},
		{"a grant that was under way is entered below the floor of a revoke", func(w *world) {
			revoked := w.acquire("executor-1", "alice")
			waiting := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-2", Key: "payout:alice"})
			held := w.grantRow("alice", w.grants["alice"])
			delete(w.grants, "alice")
			w.commitLock(0, history.Change{Table: "lock_entry", Kind: history.Delete, Old: held}, history.Change{Table: "lock_revocation", Kind: history.Insert,
				New: row{"lock_key": "payout:alice", "prev_token": itoa(revoked), "token_floor": "60"}})
			w.grant(0, "executor-2", "alice", revoked+1)
			w.answerAcquire(waiting, revoked+1)
		}, "INV-04", map[string]string{"INV-04": "executor-2 was granted key payout:alice with token 45 after a revoke had raised its floor to 60"}},
	})
}
