// Package invariant judges a history. Each invariant is one fold in one file: it takes the events one after the other
// and says at any time what it has found. The same fold runs while the system runs and over the files afterwards.
//
// Events come in order of I. Within one witness that order is real: the order of commits, of lines in the journal, of
// requests forwarded and answered. Across witnesses it is only the order of arrival: a commit is recorded some
// milliseconds before or after the answer to the request that made it. So no fold ever concludes anything from the
// arrival order of two witnesses. A fact that needs the other witness waits for it; what needs something to be absent
// waits for the other's watermark or for the end.
//
// docs/invariants.md says for each invariant what it rests on, how it is judged and what it cannot see.
package invariant

import (
	"slices"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// Fold judges one invariant. Its memory grows with accounts, keys, payouts and open operations, never with events. A
// Fold is not safe for several goroutines; a Judge is.
type Fold interface {
	// RestsOn lists the witnesses without which the invariant cannot be judged.
	RestsOn() []history.Witness
	// Observe takes the next event. It keeps nothing of e but copies.
	Observe(e *history.Event)
	// Finish comes after the last event, once. Now what was waited for is known to be absent, but only where the
	// evidence of the witness that would have shown it is whole.
	Finish(whole func(history.Witness) bool)
	// Verdict is what has been found so far: counts and violations. Status and reason are left to verdict.Decide.
	Verdict() verdict.Invariant
}

// folds makes the folds that apply to a run's workload, in the order of their verdicts. Another invariant is another file
// and a line here.
func folds(b *book, t *tally, s verdict.Settings) []Fold {
	var held Fold = newLeases(b, t)
	if onEtcd(s) {
		held = newEtcdLeases(b, t)
	}
	if s.Workload == lockWorkload {
		return []Fold{newGrants(b, t), held, newProgress(b, t, s), newDurable(b, t, s)}
	}
	return []Fold{
		newTokenOrder(b, t), newPaidOnce(b, t), newBalance(b, t), newGrants(b, t), newFencePoints(b, t),
		held, newGranted(b, t), newStates(b, t), newProgress(b, t, s), newDeadlines(b, t, s), newDurable(b, t, s),
	}
}

// lockWorkload is the workload without payouts: where no money moves, nothing can be said about money. Its clients come
// late on purpose, so SDK-01 does not apply to it either.
const lockWorkload = "lock"

// onEtcd tells whether the lock's store is etcd. Its log has the rows that lockdb has, but no times in them and no
// renewals.
func onEtcd(s verdict.Settings) bool { return s.Backend == "etcd" }

// tally is shared by all folds of a Judge: how much was found, and what first.
type tally struct {
	found   int64
	firstID string
	first   verdict.Violation
}

// findings is the part of every fold that counts and keeps violations.
type findings struct {
	id        string
	guarantee string
	book      *book
	tally     *tally

	checked    int64
	unresolved int64
	found      int64
	across     int64 // of found, those across the beginning of an epoch
	kept       []verdict.Violation
	wants      []want // parallel to kept
}

// want says which events explain a kept violation: those that present, were granted, or name one of the tokens.
type want struct {
	account, payout, key string
	tokens               [2]int64
	op                   contract.Op // what was done wrongly, under the first token
}

// report counts a violation, and keeps it with its evidence while there are few.
func (f *findings) report(sentence string, w want, proof ...*history.Event) {
	f.add(verdict.Violation{Sentence: sentence}, w, proof)
}

// reportAcross is report for what a lock store explains that has forgotten, at the beginning of its epoch, what it granted
// before. Where there are many, they give way to what nothing explains.
func (f *findings) reportAcross(sentence string, w want, proof ...*history.Event) {
	f.across++
	f.add(verdict.Violation{Sentence: sentence, Across: true}, w, proof)
}

func (f *findings) add(v verdict.Violation, w want, proof []*history.Event) {
	f.found++
	f.tally.found++
	if n := f.lastAcross(); len(f.kept) >= verdict.MaxViolations && !v.Across && n >= 0 {
		f.kept, f.wants = slices.Delete(f.kept, n, n+1), slices.Delete(f.wants, n, n+1)
	}
	if f.tally.firstID != "" && len(f.kept) >= verdict.MaxViolations {
		return
	}
	v.Account, v.Payout, v.Key, v.Events = w.account, w.payout, w.key, f.book.evidence(w, proof)
	if f.tally.firstID == "" {
		f.tally.firstID, f.tally.first = f.id, v
	}
	if len(f.kept) < verdict.MaxViolations {
		f.kept, f.wants = append(f.kept, v), append(f.wants, w)
	}
}

// lastAcross is the last kept violation across the beginning of an epoch, −1 where there is none.
func (f *findings) lastAcross() int {
	for n := len(f.kept) - 1; n >= 0; n-- {
		if f.kept[n].Across {
			return n
		}
	}
	return -1
}

// explain adds e to the kept violations that it explains and that still have room. Witnesses run ahead of one another,
// so the answer to a write often arrives after the commit that proved it wrong.
func (f *findings) explain(e *history.Event) {
	if len(f.kept) == 0 || e.W != history.Wiretap {
		return
	}
	for i := range f.kept {
		if v, w := &f.kept[i], &f.wants[i]; len(v.Events) < w.room(e) && w.explainedBy(e, f.book.accountOf(e)) {
			v.Events = insertEvent(v.Events, abridged(e))
		}
	}
}

// withdraw takes everything back that was found and leaves it undecided. Only a Finish may, for what absence had shown.
func (f *findings) withdraw() {
	f.unresolved += f.found
	f.tally.found -= f.found
	f.found, f.across, f.kept, f.wants = 0, 0, nil, nil
	if f.tally.firstID == f.id {
		f.tally.firstID, f.tally.first = "", verdict.Violation{}
	}
}

func (f *findings) verdict(danger map[string]int64) verdict.Invariant {
	return verdict.Invariant{
		ID: f.id, Guarantee: f.guarantee, Checked: f.checked, Danger: danger,
		Unresolved: f.unresolved, Found: f.found, Across: f.across, Violations: f.kept,
	}
}
