package invariant

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// churn is rounds of everything that can happen again and again to the same accounts, keys and payouts.
func churn(w *world, rounds int, each func()) {
	for n := range rounds {
		t1 := w.acquire("executor-1", "alice")
		w.do("executor-1", contract.OpClaim, "p2", t1)
		t2 := w.acquire("executor-2", "alice")
		w.do("executor-2", contract.OpClaim, "p2", t2)
		w.do("executor-2", contract.OpClaim, "p2", t2)     // a replay
		w.do("executor-1", contract.OpSubmitted, "p2", t1) // stale
		w.do("executor-1", contract.OpSubmit, "p1", t1)    // a duplicate
		w.do("executor-2", contract.OpSubmit, "p1", t2)
		w.do("executor-1", contract.OpSubmit, "p1", t1) // stale
		lost := w.ask("executor-2", contract.OpOutcome, "p1", t2)
		w.loseAnswer(lost)
		unanswered := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-3", Key: "payout:bob"})
		w.grant(0, "executor-3", "bob", int64(1000+n))
		w.loseAnswer(unanswered)
		w.release("bob")
		w.record(history.Event{W: history.Logs, Op: history.OpLog, Event: "fenced_out"})
		w.watermarks()
		each()
		w.events = w.events[:0]
	}
}

// passingSession is a session that is opened, granted a key, kept alive, and closed for good.
func (w *world) passingSession() {
	g := &worldGrant{owner: "executor-4", session: fmt.Sprint("passing-", w.clock), token: w.clock, acquired: w.clock, expires: w.clock + worldLease}
	w.commitLock(0, history.Change{Table: "lock_session", Kind: history.Insert, New: w.sessionRow(g, w.clock, w.clock)})
	r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-4", Key: "payout:carol", Session: g.session})
	w.commitLock(0, history.Change{Table: "lock_entry", Kind: history.Insert, New: w.grantRow("carol", g)})
	w.answerAcquire(r, g.token)
	w.renewed("carol", g)
	w.loseAnswer(w.askRenewal("carol", g))
	w.answered(history.Event{Op: contract.OpHeartbeat, Proc: "executor-4", Session: g.session}, answer{status: 200})
	r = w.send(history.Event{Op: contract.OpCloseSession, Proc: "executor-4", Session: g.session})
	w.commitLock(0, history.Change{Table: "lock_session", Kind: history.Delete, Old: w.sessionRow(g, w.clock, w.clock)},
		history.Change{Table: "lock_entry", Kind: history.Delete, Old: w.grantRow("carol", g)})
	r.answer = answer{status: 204}
	w.reply(r)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestMemoryDoesNotGrowWithEvents(t *testing.T) {
	for backend, w := range map[string]*world{"pg": bank(), "etcd": bankOnEtcd()} {
		t.Run(backend, func(t *testing.T) { keepsItsMemory(t, w, verdict.Settings{Backend: backend}) })
	}
}

func keepsItsMemory(t *testing.T, w *world, s verdict.Settings) {
	j := NewJudge(s)
	observe := func() {
		if w.etcd {
			w.passingSession()
		}
		for i := range w.events {
			w.events[i].I = 0 // only the order counts
			j.Observe(&w.events[i])
		}
		w.stored = map[string]answer{} // the world's own memory is not the Judge's
	}
	observe()
	w.events = w.events[:0]
	churn(w, 3000, observe)
	before, events := heap(), j.Counts().Events
	churn(w, 6000, observe)
	after := heap()
	more := j.Counts().Events - events
	if grown := after - before; grown > 256<<10 {
		t.Errorf("%d more events about the same accounts, keys and payouts took %d KiB more", more, grown>>10)
	}
	if more < 100_000 {
		t.Errorf("only %d events", more)
	}
	if v := j.Violated(); !slices.Equal(v, []string{"INV-04"}) { // the second churn grants bob's key with the tokens of the first
		t.Errorf("violated: %v", v)
	}
	runtime.KeepAlive(j)
}

// BenchmarkFolds judges a payout run; an op is one event. Beside it stands what reading the same events costs.
func BenchmarkFolds(b *testing.B) {
	w := bank()
	for i := range 2000 {
		account := fmt.Sprintf("account-%d", i%12)
		if i < 12 {
			w.openAccount(account, 1<<40)
		}
		id := fmt.Sprintf("payout-%d", i)
		w.order(id, account, 100)
		w.pay(fmt.Sprintf("executor-%d", i%6+1), id)
		delete(w.payouts, id) // the world looks through its payouts; the Judge does not
		if i%4 == 0 {
			w.watermarks()
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	var j *Judge
	for n := 0; n < b.N; n++ {
		i := n % len(w.events)
		if i == 0 {
			j = NewJudge(verdict.Settings{})
		}
		j.Observe(&w.events[i])
	}
	b.StopTimer()
	if j.Found() > 0 {
		b.Fatal("the run is not healthy")
	}
}
