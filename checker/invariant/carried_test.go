package invariant

import (
	"fmt"
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// held are the rows of the account's holder, as a snapshot of the store has them.
func (w *world) held(account string) []history.Change {
	g := w.grants[account]
	return []history.Change{{Table: "lock_session", Kind: history.Insert, New: w.sessionRow(g, g.acquired, g.acquired+worldSession)},
		{Table: "lock_entry", Kind: history.Insert, New: w.grantRow(account, g)}}
}

// carryOver begins the next epoch with a store that still holds the account's grant.
func (w *world) carryOver(epoch int, account string) {
	g := w.grants[account]
	w.putBack(epoch, w.held(account)...)
	w.grants[account], w.sessions[fmt.Sprint(g.session, " ", epoch)] = g, true
}

// A grant that a store has carried over is judged by what was said of it in the epoch in which it was granted.
func TestAGrantThatIsCarriedOverEndsLikeAnyOther(t *testing.T) {
	// told lets executor-1 be granted alice's key; the store begins another epoch and still has the grant.
	told := func(w *world) {
		w.acquire("executor-1", "alice")
		w.carryOver(1, "alice")
	}
	release := func(w *world) *request {
		g := w.grants["alice"]
		return w.send(history.Event{Op: contract.OpRelease, Proc: "executor-1", Key: "payout:alice", Token: g.token, Session: g.session})
	}
	for _, c := range []struct {
		name       string
		story      func(w *world)
		found      int64
		unresolved int64
	}{
		{"it ends early, and somebody had been told of it", func(w *world) {
			told(w)
			w.free("alice")
		}, 1, 0},
		{"it ends early, two epochs later", func(w *world) {
			told(w)
			w.carryOver(2, "alice")
			w.free("alice")
		}, 1, 0},
		{"it is renewed, and ends early", func(w *world) {
			told(w)
			w.renew("alice")
			w.free("alice")
		}, 1, 0},
		{"it ends early, and nobody had been told of it", func(w *world) {
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1"})
			w.grant(0, "executor-1", "alice", 60)
			w.loseAnswer(r)
			w.carryOver(1, "alice")
			w.free("alice")
		}, 0, 0},
		{"it ends early, and its acquire is answered then", func(w *world) {
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1"})
			w.grant(0, "executor-1", "alice", 60)
			w.carryOver(1, "alice")
			w.answerAcquire(r, 60)
			w.free("alice")
		}, 1, 0},
		{"it is released", func(w *world) {
			told(w)
			w.release("alice")
		}, 0, 0},
		{"it had been released before, and nobody had heard what became of that", func(w *world) {
			w.acquire("executor-1", "alice")
			r := release(w)
			w.loseAnswer(r)
			w.carryOver(1, "alice")
			w.free("alice")
		}, 0, 1},
		{"its session ends", func(w *world) {
			told(w)
			w.endSession("executor-1", "alice")
		}, 0, 0},
		{"another grant had its token", func(w *world) {
			token := w.acquire("executor-1", "alice")
			w.release("alice")
			w.grants["alice"] = &worldGrant{owner: "executor-2", session: "session-executor-2", token: token, acquired: w.clock, expires: w.clock + worldLease}
			w.carryOver(1, "alice")
			w.free("alice")
		}, 0, 0},
		{"too many were granted since", func(w *world) {
			w.acquire("executor-1", "alice")
			g := *w.grants["alice"]
			w.release("alice")
			for range maxTokens {
				w.acquire("executor-2", "alice")
				w.release("alice")
			}
			g.expires = w.clock + worldLease
			w.grants["alice"] = &g
			w.carryOver(1, "alice")
			w.free("alice")
		}, 0, 1},
		{"it is asked for in one epoch, and granted in the next", func(w *world) {
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1"})
			w.putBack(1)
			w.grant(1, "executor-1", "alice", 60)
			w.answerAcquire(r, 60)
			w.free("alice")
		}, 1, 0},
		{"another grant had its token, and its answer came late", func(w *world) {
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1"})
			w.grant(0, "executor-1", "alice", 60)
			w.putBack(1)
			unheard := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-2", Key: "payout:alice", Session: "session-executor-2"})
			w.grant(1, "executor-2", "alice", 60)
			w.loseAnswer(unheard)
			w.answerAcquire(r, 60)
			w.free("alice")
		}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := bank()
			c.story(w)
			w.watermarks()
			got := judged(w.events, nil)["INV-06"]
			if got.Found != c.found || got.Unresolved != c.unresolved {
				t.Errorf("%d found and %d left open, want %d and %d: %s", got.Found, got.Unresolved, c.found, c.unresolved, got.Reason)
			}
			if c.found > 0 && !strings.HasPrefix(got.Reason, "executor-1's grant of key payout:alice with token") {
				t.Errorf("%s", got.Reason)
			}
		})
	}
}

// etcd says nothing of when a lease began anew that it was put back with.
func TestAGrantThatEtcdWasPutBackWithMayEndAtAnyTime(t *testing.T) {
	for name, c := range map[string]struct {
		story func(w *world)
		found int64
		open  int64
	}{
		"it ends": {func(w *world) { w.free("alice") }, 0, 1},
		"it is renewed, and ends": {func(w *world) {
			w.renewed("alice", w.grants["alice"])
			w.free("alice")
		}, 1, 0},
		"its session is granted the key again": {func(w *world) { w.grant(1, "executor-1", "alice", 60) }, 0, 1},
	} {
		w := bankOnEtcd()
		w.acquire("executor-1", "alice")
		w.carryOver(1, "alice")
		c.story(w)
		w.watermarks()
		if got := judged(w.events, nil)["INV-06"]; got.Found != c.found || got.Unresolved != c.open {
			t.Errorf("%s: %d found, %d left open: %s", name, got.Found, got.Unresolved, got.Reason)
		}
	}
}
