package invariant

import (
	"cmp"
	"fmt"
	"slices"

	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// Finish: what was not granted by now never was, where all three witnesses are whole.
func (f *granted) Finish(whole func(history.Witness) bool) {
	for _, w := range f.RestsOn() {
		f.open = f.open || !whole(w)
	}
	for _, by := range sortedAuthorships(f.unsigned) {
		w := f.unsigned[by]
		if w.token = by.payout.author(by.op).settle(); w.token != 0 {
			f.write(by.payout.account, w)
		} else {
			f.unresolved++
		}
	}
	for _, id := range sortedWrites(f.pending) {
		for _, w := range f.pending[id] {
			f.never(id, w)
		}
	}
	for _, id := range sortedWrites(f.suspects) {
		q := f.suspects[id]
		switch {
		case q.wrote == nil:
		case f.pending[id] != nil: // whose token nobody was heard to be granted: those are judged above
		case q.aside, f.open:
			f.unresolved++
		case q.maybe(): // the late answer may have told again what one that nobody saw had granted
			f.unresolved++
			f.doubt = fmt.Sprintf("account %s was written to with token %d (%s) before any answer was seen to grant it, and the answer to an earlier acquire of the key was lost: whether that one had granted it, nobody can tell",
				id.account.id, id.token, id.op)
		default:
			f.convict(id, q, *q.wrote)
		}
	}
}

// never judges a write whose token was not seen answered to anybody.
func (f *granted) never(id writeID, w signedWrite) {
	key := keyPrefix + id.account.id
	k := f.key(key)
	switch {
	case k.at(id.token) != 0, k.logged.has(id.token) && k.unknown != 0:
		f.checked++
		return
	case f.open, id.token <= k.forgotten, k.logged.has(id.token), k.logged.dropped(id.token): // by whoever went past the wiretap, or before it
		f.unresolved++
		return
	}
	if q := f.suspects[id]; q != nil && !q.aside {
		f.convict(id, q, w)
		return
	}
	f.checked++
	what := "which was never granted for key " + key
	for _, name := range sortedKeys(f.keys) {
		if f.keys[name].at(id.token) != 0 {
			what = fmt.Sprintf("which was granted for key %s and not for %s", name, key)
		}
	}
	wants := want{account: id.account.id, tokens: [2]int64{id.token}}
	if w.payout != nil {
		wants.payout = w.payout.id
	}
	f.report(fmt.Sprintf("account %s was written to with token %d (%s), %s", id.account.id, id.token, id.op, what), wants,
		w.show(), f.book.key(key).answered.event, id.account.payment.event, id.account.rail.event)
}

func (f *granted) Verdict() verdict.Invariant {
	v := f.verdict(map[string]int64{"superseded": f.superseded})
	v.Doubt = f.doubt
	return v
}

func sortedWrites[V any](m map[writeID]V) []writeID {
	var ids []writeID
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b writeID) int {
		switch {
		case a.account.id != b.account.id:
			return cmp.Compare(a.account.id, b.account.id)
		case a.token != b.token:
			return cmp.Compare(a.token, b.token)
		}
		return cmp.Compare(a.op, b.op)
	})
	return ids
}

func sortedAuthorships[V any](m map[authorship]V) []authorship {
	var by []authorship
	for a := range m {
		by = append(by, a)
	}
	slices.SortFunc(by, func(a, b authorship) int {
		if a.payout.id != b.payout.id {
			return cmp.Compare(a.payout.id, b.payout.id)
		}
		return cmp.Compare(a.op, b.op)
	})
	return by
}
