package invariant

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// grantedAt is an acquire that was forwarded at a time, and its grant's commit, its answer and a watermark of lockdb's log that covers
// so much, all of them recorded in this order and with another time. A clock may be as coarse as that.
func grantedAt(sent, at, covers int64, order [3]history.Event) []history.Event {
	w := newWorld()
	w.openSession(0, &worldGrant{owner: "executor-1", session: "session-executor-1"})
	w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1"})
	for i := range w.events {
		w.events[i].T = sent
	}
	for _, e := range order {
		if e = w.record(e); e.Op == "" {
			w.events = w.events[:len(w.events)-1] // it is left out
			continue
		}
		x := &w.events[len(w.events)-1]
		if x.T = at; x.Op == history.OpWatermark {
			x.Covers = covers
		}
	}
	return w.events
}

// parts are the commit of a grant, its answer and a watermark.
func parts() (commit, answer, mark history.Event) {
	w := newWorld()
	r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1"})
	w.grant(0, "executor-1", "alice", 50)
	commit = w.events[len(w.events)-1]
	w.answerAcquire(r, 50)
	answer = w.events[len(w.events)-2]
	return commit, answer, history.Event{W: history.LockDB, Type: contract.Info, Proc: contract.LockDB, Op: history.OpWatermark}
}

// A watermark covers what was committed before its time. What was committed at that very time may be recorded behind it, and may
// have been committed before an answer of the same time.
func TestACommitAtTheTimeOfItsAnswerAndOfAWatermarkMayHaveComeFirst(t *testing.T) {
	c, a, m := parts()
	for _, times := range [][2]int64{{0, 0}, {0, 5}, {1, 5}, {5, 5}} {
		for i, order := range [][3]history.Event{{c, a, m}, {c, m, a}, {a, c, m}, {a, m, c}, {m, c, a}, {m, a, c}} {
			t.Run(fmt.Sprint("sent and answered at ", times, ", in order ", i), func(t *testing.T) {
				sound(t, "DUR-01", grantedAt(times[0], times[1], times[1], order), 0)
			})
		}
	}
	for i, order := range [][3]history.Event{{a, m, c}, {m, a, c}, {m, c, a}} {
		if v := fallen(judged(grantedAt(1, 5, 6, order), nil)); v != "INV-04 DUR-01" && (i < 2 || v != "DUR-01") {
			t.Errorf("order %d, and the watermark covers the answer: violated %q", i, v)
		}
	}
}

// No time is too late to be judged at the end.
func TestAtTheEndAnAnswerOfAnyTimeMustHaveItsEffect(t *testing.T) {
	_, a, _ := parts()
	for _, at := range []int64{5, math.MaxInt64 - 1, math.MaxInt64} {
		if v := fallen(judged(grantedAt(1, at, 0, [3]history.Event{a}), nil)); v != "INV-04 DUR-01" {
			t.Errorf("at %d: violated %q, want INV-04 DUR-01", at, v)
		}
	}
}

// atZero gives everything the time at which a run begins.
func atZero(events []history.Event) {
	for i := range events {
		events[i].T = 0
	}
}

// Time begins with 0, and before the first epoch there was none.
func TestWhatIsSaidAtTimeZeroIsSaidInTheFirstEpoch(t *testing.T) {
	for _, zero := range []bool{false, true} {
		t.Run(fmt.Sprint("an early end, at zero ", zero), func(t *testing.T) {
			w := newWorld()
			w.acquire("executor-1", "alice")
			if zero {
				atZero(w.events)
			}
			w.free("alice")
			w.watermarks()
			if v := fallen(judged(w.events, nil)); v != "INV-06" {
				t.Errorf("violated %q, want INV-06", v)
			}
		})
		t.Run(fmt.Sprint("a grant that is not in the log, at zero ", zero), func(t *testing.T) {
			w := newWorld()
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1"})
			if zero {
				atZero(w.events)
			}
			w.answerAcquire(r, 50)
			w.watermarks()
			got := judged(w.events, nil)
			if n := got["INV-04"]; n.Found != 1 || n.Unresolved != 0 {
				t.Errorf("INV-04: %d found and %d left open, want 1 and 0", n.Found, n.Unresolved)
			}
			if n := got["DUR-01"]; n.Found != 1 || n.Unresolved != 0 {
				t.Errorf("DUR-01: %d found and %d left open, want 1 and 0", n.Found, n.Unresolved)
			}
		})
		t.Run(fmt.Sprint("a standby that lacks it all, at zero ", zero), func(t *testing.T) {
			p := standing()
			if zero {
				atZero(p.events)
			}
			p.kept = map[string]history.Change{}
			p.failover("failover")
			if got := p.durability(); got.Found != 4 || !strings.Contains(got.Reason, "knows nothing of it") {
				t.Errorf("%d found, want 4: %s", got.Found, got.Reason)
			}
		})
	}
}

// Without the call's forwarding nobody knows when it was sent.
func TestAnAnswerToACallThatWasNotSeenForwardedIsLeftOpen(t *testing.T) {
	_, a, m := parts()
	events := slices.DeleteFunc(grantedAt(1, 5, 6, [3]history.Event{a, m}), func(e history.Event) bool { return e.Stage == history.Forwarded })
	if got := judged(events, nil)["DUR-01"]; got.Found != 0 || got.Unresolved != 1 {
		t.Errorf("%d found and %d left open, want 0 and 1", got.Found, got.Unresolved)
	}
}

// A request may be recorded at the very time that paydb's watermark covers, and the row that names its account behind that.
func TestARequestAtTheTimeOfAWatermarkWaitsForItsPayoutsRow(t *testing.T) {
	w := bank()
	token := w.acquire("executor-1", "alice")
	r := w.ask("executor-1", contract.OpClaim, "late", token)
	w.record(history.Event{W: history.PayDB, Type: contract.Info, Proc: contract.PayDB, Op: history.OpWatermark, Covers: w.clock})
	w.order("late", "alice", 5)
	w.complete(r)
	w.watermarks()
	sound(t, "INV-01", w.events, 0)
}
