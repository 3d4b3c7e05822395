package invariant

import (
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// putBack begins the next epoch of the lock store's log: everybody was cut off, the log was read to its end, and the store
// was put back. rows are what it holds now.
func (w *world) putBack(epoch int, rows ...history.Change) {
	clear(w.grants)
	clear(w.sessions)
	if len(rows) > 0 {
		w.commitLock(epoch, rows...)
		w.events[len(w.events)-1].Msg = snapshot
	}
	proc := contract.LockDB
	if w.etcd {
		proc = "etcd"
	}
	w.record(history.Event{W: history.LockDB, Type: contract.Info, Proc: proc, Op: history.OpWatermark, Epoch: epoch, Covers: w.clock})
}

// reissue grants the account's key in an epoch, with a token of the test's choice, and answers it.
func (w *world) reissue(epoch int, proc, account string, token int64) {
	r := w.send(history.Event{Op: contract.OpAcquire, Proc: contract.Process(proc), Key: keyPrefix + account, Session: "session-" + proc})
	w.grant(epoch, proc, account, token)
	w.answerAcquire(r, token)
}

func TestAStoreThatWasMovedForwardBreaksNothing(t *testing.T) {
	for name, begin := range map[string]func() *world{"pg": bank, "etcd": bankOnEtcd} {
		t.Run(name, func(t *testing.T) {
			w := begin()
			w.acquire("executor-1", "alice")
			w.acquire("executor-2", "bob")
			w.release("bob")
			w.putBack(1)
			w.nextToken = 1 << 32
			w.reissue(1, "executor-3", "alice", 1<<32)
			w.reissue(1, "executor-2", "bob", 1<<32+2)
			sound(t, "INV-06", w.events, 0)
			if got := judged(w.events, nil)["INV-04"].Danger; got["regrants_across"] != 2 || got["issued_twice"] != 0 {
				t.Errorf("danger %v", got)
			}
		})
	}
}

// What a restored store holds was granted before. It is no grant of the new epoch, and what comes after it is above it.
func TestTheRowsOfASnapshotAreNoGrants(t *testing.T) {
	w := bank()
	token := w.acquire("executor-1", "alice")
	old := *w.grants["alice"]
	row := history.Change{Table: "lock_entry", Kind: history.Insert, New: w.grantRow("alice", &old)}
	w.putBack(1, row)
	if got := judged(w.events, nil)["INV-04"]; got.Found != 0 {
		t.Fatalf("%s: %s", got.Status, got.Reason)
	}
	waiting := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-2", Key: "payout:alice"})
	w.grants["alice"] = &old
	w.grant(1, "executor-2", "alice", token-1)
	w.loseAnswer(waiting)
	if got := judged(w.events, nil)["INV-04"]; !strings.Contains(got.Reason, "executor-2 was granted key payout:alice with token 43 after 44 had been granted") {
		t.Errorf("%s: %s", got.Status, got.Reason)
	}
}

// A grant of an earlier epoch stands for no answer of the next: neither one that the store lost, nor one that it still holds.
func TestAGrantOfAnEarlierEpochIsNotInTheLogOfTheNext(t *testing.T) {
	for _, held := range []bool{false, true} {
		w := bank()
		unheard := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1"})
		w.grant(0, "executor-1", "alice", 50)
		var rows []history.Change
		if held {
			rows = append(rows, history.Change{Table: "lock_entry", Kind: history.Insert, New: w.grantRow("alice", w.grants["alice"])})
		}
		w.loseAnswer(unheard)
		w.putBack(1, rows...)
		r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-2", Key: "payout:alice", Session: "session-executor-2"})
		w.answerAcquire(r, 50)
		w.watermarks()
		got := judged(w.events, nil)
		if !strings.Contains(got["INV-04"].Reason, "executor-2 was answered token 50 for key payout:alice, but the lock store's log has no such grant") {
			t.Errorf("held %t: INV-04 is %s: %s", held, got["INV-04"].Status, got["INV-04"].Reason)
		}
		if !strings.Contains(got["DUR-01"].Reason, "the effect was not in the lockdb log by then") {
			t.Errorf("held %t: DUR-01 is %s: %s", held, got["DUR-01"].Status, got["DUR-01"].Reason)
		}
	}
}

// What was answered must be in the log of its own epoch: that the next one holds the like is too late.
func TestAGrantOfALaterEpochDoesNotMakeUpForOneThatWasAnsweredBefore(t *testing.T) {
	w := bank()
	r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1"})
	w.answerAcquire(r, 50)
	clear(w.sessions)
	w.grant(1, "executor-1", "alice", 50) // the first that is seen of the epoch
	w.watermarks()
	got := judged(w.events, nil)
	for _, id := range []string{"INV-04", "DUR-01"} {
		if got[id].Status != verdict.Violated {
			t.Errorf("%s is %s: %s", id, got[id].Status, got[id].Reason)
		}
	}
}

// A call that was under way when the store was lost had its effect in the one epoch or in the other, or in none.
func TestACallThatSpansTwoEpochsIsLeftOpen(t *testing.T) {
	w := bank()
	r := w.send(history.Event{Op: contract.OpOpenSession, Proc: "executor-1", Session: "session-late"})
	w.putBack(1)
	r.answer = answer{status: 201}
	w.reply(r)
	w.watermarks()
	sound(t, "DUR-01", w.events, 1)
}

// A lock server that was stopped tells of a grant when the store has another epoch. Which of the two it is a grant of nobody
// knows. What had been answered before it was asked for is above it all the same.
func TestAGrantThatIsAnsweredInTheNextEpochIsLeftOpen(t *testing.T) {
	late := func(granted, answered int64) *world {
		w := bank()
		first := w.acquire("executor-1", "alice")
		w.release("alice")
		r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-2", Key: "payout:alice", Session: "session-executor-2"})
		w.grant(0, "executor-2", "alice", first+granted)
		w.putBack(1)
		w.answerAcquire(r, first+answered)
		w.reissue(1, "executor-3", "alice", first+granted+2)
		w.watermarks()
		return w
	}
	w := late(2, 2)
	sound(t, "INV-04", w.events, 1)
	if got := judged(w.events, nil)["INV-04"].Danger["issued_twice"]; got != 0 {
		t.Errorf("%d tokens were issued twice", got)
	}
	if got := judged(late(2, -2).events, nil)["INV-04"]; !strings.Contains(got.Reason, "executor-2 was answered token 42 for key payout:alice, although 44 had been answered before it asked") {
		t.Errorf("%s: %s", got.Status, got.Reason)
	}
}

// A release under a token explains nothing about another grant that bears the same token.
func TestAReleaseOfAnEarlierEpochEndsNoGrantOfTheNext(t *testing.T) {
	w := bank()
	token := w.acquire("executor-1", "alice")
	w.release("alice")
	w.putBack(1)
	w.reissue(1, "executor-2", "alice", token)
	g := w.grants["alice"]
	w.commitLock(1, history.Change{Table: "lock_entry", Kind: history.Delete, Old: w.grantRow("alice", g)})
	if got := judged(w.events, nil)["INV-06"]; !strings.Contains(got.Reason, "executor-2's grant of key payout:alice with token 44 ended before its expiry") {
		t.Errorf("%s: %s", got.Status, got.Reason)
	}
}

// An end that only the wiretap can explain is judged by what it saw, although the store's next epoch has begun.
func TestTheLastEndsOfAnEpochAreJudged(t *testing.T) {
	for name, begin := range map[string]func() *world{"pg": bank, "etcd": bankOnEtcd} {
		t.Run(name, func(t *testing.T) {
			w := begin()
			w.acquire("executor-1", "alice")
			w.free("alice")
			w.putBack(1)
			if got := judged(w.events, nil)["INV-06"]; got.Found != 1 {
				t.Errorf("%d found: %s", got.Found, got.Reason)
			}
		})
	}
}

// A session that had ended lives again where the store was put back to a time before that.
func TestASessionOnEtcdLivesByTheStoreThatWasPutBack(t *testing.T) {
	w := bankOnEtcd()
	w.acquire("executor-1", "alice")
	rows := w.held("alice")
	w.endSession("executor-1", "alice")
	w.putBack(1, rows...)
	w.pass(time.Millisecond)
	w.heartbeat("executor-1")
	sound(t, "INV-06", w.events, 0)
	l := driveOnEtcd()
	before := l.progress().Danger["dead_holders"]
	l.acquire("executor-1", "bob")
	rows = l.held("bob")
	r := l.send(history.Event{Op: contract.OpCloseSession, Proc: "executor-1", Session: "session-executor-1"})
	l.endSession("executor-1", "bob")
	r.answer = answer{status: 204}
	l.reply(r)
	l.putBack(1, rows...)
	l.pass(2 * time.Second)
	l.commitLock(1, history.Change{Table: "lock_entry", Kind: history.Delete, Old: rows[1].New})
	l.reissue(1, "executor-2", "bob", 100)
	if got := l.progress().Danger["dead_holders"]; got != before+1 {
		t.Errorf("%d dead holders, want %d", got, before+1)
	}
}

// On etcd a later grant of the same token lives although the earlier one has ended.
func TestARenewalOnEtcdIsOfTheGrantOfItsOwnEpoch(t *testing.T) {
	w := bankOnEtcd()
	token := w.acquire("executor-1", "alice")
	w.release("alice")
	w.putBack(1)
	r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1"})
	n := w.send(history.Event{Op: contract.OpRenew, Proc: "executor-1", Key: "payout:alice", Token: token, Session: "session-executor-1"})
	w.answerAcquire(r, token)
	w.answerAcquire(n, token)
	w.grant(1, "executor-1", "alice", token)
	if got := judged(w.events, nil)["INV-06"]; got.Found != 0 {
		t.Errorf("%s: %s", got.Status, got.Reason)
	}
}

func TestAKeyIsHeldByWhomTheRestoredStoreSays(t *testing.T) {
	for name, begin := range map[string]func() live{"pg": drive, "etcd": driveOnEtcd} {
		for _, c := range []struct {
			name  string
			held  bool // by the restored store
			found int64
		}{{"the restored store knows of nobody", false, 0}, {"the restored store knows of a holder, who died", true, 1}} {
			t.Run(name+", "+c.name, func(t *testing.T) {
				l := begin()
				l.acquire("executor-1", "alice")
				for range 4 { // his lease is no longer for it
					l.pass(900 * time.Millisecond)
					l.renew("alice")
				}
				var rows []history.Change
				if c.held {
					rows = l.held("alice")
				}
				l.pass(time.Second)
				l.putBack(1, rows...)
				l.watched(4 * time.Second)
				l.refused("executor-2")
				l.phase("collect")
				if got := l.progress(); got.Found != c.found {
					t.Errorf("%d found, want %d: %s", got.Found, c.found, got.Reason)
				}
			})
		}
	}
}

// A session that had beaten when the snapshot was taken is not alive for longer because of it.
func TestASessionOfTheRestoredStoreDiesByItsOwnTTL(t *testing.T) {
	w := bank()
	w.acquire("executor-1", "alice")
	created, expires := w.clock-int64(1000*time.Hour), w.clock+int64(time.Hour)
	w.putBack(1, history.Change{Table: "lock_session", Kind: history.Insert, New: w.sessionRow(&worldGrant{owner: "executor-1", session: "session-executor-1"}, created, expires)})
	w.pass(2 * time.Hour)
	w.beat("executor-1", expires)
	if got := judged(w.events, nil)["INV-06"]; !strings.HasPrefix(got.Reason, "session session-executor-1 beat at") {
		t.Errorf("%s: %s", got.Status, got.Reason)
	}
}
