package invariant

import "fenceproof/checker/history"

// audit takes what paydb itself says of an account once all is over, behind the last commit of its log. The sums of the
// log were judged commit by commit; that a SELECT comes to the same shows that none of its rows was missed. Where the two
// disagree, the log lacks something, and nothing that rests on it can be judged.
func (f *balance) audit(e *history.Event) {
	switch {
	case e.Op == history.OpAudited && e.Msg != "":
		f.book.hole(history.PayDB, "its sums could not be confirmed: %s", e.Msg)
		return
	case e.Op == history.OpAudited:
		f.all(history.Int(e.Attrs["accounts"]))
		return
	}
	a := f.book.accounts[e.Account]
	if a == nil || !a.known {
		f.book.hole(history.PayDB, "paydb has an account %s of which its log says nothing", e.Account)
		return
	}
	holds, entries, fence := history.Int(e.Attrs["balance_minor"]), history.Int(e.Attrs["entries_minor"]), history.Int(e.Attrs["fence"])
	if holds != a.balance || fence != a.fence || entries != a.entries {
		f.book.hole(history.PayDB, "a SELECT says that account %s holds %d minor units, with entries of %d and the fence at %d; its log says %d, %d and %d",
			a.id, holds, entries, fence, a.balance, a.entries, a.fence)
		return
	}
	f.checked++
	f.selected++
}

// all compares the number of accounts that the SELECT found with the log's.
func (f *balance) all(selected int64) {
	known := int64(0)
	for _, a := range f.book.accounts {
		if a.known {
			known++
		}
	}
	if known != selected {
		f.book.hole(history.PayDB, "paydb has %d accounts, and its log says %d", selected, known)
	}
}
