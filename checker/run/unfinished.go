package run

import (
	"fmt"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// unfinished follows the payouts that are not at their end, as paydb's log shows them. It holds no others.
type unfinished struct {
	payouts map[string]stay
	end     int64 // when the drain was over; until then, when the last event came
	drained bool
}

// stay is a state and since when a payout is in it, on the harness's clock.
type stay struct {
	state contract.State
	since int64
}

func (u *unfinished) observe(e *history.Event) {
	if !u.drained {
		u.end = e.T
	}
	switch {
	case e.W == history.Run && e.Op == history.OpPhase && e.Msg == "collect":
		u.drained = true
	case e.W == history.PayDB && e.Op == history.OpCommit:
		for _, c := range e.Changes {
			if c.Table == "payout" && c.New != nil {
				u.enter(c.New["payout_id"], contract.State(c.New["state"]), e.T)
			}
		}
	}
}

func (u *unfinished) enter(payout string, s contract.State, at int64) {
	if u.payouts == nil {
		u.payouts = map[string]stay{}
	}
	switch {
	case s.Terminal():
		delete(u.payouts, payout)
	case u.payouts[payout].state != s:
		u.payouts[payout] = stay{s, at}
	}
}

// open counts the payouts of which nobody knows how they would have ended: those that somebody was still at work on, and
// the ambiguous ones that the reconciler should have resolved by then. One that is in its window is where it belongs.
func (u *unfinished) open(patience time.Duration) (n int64) {
	for _, p := range u.payouts {
		if p.state != contract.RailAmbiguous || u.end-p.since > int64(patience) {
			n++
		}
	}
	return n
}

// The services' variables that say how long an ambiguous payout may stay one.
const (
	windowVariable   = "RECONCILER_SETTLEMENTWINDOW"
	intervalVariable = "RECONCILER_INTERVAL"
	leaseVariable    = "LOCK_DEFAULT_TTL"
)

// ambiguousFor is how long a payout may be ambiguous in a run with settings s: until the first round sees it, the window,
// the round that finds it over, and the wait for a lock that a dead holder has. Where a history's settings do not say, an
// ambiguous payout may stay one.
func ambiguousFor(s verdict.Settings) time.Duration {
	var d [3]time.Duration
	for i, name := range []string{windowVariable, intervalVariable, leaseVariable} {
		var err error
		if d[i], err = time.ParseDuration(s.Services[name]); err != nil {
			return 1<<63 - 1
		}
	}
	return d[0] + 3*d[1] + 2*d[2]
}

// sentence says how many payouts were open, "" for none.
func (u *unfinished) sentence(s verdict.Settings) string {
	n := u.open(ambiguousFor(s))
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d payouts were still open when the drain ended", n)
}
