package invariant

import (
	"hash/fnv"
	"io"
	"strconv"

	"github.com/go-json-experiment/json"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// effectKind says what kind of row or line an effect is.
type effectKind uint8

const (
	effectSession effectKind = iota // lock_session: inserted
	effectBeat                      // lock_session: a later expiry
	effectClose                     // lock_session: deleted
	effectGrant                     // lock_entry: a grant
	effectRenewal                   // lock_entry: a later expiry
	effectRelease                   // lock_entry: deleted
	effectRevoke                    // lock_revocation: inserted
	effectWrite                     // payout, ledger_entry, account: a transition
	effectMark                      // rail_high_water: raised without an attempt
	effectAttempt                   // rail_submission: an outcome
	effectMoney                     // the journal: a line
)

// effect names one effect as its answer and its row both name it.
type effect struct {
	kind  effectKind
	op    contract.Op
	of    string // session, key, payout, account or rail reference
	token int64
	end   int64 // effectBeat, effectRenewal: the new expiry, in milliseconds
}

// expectation is a definite answer whose effect has not been recorded yet.
type expectation struct {
	effect effect
	answer *history.Event
	sent   sending
	met    bool
}

// recorded is an effect whose answer has not come yet; many are never answered.
type recorded struct {
	n     int
	after watermark // it was not committed before what this covers
	i, t  int64
}

// watermark is one of a witness's watermarks.
type watermark struct{ covers, i, t int64 }

// show is the watermark as evidence, nil where there was none.
func (m watermark) show(w history.Witness) *history.Event {
	if m == (watermark{}) {
		return nil
	}
	return &history.Event{I: m.i, T: m.t, W: w, Type: contract.Info, Proc: contract.Process(w), Op: history.OpWatermark, Covers: m.covers}
}

// effects is one witness's side of the join.
type effects struct {
	seen      map[effect]*recorded
	order     []effect // of seen, oldest first; those that were taken stay in it for a while
	awaited   map[effect][]*expectation
	waiting   []*expectation // in order of their answers
	mark      watermark      // the last
	forgotten int64          // T of the latest effect that was dropped unanswered, −1 without one
	blind     bool
}

// maxEffects bounds the effects that nobody was answered.
const maxEffects = 2048

// record enters an effect, and tells whether an answer waited for it.
func (s *effects) record(e *history.Event, x effect) bool {
	if q := s.awaited[x]; len(q) > 0 {
		q[0].met = true
		s.shift(x, q)
		return true
	}
	r := s.seen[x]
	if r == nil {
		r = &recorded{after: s.mark, i: e.I, t: e.T}
		s.seen[x] = r
		s.order = append(s.order, x)
	}
	r.n++
	s.bound()
	return false
}

func (s *effects) shift(x effect, q []*expectation) {
	if len(q) == 1 {
		delete(s.awaited, x)
	} else {
		s.awaited[x] = q[1:]
	}
}

// bound drops the oldest effects beyond maxEffects, and what was taken from the order.
func (s *effects) bound() {
	if len(s.order) < maxEffects+maxEffects/4 {
		return
	}
	kept := s.order[:0]
	drop := len(s.seen) - maxEffects
	for _, x := range s.order {
		r := s.seen[x]
		switch {
		case r == nil:
		case drop > 0:
			drop--
			s.forgotten = max(s.forgotten, r.t)
			delete(s.seen, x)
		default:
			kept = append(kept, x)
		}
	}
	clear(s.order[len(kept):])
	s.order = kept
}

// take is the recorded effect x, and it is answered now; nil where there is none.
func (s *effects) take(x effect) *recorded {
	r := s.seen[x]
	if r == nil {
		return nil
	}
	if r.n--; r.n == 0 {
		delete(s.seen, x)
	}
	return r
}

func (s *effects) await(x *expectation) {
	s.awaited[x.effect] = append(s.awaited[x.effect], x)
	s.waiting = append(s.waiting, x)
}

// due takes out the answers that the watermark has passed and whose effects were not recorded.
func (s *effects) due() (missing []*expectation) {
	n := 0
	for ; n < len(s.waiting) && covered(s.mark.covers, s.waiting[n].answer.T); n++ {
		x := s.waiting[n]
		if x.met {
			continue
		}
		s.shift(x.effect, s.awaited[x.effect])
		missing = append(missing, x)
	}
	rest := copy(s.waiting, s.waiting[n:])
	clear(s.waiting[rest:])
	s.waiting = s.waiting[:rest]
	return missing
}

// show is the effect as evidence.
func (r *recorded) show(where history.Witness) *history.Event {
	return &history.Event{I: r.i, T: r.t, W: where, Type: contract.OK, Proc: contract.Process(where), Op: history.OpCommit}
}

// promised is the effect that a definite answer promises, and the witness that must have it; "" where it promises none.
func (f *durable) promised(e *history.Event) (effect, history.Witness) {
	if e.Type != contract.OK || f.silent && (e.Op == contract.OpHeartbeat || e.Op == contract.OpRenew) {
		return effect{}, ""
	}
	switch e.Op {
	case contract.OpOpenSession:
		return effect{kind: effectSession, of: e.Session}, history.LockDB
	case contract.OpCloseSession:
		return effect{kind: effectClose, of: e.Session}, history.LockDB
	case contract.OpHeartbeat:
		if end := expiryOf(e); end != 0 {
			return effect{kind: effectBeat, of: e.Session, end: end}, history.LockDB
		}
	case contract.OpAcquire:
		if e.Granted > 0 {
			return effect{kind: effectGrant, of: e.Key, token: e.Granted}, history.LockDB
		}
	case contract.OpRenew:
		if end := expiryOf(e); end != 0 {
			return effect{kind: effectRenewal, of: e.Key, token: e.Token, end: end}, history.LockDB
		}
	case contract.OpRelease:
		return effect{kind: effectRelease, of: e.Key, token: e.Token}, history.LockDB
	case contract.OpRevoke:
		if r := readRevocation(e); r.RevokedToken > 0 {
			return effect{kind: effectRevoke, of: e.Key, token: r.RevokedToken}, history.LockDB
		}
	case contract.OpTransfer:
		if ref := railReference(e.Res); ref != "" {
			return effect{kind: effectMoney, of: ref}, history.Journal
		}
	case contract.OpSubmit:
		return f.submission(e)
	default:
		return f.write(e)
	}
	f.unresolved++
	return effect{}, ""
}

// submission: R1 answers an outcome only once it is on record; a duplicate has raised the mark.
func (f *durable) submission(e *history.Event) (effect, history.Witness) {
	if e.Outcome == contract.OutcomeDuplicate {
		return effect{kind: effectMark, of: e.Account, token: e.Token}, history.PayDB
	}
	return effect{kind: effectAttempt, op: contract.Op(e.Outcome), of: e.Payout, token: e.Token}, history.PayDB
}

// write: the rows of submitted and outcome bear no token, and a post may answer with what another token has posted.
func (f *durable) write(e *history.Event) (effect, history.Witness) {
	x := effect{kind: effectWrite, op: e.Op, of: e.Payout, token: e.Token}
	switch e.Op {
	case contract.OpSubmitted, contract.OpOutcome:
		x.token = 0
	case contract.OpPost:
		if end := f.book.ended; !end.effective {
			if end.unsure {
				f.unresolved++
			}
			return effect{}, ""
		}
	}
	return x, history.PayDB
}

// payments takes the effects out of a transaction of paydb.
func (f *durable) payments(t *txn, e *history.Event) {
	for i := range t.writes {
		if w := &t.writes[i]; w.payout != nil {
			f.happened(e, effect{kind: effectWrite, op: w.op, of: w.payout.id, token: w.token})
		}
	}
	tried := false
	for i := range t.attempts {
		a := &t.attempts[i]
		if a.insert && a.now != contract.OutcomeFenced {
			f.attempts[a.payout.id] = a.token
			tried = true
		}
		if a.now != "" && a.now != a.before {
			f.happened(e, effect{kind: effectAttempt, op: contract.Op(a.now), of: a.payout.id, token: a.token})
		}
	}
	for i := range t.marks {
		if !tried {
			f.happened(e, effect{kind: effectMark, of: t.marks[i].account.id, token: t.marks[i].after})
		}
	}
}

// locks takes the effects out of a transaction of lockdb.
func (f *durable) locks(e *history.Event) {
	for i := range e.Changes {
		c := &e.Changes[i]
		switch c.Table {
		case "lock_session":
			f.session(e, c)
		case "lock_revocation":
			if c.New != nil {
				f.happened(e, effect{kind: effectRevoke, of: c.New["lock_key"], token: history.Int(c.New["prev_token"])})
			}
		case "lock_entry":
			switch {
			case c.New == nil:
				f.happened(e, effect{kind: effectRelease, of: c.Old["lock_key"], token: history.Int(c.Old["fencing_token"])})
			case c.Kind == history.Update && renewal(c):
				f.happened(e, effect{kind: effectRenewal, of: c.New["lock_key"], token: history.Int(c.New["fencing_token"]), end: int64(moment(c.New["expires_at"])) / 1000})
			}
		}
	}
	for _, g := range f.book.grant {
		f.happened(e, effect{kind: effectGrant, of: g.key, token: g.token})
	}
}

func (f *durable) session(e *history.Event, c *history.Change) {
	switch c.Kind {
	case history.Insert:
		f.happened(e, effect{kind: effectSession, of: c.New["session_id"]})
	case history.Delete:
		f.happened(e, effect{kind: effectClose, of: c.Old["session_id"]})
	default:
		f.happened(e, effect{kind: effectBeat, of: c.New["session_id"], end: int64(moment(c.New["expires_at"])) / 1000})
	}
}

// expiryOf is the expiry that an answer names, in whole milliseconds: an implementation may write no more of it.
func expiryOf(e *history.Event) int64 {
	var r struct {
		ExpiresAt string `json:"expiresAt"`
	}
	if json.Unmarshal([]byte(e.Res), &r) != nil {
		return 0
	}
	return int64(onWire(r.ExpiresAt)) / 1000
}

func railReference(body string) string {
	var r struct {
		RailReference string `json:"railReference"`
	}
	if json.Unmarshal([]byte(body), &r) != nil {
		return ""
	}
	return r.RailReference
}

func hashOf(body string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, strconv.Itoa(len(body))) // a hash does not fail
	_, _ = io.WriteString(h, body)
	return h.Sum64()
}
