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
	payout         *payout
	maybe          bool // an acquire of the key may have been answered unseen
	stays          bool // it was answered, and not refused: nothing clears it any more
}

// suspicion is what suspects of one name have in common. The write of that name may be any of theirs, and a refusal clears
// the one request that it answers.
type suspicion struct {
	requests []*suspect   // never empty
	wrote    *signedWrite // the first write of that name, kept for when the account's memory has dropped it
	aside    bool         // a request that may be proper has the same name and is not among these: whose write it is, nobody knows
	last     int64        // when the latest was sent that found no room among these
}

// maxAlike bounds the suspects of one name.
const maxAlike = 8

// suspect adds a request to those of its name, and tells whether the name stays under suspicion while the request may have
// written. Where there is no room for it, one that nothing clears any more stands for it as well.
func (f *granted) suspect(id writeID, s *suspect) bool {
	q := f.suspects[id]
	switch {
	case q == nil && len(f.suspects) >= maxSuspects:
		return false
	case q == nil:
		f.suspects[id] = &suspicion{requests: []*suspect{s}}
	case len(q.requests) < maxAlike:
		q.requests = append(q.requests, s)
	default:
		q.aside, q.last = q.aside || s.maybe, s.sent.T
		return slices.ContainsFunc(q.requests, func(s *suspect) bool { return s.stays })
	}
	return true
}

// suspectAnswered takes the answer to one of the suspects of that name.
func (f *granted) suspectAnswered(id writeID, call int64, refused bool) {
	q := f.suspects[id]
	if q == nil {
		return
	}
	i := slices.IndexFunc(q.requests, func(s *suspect) bool { return s.sent.Call == call })
	switch {
	case i < 0:
	case !refused:
		q.requests[i].stays = true
	case len(q.requests) == 1:
		delete(f.suspects, id)
	default:
		q.requests = slices.Delete(q.requests, i, i+1)
	}
}

// maybe tells whether one of the suspects may have been granted its token unseen.
func (q *suspicion) maybe() bool {
	return slices.ContainsFunc(q.requests, func(s *suspect) bool { return s.maybe })
}

// sent is when the last of them was.
func (q *suspicion) sent() int64 {
	last := q.last
	for _, s := range q.requests {
		last = max(last, s.sent.T)
	}
	return last
}

// author is who is named for w: who asked for that payout, where the rows name one.
func (q *suspicion) author(w *signedWrite) *suspect {
	for _, s := range q.requests {
		if s.payout == w.payout {
			return s
		}
	}
	return q.requests[0]
}

// passed decides about suspects whose writes are there: what was granted by covers is in the lock store's log, seen
// answered or not.
func (f *granted) passed(covers int64) {
	f.caughtBy = slices.DeleteFunc(f.caughtBy, func(id writeID) bool {
		q := f.suspects[id]
		if q == nil || q.wrote == nil {
			return true
		}
		if q.sent() > covers {
			return false
		}
		if k := f.key(keyPrefix + id.account.id); !q.aside && !q.maybe() && !k.logged.has(id.token) && !k.logged.dropped(id.token) {
			f.convict(id, q, *q.wrote)
		}
		return true
	})
}

// caught reports a suspect's write, unless it may have been somebody else's or granted unseen: that the lock store's log
// decides, or the end.
func (f *granted) caught(id writeID, q *suspicion, w signedWrite) bool {
	if q.wrote == nil {
		q.wrote = &w
	}
	if q.maybe() || q.aside {
		return false
	}
	if f.key(keyPrefix+id.account.id).at(id.token) == 0 {
		if !slices.Contains(f.caughtBy, id) {
			f.caughtBy = append(f.caughtBy, id)
		}
		return false
	}
	f.convict(id, q, w)
	return true
}

// convict reports a suspect's write.
func (f *granted) convict(id writeID, q *suspicion, w signedWrite) {
	delete(f.suspects, id)
	delete(f.pending, id)
	f.checked++
	key, s := keyPrefix+id.account.id, q.author(&w)
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
