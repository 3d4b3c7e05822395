package run

import (
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/invariant"
	"fenceproof/checker/verdict"
)

func TestAnEventThatTheJudgeHoldsBackIsBehindUntilItIsJudged(t *testing.T) {
	now := int64(0)
	m := &lagMeter{now: func() int64 { return now }, judge: invariant.NewJudge(verdict.Settings{})}
	m.start()
	see := func(at int64, e history.Event) {
		now, e.T = at, at-1
		m.judge.Observe(&e)
		m.observe(&e)
	}
	see(10, history.Event{W: history.Logs, Op: history.OpLog})
	// Nobody knows yet whose payout this is: it waits for paydb, and what comes behind it on the wire waits, too.
	see(20, history.Event{W: history.Wiretap, Op: contract.OpClaim, Stage: history.Forwarded, Call: 1, Payout: "p", Token: 1})
	see(30, history.Event{W: history.Wiretap, Op: contract.OpHeartbeat, Stage: history.Received, Call: 2})
	see(1000, history.Event{W: history.PayDB, Op: history.OpWatermark, Covers: 999})
	got := m.stop()
	if got.Events != 4 || got.Max != 1000-19*time.Nanosecond || got.Median != 1 {
		t.Errorf("%+v", got)
	}
}

func TestWhatIsStillHeldBackAtTheEndCountsAsBehind(t *testing.T) {
	now := int64(0)
	m := &lagMeter{now: func() int64 { return now }, judge: invariant.NewJudge(verdict.Settings{})}
	m.start()
	e := history.Event{W: history.Wiretap, Op: contract.OpClaim, Stage: history.Forwarded, Call: 1, Payout: "p", Token: 1, T: 5}
	m.judge.Observe(&e)
	m.observe(&e)
	now = 505
	if got := m.stop(); got.Events != 1 || got.Max != 500 {
		t.Errorf("%+v", got)
	}
	if got := (&lagMeter{}).stop(); got != (Lag{}) {
		t.Errorf("nothing was measured: %+v", got)
	}
}
