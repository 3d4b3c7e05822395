// LIVE-01: once all is healed every payout comes to its end in time, and a dead holder's key is granted again.

package invariant

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// progress is judged by the harness's monotonic clock, when the run has ended. The time that the payouts get grows with
// how many were open when all was healed. Whoever is still within his time when the run ends has broken nothing, and
// neither has anybody while the harness itself stood still: then nobody can know.
type progress struct {
	findings
	limits   limits
	pulse    pulse
	payouts  map[*payout]*journey
	keys     reclaiming
	alive    bool           // the history has signs of life of the harness
	healed   *history.Event // the drain began: all faults are over
	over     *history.Event // the services are stopped, or the run was cut short
	low      int64          // T of the first token behind the healing that only a store grants which has forgotten; 0 for none
	doubt    string
	waitable func(contract.State) bool // somebody is there to take a payout in this state further
}

// reclaiming watches the keys of holders that died.
type reclaiming interface {
	observe(e *history.Event)
	finish()
	regranted() int64    // how many keys of dead holders were granted again
	lastElection() int64 // when the store's latest election had been, 0 without one: it lengthens leases
}

// journey is when a payout began, was first claimed and ended, by the harness's clock; 0 for not yet.
type journey struct {
	born, claimed, ended int64
	state                contract.State
	last                 commitMark
}

// limits are the parts of the time that payouts get, and of the time that a dead holder's key gets.
type limits struct {
	fixed     time.Duration
	window    time.Duration // how long a payout may be RAIL_AMBIGUOUS where somebody resolves it
	executors int
}

// Parts of the bounds that are no setting.
const (
	reaper  = time.Second     // until a session that has expired is reaped
	reclaim = 2 * time.Second // beyond its TTL, until a dead holder's key is granted again to those who ask for it
	standby = time.Second     // how long the harness may stand still
)

func newProgress(b *book, t *tally, s verdict.Settings) *progress {
	times := leaseTimesOf(s)
	f := &progress{
		findings: findings{id: "LIVE-01", guarantee: "Once all is healed every payout comes to its end within its time, and a dead holder's key is granted again to those who ask for it.", book: b, tally: t},
		limits:   limits{fixed: times.session + reaper + times.lock, executors: max(1, s.Executors)},
		payouts:  map[*payout]*journey{},
	}
	f.keys = &reclaims{progress: f, keys: map[string]*claimedKey{}}
	if onEtcd(s) {
		f.keys = newEtcdReclaims(f)
	}
	_, reconciled := s.Services["RECONCILER_SETTLEMENTWINDOW"]
	if reconciled {
		// The first round after it became ambiguous sees it, and the first after the window resolves it; each may have to wait
		// for a lock that a dead holder has.
		lag, _ := strconv.Atoi(s.Services["RAIL_STUB_LOOKUPLAGMS"]) // 0 where the run does not say
		settled := setting(s, "RECONCILER_SETTLEMENTWINDOW", 0) + 3*setting(s, "RECONCILER_INTERVAL", 0) + time.Duration(lag)*time.Millisecond
		f.limits.fixed += settled
		f.limits.window = settled + 2*times.lock
	}
	f.waitable = func(s contract.State) bool { return !s.Terminal() && (reconciled || s != contract.RailAmbiguous) }
	return f
}

func (f *progress) RestsOn() []history.Witness {
	return []history.Witness{history.PayDB, history.LockDB, history.Wiretap, history.Run}
}

func (f *progress) Observe(e *history.Event) {
	f.explain(e)
	f.pulse.observe(e)
	f.behindFences(e)
	switch {
	case e.W == history.PayDB && e.Op == history.OpCommit:
		for i := range f.book.txn.payouts {
			f.step(&f.book.txn.payouts[i], e)
		}
	case e.W == history.Run:
		f.phase(e)
	default:
		f.keys.observe(e)
	}
}

// behindFences sees whether tokens are still below those of an earlier epoch when all is healed. The fences, which stand no
// higher than tokens that were answered, refuse whoever has such a one: until the tokens have come past them nobody gets on,
// on the account or, while executors are busy with that, on another.
func (f *progress) behindFences(e *history.Event) {
	c := f.book.call
	if f.healed == nil || f.low != 0 || e.W != history.Wiretap || e.Op != contract.OpAcquire || e.Stage != history.Answered || e.Type != contract.OK || c == nil {
		return
	}
	if before := c.ever.granted; e.Granted <= before.token && f.book.forgettable(before, e) {
		f.low = e.T
	}
}

func (f *progress) phase(e *history.Event) {
	switch {
	case e.Op == history.OpAlive:
		f.alive = true
	case e.Op == history.OpPhase && e.Msg == "drain":
		f.healed = f.book.keep(e)
	case f.over == nil && (e.Op == history.OpInterrupted || e.Op == history.OpPhase && e.Msg == "collect"):
		f.over = f.book.keep(e)
	}
}

func (f *progress) step(c *payoutChange, e *history.Event) {
	j := f.payouts[c.payout]
	if j == nil {
		j = &journey{born: e.T}
		f.payouts[c.payout] = j
	}
	if j.claimed == 0 && c.to == contract.Claimed {
		j.claimed = e.T
	}
	if open := f.waitable(c.to); open {
		j.ended = 0
	} else if j.ended == 0 {
		j.ended = e.T
	}
	if j.state != c.to {
		j.state, j.last = c.to, markOf(e)
	}
}

// Finish judges the payouts that were open when all was healed.
func (f *progress) Finish(whole func(history.Witness) bool) {
	f.keys.finish()
	due, open := f.due()
	still := 0
	for _, id := range sortedKeys(f.book.payouts) {
		p := f.book.payouts[id]
		j := f.payouts[p]
		switch {
		case j == nil:
		case j.ended != 0 && (f.healed == nil || j.ended <= due):
			f.checked++
		case f.over != nil && f.inWindow(j):
			f.unresolved++
		case f.healed == nil || f.over == nil || !whole(history.PayDB):
			still++
		case j.ended == 0 && f.over.T <= due:
			still++
		case !f.alive:
			f.doubt = "a payout came to its end late or never, and the history does not say whether the harness stood still meanwhile"
		case f.pulse.stood(f.healed.T, f.until(j)) > standby:
			f.doubt = fmt.Sprintf("the harness stood still for %s while the payouts came to their ends", f.pulse.stood(f.healed.T, f.until(j)).Round(time.Millisecond))
		default:
			f.late(p, j, due, open)
		}
	}
	if still > 0 && f.doubt == "" {
		f.doubt = f.unfinished(still, due)
	}
}

// inWindow tells whether the run ended while a payout waited for its settlement: that is where it belongs.
func (f *progress) inWindow(j *journey) bool {
	return j.ended == 0 && j.state == contract.RailAmbiguous && f.over.T-j.last.t <= int64(f.limits.window)
}

// until is when a payout ended, or the run.
func (f *progress) until(j *journey) int64 {
	if j.ended != 0 {
		return j.ended
	}
	return f.over.T
}

func (f *progress) unfinished(still int, due int64) string {
	noun := "payouts were"
	if still == 1 {
		noun = "payout was"
	}
	switch {
	case f.over != nil && f.over.Op == history.OpInterrupted:
		return fmt.Sprintf("%d %s still open when the run was cut short", still, noun)
	case f.healed == nil || f.over == nil:
		return fmt.Sprintf("%d %s still open when the history ended", still, noun)
	}
	return fmt.Sprintf("%d %s still open when the drain ended, %s before the time was up", still, noun, since(f.over.T, due))
}

func (f *progress) late(p *payout, j *journey, due int64, open int) {
	f.checked++
	w := want{payout: p.id, tokens: [2]int64{p.token}}
	if p.account != nil {
		w.account = p.account.id
	}
	what := fmt.Sprintf("was still %s", j.state)
	if j.ended != 0 {
		what = fmt.Sprintf("became %s only", j.state)
	}
	report := f.report
	if f.low != 0 && f.low <= due {
		report = f.reportAcross
	}
	report(fmt.Sprintf("payout %s %s %s after all was healed; with %d payouts open then it had %s", p.id, what, since(f.healed.T, f.until(j)), open, since(f.healed.T, due)),
		w, f.healed, j.last.show("payout", map[string]string{"payout_id": p.id, "state": string(j.state)}), f.over)
}

// due is when the last payout has to be at its end, and how many were open when all was healed. The payouts of one
// account are served one after the other, so the account with the most of them may set the pace. A later election of the
// lock's store begins the time anew, as it does with every lease.
func (f *progress) due() (at int64, open int) {
	if f.healed == nil {
		return 0, 0
	}
	var served []int64
	of := map[*account]int{}
	most := 0
	for p, j := range f.payouts {
		if j.claimed != 0 && j.ended > j.claimed {
			served = append(served, j.ended-j.claimed)
		}
		if j.born <= f.healed.T && (j.ended == 0 || j.ended > f.healed.T) {
			open++
			of[p.account]++
			most = max(most, of[p.account])
		}
	}
	if len(served) == 0 {
		served = []int64{int64(time.Second)} // nothing was ever served: a guess in the system's favour
	}
	slices.Sort(served)
	median := time.Duration(served[len(served)/2])
	load := 3 * max(median*time.Duration(open)/time.Duration(f.limits.executors), median*time.Duration(most))
	return max(f.healed.T, f.keys.lastElection()) + int64(f.limits.fixed+load), open
}

func (f *progress) Verdict() verdict.Invariant {
	v := f.verdict(map[string]int64{"dead_holders": f.keys.regranted()})
	v.Doubt = f.doubt
	return v
}
