package invariant

import (
	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// failovers counts what the promotions of lockdb's standby were good for. That one serves now, the nemesis' word is taken for;
// what it lacks of what its primary had, the lock store's log tells, and the wiretap what of that had been answered.
type failovers struct {
	seen int64 // standbys that were seen to serve in lockdb's place
	lost int64 // tokens that had been answered and of which the promoted server knew nothing
	back int64 // rows of keys that the promoted server had in another state than its primary, whoever had been told

	highest int64             // token that was answered to an acquire so far
	before  int64             // the same when the epoch began, until its first grant shows where its tokens go on
	rows    map[string]string // of the present epoch, by key: what a commit of it has made of each
	old     map[string]string // of the one before, until the present one's snapshot has been compared with them
}

func newFailovers() failovers { return failovers{rows: map[string]string{}} }

func (f *failovers) hear(e *history.Event) {
	switch {
	case e.W == history.Wiretap && e.Stage == history.Answered && e.Op == contract.OpAcquire && e.Type == contract.OK:
		f.highest = max(f.highest, e.Granted)
	case e.W == history.Nemesis && (e.Op == "failover" || e.Op == "failover-async") && e.Phase == "seen":
		f.seen++
	case e.W == history.LockDB && e.Op == history.OpCommit:
		f.commit(e)
	}
}

// begin begins an epoch.
func (f *failovers) begin() {
	f.before, f.old, f.rows = f.highest, f.rows, map[string]string{}
}

// commit follows the rows of the keys.
func (f *failovers) commit(e *history.Event) {
	for i := range e.Changes {
		c := &e.Changes[i]
		switch {
		case c.Table != "lock_entry":
		case c.New == nil:
			delete(f.rows, c.Old["lock_key"])
		default:
			f.rows[c.New["lock_key"]] = c.New["fencing_token"] + " " + c.New["expires_at"]
		}
	}
	if f.old == nil {
		return
	}
	if e.Msg != snapshot { // it held no rows, but for this one's
		f.old = nil
		return
	}
	for key, row := range f.old {
		if f.rows[key] != row {
			f.back++
		}
	}
	for key := range f.rows {
		if _, was := f.old[key]; !was {
			f.back++
		}
	}
	f.old = nil
}

// granted takes the tokens of a commit that is no snapshot: the first of an epoch is where its store went on.
func (f *failovers) granted(grants []grant) {
	if f.before == 0 || len(grants) == 0 {
		return
	}
	f.lost += max(0, f.before-grants[0].token+1)
	f.before = 0
}

// counts are the counters as a fold shows them: nothing of them where no standby took over.
func (f *failovers) counts() map[string]int64 {
	if f.seen == 0 {
		return nil
	}
	return map[string]int64{"failovers": f.seen, "tokens_lost": f.lost, "rows_set_back": f.back}
}
