package invariant

import (
	"fmt"

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
	rows    map[string]keyRow // of the present epoch, by key: what a commit of it has made of each
	old     map[string]keyRow // of the one before, until they have been compared with what the present one began with

	waited   *history.Event      // the beginning of a failover to a standby that every commit was to wait for, until the next epoch
	failed   *history.Event      // the same of the failover that began the present epoch
	answered map[string]accepted // the latest grant of each key that was answered in the present epoch
	promised map[string]accepted // of the one before, where every commit was to wait for the standby
	forgot   []accepted          // what the event in hand shows to be lost of that, in the order of its keys
}

// keyRow is a key's row as far as it is compared.
type keyRow struct {
	token   int64
	expires string
}

func newFailovers() failovers {
	return failovers{rows: map[string]keyRow{}, answered: map[string]accepted{}}
}

func (f *failovers) hear(b *book, e *history.Event) {
	switch {
	case e.W == history.Wiretap && e.Stage == history.Answered && e.Op == contract.OpAcquire && e.Type == contract.OK:
		f.highest = max(f.highest, e.Granted)
		if last := f.answered[e.Key]; e.Granted > last.token {
			last.raise(e.Granted, b.keep(e))
			f.answered[e.Key] = last
		}
	case e.W == history.Nemesis && (e.Op == "failover" || e.Op == "failover-async"):
		switch e.Phase {
		case "inject":
			if f.waited = nil; e.Op == "failover" {
				f.waited = b.keep(e)
			}
		case "seen":
			f.seen++
		}
	case e.W == history.LockDB && e.Op == history.OpCommit:
		f.commit(e)
	}
}

// begin begins an epoch.
func (f *failovers) begin() {
	f.before, f.old, f.rows, f.promised = f.highest, f.rows, map[string]keyRow{}, nil
	if f.waited != nil {
		f.promised = f.answered
	}
	f.answered, f.failed, f.waited = map[string]accepted{}, f.waited, nil
}

// commit follows the rows of the keys.
func (f *failovers) commit(e *history.Event) {
	f.forgot = f.forgot[:0]
	if f.old != nil && e.Msg != snapshot { // what the epoch began with held no rows
		f.compare()
	}
	for i := range e.Changes {
		c := &e.Changes[i]
		switch {
		case c.Table != "lock_entry":
		case c.New == nil:
			delete(f.rows, c.Old["lock_key"])
		default:
			f.rows[c.New["lock_key"]] = keyRow{history.Int(c.New["fencing_token"]), c.New["expires_at"]}
		}
	}
	if f.old != nil {
		f.compare()
	}
}

// compare tells what the epoch began with from what the one before ended with. A standby has its primary's commits in their
// order, so one that holds an older grant of a key, or none although the key had not been given back, lacks the later ones.
func (f *failovers) compare() {
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
	for _, key := range sortedKeys(f.promised) {
		promised, has := f.promised[key], f.rows[key].token
		if has > 0 && has < promised.token || has == 0 && f.old[key].token == promised.token {
			f.forgot = append(f.forgot, promised)
		}
	}
	f.old, f.promised = nil, nil
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

// forgotten: a standby that every commit was to wait for was promoted, and knows nothing of grants that were answered.
func (f *durable) forgotten(e *history.Event) {
	for _, lost := range f.book.failovers.forgot {
		f.checked++
		f.report(fmt.Sprintf("%s was answered token %d for key %s, and the standby that was promoted in lockdb's place knows nothing of it, although every commit was to wait for it",
			lost.event.Proc, lost.token, lost.event.Key), want{key: lost.event.Key, tokens: [2]int64{lost.token}}, lost.event, f.book.failovers.failed, f.book.keep(e))
	}
}
