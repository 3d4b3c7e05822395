package invariant

import (
	"cmp"
	"fmt"
	"maps"
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
		author := by.payout.author(by.op)
		if w.token = author.token; !f.book.lost[history.Wiretap] { // which has seen every request that can have made it
			w.token = author.settle()
		}
		switch {
		case w.token == 0:
			f.anonymous(by)
		case author.vouchedFor(w.token) && f.suspects[w.of(by.payout.account)] == nil: // its grant may be forgotten by now
			f.checked++
		default:
			f.write(by.payout.account, w)
		}
	}
	for _, under := range sortedTokens(f.pending) {
		waiting := f.pending[under]
		delete(f.pending, under)
		var convicted []writeID
		for _, w := range waiting {
			if id := w.of(under.account); !slices.Contains(convicted, id) && f.never(id, w) {
				convicted = append(convicted, id)
			}
		}
	}
	for _, id := range sortedWrites(f.suspects) {
		if q := f.suspects[id]; q.wrote != nil && q.late {
			f.late(id, q)
		}
	}
}

// late judges the write of suspects whose token was answered after they had been received.
func (f *granted) late(id writeID, q *suspicion) {
	switch {
	case f.open:
		f.unresolved++
	case len(q.requests) == 0 && !q.more: // each was refused: the write is the proper one's
		f.checked++
	case q.only() && !f.maybe(id, q):
		f.convict(id, q, *q.wrote)
	case f.maybe(id, q): // the late answer may have told again what one that nobody saw whole had granted
		f.uncertain("account %s was written to with token %d (%s) before any answer was seen to grant it, and an earlier answer to an acquire of the key was not seen to reach its client whole: whether that one had granted it, nobody can tell", id)
	case q.more:
		f.uncertain("account %s was written to with token %d (%s), asked for before any answer granted it more often than is followed: whose write it is, nobody can tell", id)
	default:
		f.uncertain("account %s was written to with token %d (%s), asked for before any answer granted it and again after: whose write it is, nobody can tell", id)
	}
}

// anonymous leaves a write open of which nobody knows who asked for it.
func (f *granted) anonymous(by authorship) {
	for _, id := range sortedWrites(f.suspects) {
		if id.payout == by.payout && id.op == by.op {
			f.uncertain("account %s was written to, perhaps with token %d (%s), which had not been granted when a request bore it; whose write it is, the rows do not say", id)
			return
		}
	}
	f.unresolved++
}

// never judges a write whose token was not seen answered to anybody, and tells whether that convicted a suspect.
func (f *granted) never(id writeID, w signedWrite) (convicted bool) {
	key := keyPrefix + id.account.id
	k, q := f.key(key), f.suspects[id]
	switch {
	case f.open, k.unheard(id.token) && (q == nil || !q.denied()):
		f.unresolved++
		return false
	case k.drops(id.token) && (q == nil || !q.denied()):
		f.uncertain("account %s was written to with token %d (%s), and the lock store's log has had more grants of the key that nobody was answered than are remembered: whether this was one, nobody can tell", id)
		return false
	case k.inLog(id.token) != nil && ((q == nil || q.more) && k.mayTell(id.token) || q != nil && f.maybe(id, q)):
		f.uncertain("account %s was written to with token %d (%s), and the answer to an acquire of the key was not seen to reach its client whole: whether that one had granted it, nobody can tell", id)
		return false
	case q != nil && len(q.requests) > 0:
		f.convict(id, q, w)
		return true
	case k.forgets(id.token):
		f.uncertain("account %s was written to with token %d (%s), and the key was granted more often since than is remembered: whether it had been under this one, nobody can tell", id)
		return false
	}
	f.checked++
	what := "which was never granted for key " + key
	for _, name := range sortedKeys(f.keys) {
		if f.keys[name].at(id.token) != nil {
			what = fmt.Sprintf("which was granted for key %s and not for %s", name, key)
		}
	}
	wants := want{account: id.account.id, tokens: [2]int64{id.token}}
	if w.payout != nil {
		wants.payout = w.payout.id
	}
	f.report(fmt.Sprintf("account %s was written to with token %d (%s), %s", id.account.id, id.token, id.op, what), wants,
		w.show(), f.book.key(key).ever.granted.event, id.account.payment.event, id.account.rail.event)
	return false
}

func (f *granted) Verdict() verdict.Invariant {
	v := f.verdict(map[string]int64{"superseded": f.superseded})
	v.Doubt = f.doubt
	return v
}

func (u underToken) compare(v underToken) int {
	return cmp.Or(cmp.Compare(u.account.id, v.account.id), cmp.Compare(u.token, v.token))
}

func sortedTokens[V any](m map[underToken]V) []underToken {
	return slices.SortedFunc(maps.Keys(m), underToken.compare)
}

func sortedWrites[V any](m map[writeID]V) []writeID {
	return slices.SortedFunc(maps.Keys(m), func(a, b writeID) int {
		return cmp.Or(a.underToken.compare(b.underToken), cmp.Compare(a.op, b.op), cmp.Compare(a.payout.name(), b.payout.name()))
	})
}

func (p *payout) name() string {
	if p == nil {
		return ""
	}
	return p.id
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
