package invariant

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// take writes a grant of the account over whatever stands there, at once, and answers it.
func (w *world) take(proc, account string) int64 {
	r := w.send(history.Event{Op: contract.OpAcquire, Proc: contract.Process(proc), Key: keyPrefix + account, Session: "session-" + proc})
	token := w.nextToken
	w.nextToken += 2
	g := &worldGrant{owner: proc, session: "session-" + proc, token: token, acquired: w.clock, expires: w.clock + worldLease}
	w.openSession(0, g)
	c := history.Change{Table: "lock_entry", Kind: history.Insert, New: w.grantRow(account, g)}
	if old := w.grants[account]; old != nil {
		c.Kind, c.Old = history.Update, w.grantRow(account, old)
	}
	w.grants[account] = g
	w.commitLock(0, c)
	w.answerAcquire(r, token)
	return token
}

// endSession deletes the session of proc's grants, and the grants of the accounts with it.
func (w *world) endSession(proc string, accounts ...string) {
	g := &worldGrant{owner: proc, session: "session-" + proc}
	cs := []history.Change{{Table: "lock_session", Kind: history.Delete, Old: w.sessionRow(g, w.clock, w.clock+worldSession)}}
	for _, a := range accounts {
		cs = append(cs, history.Change{Table: "lock_entry", Kind: history.Delete, Old: w.grantRow(a, w.grants[a])})
		delete(w.grants, a)
	}
	w.commitLock(0, cs...)
}

// beat extends proc's session to a second from now.
func (w *world) beat(proc string, before int64) int64 {
	g := &worldGrant{owner: proc, session: "session-" + proc}
	expires := w.clock + worldSession
	w.commitLock(0, history.Change{Table: "lock_session", Kind: history.Update, Old: w.sessionRow(g, w.clock, before), New: w.sessionRow(g, w.clock, expires)})
	return expires
}

func TestLeases(t *testing.T) {
	refusedRelease := func(w *world, proc, account string, token int64) {
		r := w.send(history.Event{Op: contract.OpRelease, Proc: contract.Process(proc), Key: keyPrefix + account, Token: token})
		w.free(account)
		r.answer = answer{status: 409, code: contract.LockLost}
		w.reply(r)
	}
	tellOf(t, bank, []wrong{
		{"a key is granted while another session holds it", func(w *world) {
			w.take("executor-1", "alice")
			w.take("executor-2", "alice")
		}, "INV-06", map[string]string{"INV-06": "executor-2 was granted key payout:alice with token 46 at"}},
		{"a lapsed grant is renewed", func(w *world) {
			w.acquire("executor-1", "alice")
			w.clock = w.grants["alice"].expires
			w.renew("alice")
		}, "INV-06", map[string]string{"INV-06": "executor-1 renewed key payout:alice with token 44 at"}},
		{"a stale release frees the next holder's key", func(w *world) {
			stale := w.acquire("executor-1", "alice")
			w.acquire("executor-2", "alice")
			refusedRelease(w, "executor-1", "alice", stale)
		}, "INV-06", map[string]string{"INV-06": "executor-2's grant of key payout:alice with token 46 ended before its expiry"}},
		{"a grant outlives its session", func(w *world) {
			w.acquire("executor-1", "alice")
			w.acquire("executor-1", "bob")
			w.endSession("executor-1", "bob")
		}, "INV-06", map[string]string{"INV-06": "session session-executor-1 ended, but its grant of key payout:alice with token 44 did not end in the same commit"}},
		{"a session that had ended is granted a key", func(w *world) {
			w.endSession("executor-1")
			w.acquire("executor-1", "alice")
		}, "INV-06", map[string]string{"INV-06": "executor-1 was granted key payout:alice with token 44 in session session-executor-1, which had ended"}},
		{"a session that has expired and is not reaped yet is granted a key", func(w *world) {
			w.acquire("executor-4", "alice")
			w.release("alice")
			w.clock += 2 * worldSession
			w.acquire("executor-4", "alice")
		}, "INV-06", map[string]string{"INV-06": "executor-4 was granted key payout:alice with token 46 at"}},
		{"a session beats after it had expired", func(w *world) {
			w.acquire("executor-4", "alice")
			opened := w.clock + worldSession
			expires := w.beat("executor-4", opened)
			w.clock = expires + worldLease
			w.beat("executor-4", expires)
		}, "INV-06", map[string]string{"INV-06": "session session-executor-4 beat at"}},
		{"a grant is answered that had been taken back", func(w *world) {
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice"})
			w.grant(0, "executor-1", "alice", 60)
			w.free("alice")
			w.pay("executor-2", "q2")
			w.answerAcquire(r, 60)
		}, "INV-06", map[string]string{"INV-06": "executor-1 was answered token 60 for key payout:alice, which had ended before its expiry"}},
	})
}

func TestAGrantEndsEarlyForMoreThanOneGoodReason(t *testing.T) {
	for name, story := range map[string]func(w *world){
		"its holder releases it": func(w *world) {
			w.acquire("executor-1", "alice")
			w.release("alice")
		},
		"its holder releases it and hears nothing": func(w *world) {
			token := w.acquire("executor-1", "alice")
			r := w.send(history.Event{Op: contract.OpRelease, Proc: "executor-1", Key: "payout:alice", Token: token})
			w.free("alice")
			w.loseAnswer(r)
		},
		"its session ends": func(w *world) {
			w.acquire("executor-1", "alice")
			w.endSession("executor-1", "alice")
		},
		"it is revoked": func(w *world) {
			token := w.acquire("executor-1", "alice")
			g := w.grants["alice"]
			delete(w.grants, "alice")
			w.commitLock(0, history.Change{Table: "lock_entry", Kind: history.Delete, Old: w.grantRow("alice", g)},
				history.Change{Table: "lock_revocation", Kind: history.Insert, New: row{"lock_key": "payout:alice", "prev_token": itoa(token)}})
		},
		"it has expired and is reaped": func(w *world) {
			w.acquire("executor-1", "alice")
			w.clock = w.grants["alice"].expires
			w.free("alice")
		},
		"nobody was told of it": func(w *world) {
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice"})
			w.grant(0, "executor-1", "alice", 60)
			w.free("alice")
			w.loseAnswer(r)
		},
		"its own session enters again": func(w *world) {
			w.take("executor-1", "alice")
			w.take("executor-1", "alice")
		},
		"it is renewed at the last moment": func(w *world) {
			w.acquire("executor-1", "alice")
			w.clock = w.grants["alice"].expires - 1000
			w.renew("alice")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := bank()
			story(w)
			w.watermarks()
			sound(t, "INV-06", w.events, 0)
		})
	}
}

// While the clock of lockdb goes back, a transaction that began before the step compares with a time that lies ahead.
func TestATransactionThatSpansAStepOfTheClockIsLeftOutAndCounted(t *testing.T) {
	back := func(w *world, by int64) { w.events[len(w.events)-1].Committed -= by / 1000 }
	t.Run("a take-over", func(t *testing.T) {
		w := bank()
		w.take("executor-1", "alice")
		w.take("executor-2", "alice")
		for i := range w.events {
			if e := &w.events[i]; e.W == history.LockDB && e.Op == history.OpCommit && e.Changes[0].Kind == history.Update && e.Changes[0].New["fencing_token"] == "46" {
				e.Committed -= 2_000_000
			}
		}
		sound(t, "INV-06", w.events, 1)
	})
	t.Run("the reaper", func(t *testing.T) {
		w := bank()
		w.acquire("executor-1", "alice")
		w.clock = w.grants["alice"].expires + 1000
		w.acquire("executor-2", "bob") // the clock had been so far
		w.free("alice")
		back(w, int64(2*worldLease))
		sound(t, "INV-06", w.events, 1)
	})
	t.Run("no time of commit", func(t *testing.T) {
		w := bank()
		w.acquire("executor-1", "alice")
		w.free("alice")
		w.events[len(w.events)-1].Committed = 0
		sound(t, "INV-06", w.events, 1)
	})
}

func TestARestoredStoreBeginsWithTheRowsOfItsOwnEpoch(t *testing.T) {
	w := bank()
	w.acquire("executor-1", "alice")
	g := &worldGrant{owner: "executor-2", session: "session-executor-2", token: 70, acquired: w.clock, expires: w.clock + worldLease}
	w.commitLock(1, history.Change{Table: "lock_session", Kind: history.Insert, New: w.sessionRow(g, w.clock, w.clock+worldSession)},
		history.Change{Table: "lock_entry", Kind: history.Insert, New: w.grantRow("bob", g)})
	w.events[len(w.events)-1].Msg = snapshot
	w.grants["bob"] = g
	w.commitLock(1, history.Change{Table: "lock_entry", Kind: history.Delete, Old: w.grantRow("bob", g)}, history.Change{Table: "lock_revocation", Kind: history.Insert, New: row{"lock_key": "payout:bob", "prev_token": "70"}})
	sound(t, "INV-06", w.events, 0)
}
