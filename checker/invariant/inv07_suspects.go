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
	order          int64 // when it was received, in the wiretap's order
	denied         bool  // the lock store's log has passed its forwarding, and nobody had been granted the token past the wiretap
}

// suspicion is what suspects of one name have in common. The write of that name may be any of theirs, and a refusal clears
// the one request that it answers.
type suspicion struct {
	requests []*suspect
	wrote    *signedWrite // the write of that name
	proper   []int64      // requests of that name that came when the token had been granted: the write may be theirs
	more     bool         // there was no room for one, and what became of that nobody remembers
	late     bool         // the token was answered after one of them had been received
	session  string       // and for which
}

// maxAlike bounds the requests of one name, and maxSuspects the names, of requests under tokens that nobody was seen to be
// granted, and of which nobody knows what became.
const (
	maxAlike    = 8
	maxSuspects = 1024
)

// suspect adds a request to those of its name, nil where there is no room for the name.
func (f *granted) suspect(id writeID, s *suspect) *suspicion {
	q := f.suspects[id]
	switch {
	case q == nil && len(f.suspects) >= maxSuspects:
		f.uncertain("account %s was asked to be written to with token %d (%s) before any answer granted it, with too many such requests before it to follow this one", id)
		return nil
	case q == nil:
		q = &suspicion{}
		f.suspects[id] = q
	}
	if len(q.requests) < maxAlike {
		q.requests = append(q.requests, s)
	} else {
		q.more = true
	}
	return q
}

// beside takes a request that bore the token after it had been granted.
func (q *suspicion) beside(call int64) {
	if len(q.proper) < maxAlike {
		q.proper = append(q.proper, call)
	} else {
		q.more = true
	}
}

// refused takes the answer that one of the requests of that name wrote nothing.
func (f *granted) refused(id writeID, call int64) {
	q := f.suspects[id]
	if q == nil {
		return
	}
	q.proper = slices.DeleteFunc(q.proper, func(c int64) bool { return c == call })
	q.requests = slices.DeleteFunc(q.requests, func(s *suspect) bool { return s.sent.Call == call })
	if len(q.requests) == 0 && !q.more && q.wrote == nil {
		delete(f.suspects, id)
	}
}

// suspected tells whether a request of op under that token is a suspect, whatever its payout.
func (f *granted) suspected(under underToken, op contract.Op) bool {
	for id := range f.suspects {
		if id.underToken == under && id.op == op {
			return true
		}
	}
	return false
}

// maybe tells whether one of the suspects may have been told its token by an answer that nobody saw whole.
func (f *granted) maybe(id writeID, q *suspicion) bool {
	k, session := f.key(keyPrefix+id.account.id), q.session
	if g := k.inLog(id.token); g != nil && session == "" {
		session = g.session
	}
	return slices.ContainsFunc(q.requests, func(s *suspect) bool { return k.mayHaveTold(id.token, session, s.order) })
}

// only tells whether the write of that name can be nobody's but a suspect's.
func (q *suspicion) only() bool { return len(q.requests) > 0 && len(q.proper) == 0 && !q.more }

// denied tells whether none of the suspects was granted its token past the wiretap, and the write can be nobody else's.
func (q *suspicion) denied() bool {
	return q.only() && !slices.ContainsFunc(q.requests, func(s *suspect) bool { return !s.denied })
}

// passed decides about suspects: what was granted before covers is in the lock store's log, seen answered or not.
func (f *granted) passed(covers int64) {
	if len(f.suspects) == 0 {
		return
	}
	for _, id := range sortedWrites(f.suspects) {
		q, k := f.suspects[id], f.key(keyPrefix+id.account.id)
		if k.unheard(id.token) || k.drops(id.token) {
			continue
		}
		for _, s := range q.requests {
			s.denied = s.denied || covered(covers, s.sent.T)
		}
		if q.wrote != nil && q.denied() && !f.maybe(id, q) {
			f.convict(id, q, *q.wrote)
		}
	}
}

// caught reports a suspect's write, unless it may have been somebody else's or granted unseen: that the lock store's log
// decides, or the end.
func (f *granted) caught(id writeID, q *suspicion, w signedWrite) bool {
	if q.wrote == nil {
		q.wrote = &w
	}
	if q.only() && (q.late || q.denied()) && !f.maybe(id, q) {
		f.convict(id, q, w)
		return true
	}
	return false
}

// convict reports a suspect's write.
func (f *granted) convict(id writeID, q *suspicion, w signedWrite) {
	delete(f.suspects, id)
	f.pending[id.underToken] = slices.DeleteFunc(f.pending[id.underToken], func(w signedWrite) bool { return w.of(id.account) == id })
	if len(f.pending[id.underToken]) == 0 {
		delete(f.pending, id.underToken)
	}
	f.checked++
	key, s := keyPrefix+id.account.id, q.requests[0]
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
