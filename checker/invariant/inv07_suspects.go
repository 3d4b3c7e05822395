package invariant

import (
	"fmt"
	"slices"
	"strconv"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// suspect is a request that bore a token not yet answered to anybody.
type suspect struct {
	received, sent *history.Event
	maybe          bool // an acquire of the key may have been answered unseen
	aside          bool // a proper request of the same name was sent too: whose write it is, nobody knows
}

// passed decides about suspects whose writes are there: what was granted by covers is in the lock store's log, seen
// answered or not.
func (f *granted) passed(covers int64) {
	f.caughtBy = slices.DeleteFunc(f.caughtBy, func(id writeID) bool {
		s := f.suspects[id]
		if s == nil {
			return true
		}
		if s.sent.T > covers {
			return false
		}
		w := f.written[id.account].find(id.op, id.token)
		if k := f.key(keyPrefix + id.account.id); w != nil && !s.aside && !k.logged.has(id.token) && !k.logged.dropped(id.token) {
			f.convict(id, s, *w)
		}
		return true
	})
}

// caught reports a suspect's write, unless it may have been somebody else's or granted unseen: that the lock store's log
// decides, or the end.
func (f *granted) caught(id writeID, s *suspect, w signedWrite) bool {
	if s.maybe || s.aside {
		return false
	}
	if f.key(keyPrefix+id.account.id).at(id.token) == 0 {
		if !slices.Contains(f.caughtBy, id) {
			f.caughtBy = append(f.caughtBy, id)
		}
		return false
	}
	f.convict(id, s, w)
	return true
}

// convict reports a suspect's write.
func (f *granted) convict(id writeID, s *suspect, w signedWrite) {
	delete(f.suspects, id)
	delete(f.pending, id)
	f.checked++
	key := keyPrefix + id.account.id
	f.report(fmt.Sprintf("%s wrote to account %s with token %d (%s), which had not been granted for key %s when the request was received", s.sent.Proc, id.account.id, id.token, id.op, key),
		want{account: id.account.id, payout: s.sent.Payout, tokens: [2]int64{id.token}}, s.received, s.sent, w.show())
}

// show is the commit of the write.
func (w *signedWrite) show() *history.Event {
	columns := map[string]string{}
	if w.payout != nil {
		columns["payout_id"] = w.payout.id
	}
	table, column := "payout", "claim_token"
	if w.op == contract.OpSubmit {
		table, column = "rail_submission", "presented_token"
		if w.payout == nil {
			table, column = "rail_high_water", "highest_token"
		}
	}
	columns[column] = strconv.FormatInt(w.token, 10)
	return w.mark.show(table, columns)
}
