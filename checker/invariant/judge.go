package invariant

import (
	"cmp"
	"fmt"
	"maps"
	"sync"

	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// Judge runs all folds over one history. Its methods may be called from several goroutines: one observes, others ask how
// things stand.
type Judge struct {
	mu       sync.Mutex
	settings verdict.Settings
	book     *book
	tally    tally
	folds    []Fold
	gaps     map[history.Witness]string // places lost on the way
	held     []history.Event            // wiretap events behind one that waits for paydb
	absent   map[history.Witness]bool   // witnesses that nobody recorded
	mute     bool                       // paydb was silent for so long that nothing waits for it any more
	verdicts []verdict.Invariant        // set by Conclude
}

// Counts is how a run stands: payouts by state, refusals by resource type, completed calls by operation.
type Counts struct {
	Payouts    map[string]int64
	Refusals   map[string]int64
	Operations map[string]int64
	Events     int64
}

// NewJudge makes a Judge for one run with these settings, which decide what danger a pass needs.
func NewJudge(s verdict.Settings) *Judge {
	j := &Judge{settings: s, book: newBook(), gaps: map[history.Witness]string{}, absent: map[history.Witness]bool{}}
	j.folds = folds(j.book, &j.tally, s)
	return j
}

// Judged lists the invariants that are folds and that a history with settings s is judged by.
func Judged(s verdict.Settings) (ids []string) {
	for _, f := range NewJudge(s).folds {
		ids = append(ids, f.Verdict().ID)
	}
	return ids
}

// NotRecorded says which witnesses the history does not have, because nobody recorded them. It comes before the first
// Observe. What rests on them is not exercised unless the others prove a violation, and nothing waits for them.
func (j *Judge) NotRecorded(witnesses ...history.Witness) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range witnesses {
		j.absent[w], j.book.lost[w] = true, true
		for _, f := range j.folds {
			f.Observe(&history.Event{W: w, Op: history.OpLostPlace})
		}
	}
}

// Observe takes the next event, in order of I. Afterwards e may be used again, but what its maps hold must not change.
func (j *Judge) Observe(e *history.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.Op == history.OpLostPlace && e.Event != history.Missing { // of what is missing the reader tells in the end
		j.gap(e.W, e.Msg)
	}
	if e.W == history.Wiretap && e.Op != history.OpLostPlace {
		if len(j.held) > 0 || j.mustWait(e) {
			j.held = append(j.held, *e)
			j.release(false)
			return
		}
	}
	j.deliver(e)
	if len(j.held) > 0 && e.W == history.PayDB {
		j.release(false)
	}
}

// gap notes that w's evidence is not whole; the first reason counts.
func (j *Judge) gap(w history.Witness, why string) {
	if j.gaps[w] == "" {
		j.gaps[w] = cmp.Or(why, "the witness lost its place")
	}
}

// maxHeld bounds how many events wait for paydb. Beyond it the paydb witness is no witness, and calls are taken without
// knowing their accounts.
const maxHeld = 1 << 14

// mustWait tells whether nobody knows yet whose payout the request is about. Its row was committed before the request
// could name it, so paydb's log will show it, at the latest before its watermark passes the request. Later wiretap
// events wait behind, which keeps their order.
func (j *Judge) mustWait(e *history.Event) bool {
	if j.mute || !e.Op.AtPayment() || e.Account != "" || e.Payout == "" || e.Stage == history.Received {
		return false
	}
	p := j.book.payouts[e.Payout]
	return (p == nil || p.account == nil) && !covered(j.book.covers[history.PayDB], e.T) && !j.book.lost[history.PayDB]
}

// release delivers the held events that need not wait any more.
func (j *Judge) release(all bool) {
	if !j.mute && len(j.held) > maxHeld {
		j.mute = true
		j.gap(history.PayDB, fmt.Sprintf("it was more than %d events behind the wiretap", maxHeld))
	}
	n := 0
	for n < len(j.held) && (all || !j.mustWait(&j.held[n])) {
		j.deliver(&j.held[n])
		n++
	}
	if n == 0 {
		return
	}
	rest := copy(j.held, j.held[n:])
	clear(j.held[rest:])
	j.held = j.held[:rest]
}

func (j *Judge) deliver(e *history.Event) {
	j.book.heard = e.T
	if len(j.held) > 0 {
		j.book.heard = j.held[0].T
	}
	j.book.enter(e)
	for _, f := range j.folds {
		f.Observe(e)
	}
	j.book.leave(e)
	for w, why := range j.book.holes {
		j.gap(w, why)
	}
}

// Waiting is the T of the earliest event that was observed and is not judged yet, because it waits for paydb; ok is false
// when none is.
func (j *Judge) Waiting() (t int64, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.held) == 0 {
		return 0, false
	}
	return j.held[0].T, true
}

// Found is how many violations have been found so far. None is taken back but by Conclude, where it turns out that what
// it rests on may only have got lost.
func (j *Judge) Found() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.tally.found
}

// First is the violation that was found first and the invariant that it violates; ok is false while there is none.
func (j *Judge) First() (id string, v verdict.Violation, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.tally.firstID, j.tally.first, j.tally.firstID != ""
}

// Counts says how the run stands.
func (j *Judge) Counts() Counts {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := j.book
	c := Counts{Payouts: map[string]int64{}, Refusals: maps.Clone(b.refusals), Operations: map[string]int64{}, Events: b.events + int64(len(j.held))}
	for s, n := range b.states {
		if n != 0 {
			c.Payouts[string(s)] = n
		}
	}
	for op, n := range b.operations {
		c.Operations[string(op)] = n
	}
	return c
}

// Conclude ends the history and gives the verdict on every invariant. gaps says which witnesses' evidence is not whole
// and why, as a history's reader found it; places lost on the way are known already. Observe must not follow; a second
// Conclude gives the first one's verdicts.
func (j *Judge) Conclude(gaps map[history.Witness]string) []verdict.Invariant {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.verdicts != nil {
		return j.verdicts
	}
	j.release(true)
	for w, why := range gaps {
		if j.gaps[w] == j.book.holes[w] { // a file that is cut off is the cause, and that something lacks in it the symptom
			delete(j.gaps, w)
		}
		j.gap(w, why)
	}
	if _, gap := j.gaps[history.Wiretap]; !gap && len(j.book.calls) > 0 {
		j.gap(history.Wiretap, fmt.Sprintf("%d calls were forwarded and have no end", len(j.book.calls)))
	}
	whole := func(w history.Witness) bool { _, gap := j.gaps[w]; return !gap && !j.absent[w] }
	for _, c := range j.book.calls {
		if a := c.author(); a != nil { // never answered: it may have had its effect
			a.maybe(c.token)
		}
	}
	for _, f := range j.folds {
		f.Finish(whole)
	}
	for _, f := range j.folds {
		inv, missing := f.Verdict(), map[history.Witness]string{}
		for _, w := range f.RestsOn() {
			switch {
			case j.absent[w]:
				inv.Unrecorded = append(inv.Unrecorded, w)
			case !whole(w):
				missing[w] = j.gaps[w]
			}
		}
		j.verdicts = append(j.verdicts, verdict.Decide(inv, missing, j.settings))
	}
	return j.verdicts
}

// Gaps says, after Conclude, which witnesses' evidence is not whole and why.
func (j *Judge) Gaps() map[string]string {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := map[string]string{}
	for w, why := range j.gaps {
		out[string(w)] = why
	}
	return out
}
