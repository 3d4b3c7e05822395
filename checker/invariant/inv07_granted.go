// INV-07: nobody writes under a token that was not granted, for that account's key, before the write was asked for.

package invariant

import (
	"cmp"
	"slices"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// granted has two halves. By the wiretap alone, whose order is real: had the token been answered to an acquire of the
// account's key when the request was received? One of which that is not so is a suspect. And by paydb's log: each
// committed write's token was answered at some time, and the write is no suspect's. An acquire whose answer nobody saw
// grants too, where the lock store's log has its grant. So does one that nobody heard at all, of an operator or another
// client that goes past the wiretap: when it was answered nobody can tell, and its writes are left open.
type granted struct {
	findings
	keys     map[string]*grantedKey
	order    int64            // how many events of the wiretap came
	received map[int64]cameAt // by open call
	suspects map[writeID]*suspicion
	written  map[*account]*writings
	pending  map[writeID][]signedWrite  // committed, and the token not yet seen answered
	unsigned map[authorship]signedWrite // committed, and only the wiretap knows under which token
	caughtBy []writeID                  // of suspects whose writes are there, and the lock store's log may have their grants yet
	open     bool                       // at the end: one of the witnesses is not whole
	doubt    string                     // of a write that was a violation, unless its grant had been answered unseen

	superseded int64
}

// cameAt is when a request was received: in the wiretap's own order, by the harness's clock, and in the history.
type cameAt struct{ order, t, i int64 }

// maxSuspects bounds the names of requests under tokens that nobody was seen to be granted, and of which nobody knows what became.
const maxSuspects = 1024

// writeID names a write of one operation under one token to one account.
type writeID struct {
	account *account
	op      contract.Op
	token   int64
}

// grantedKey is what was granted of one key.
type grantedKey struct {
	answered  []answeredToken
	forgotten int64  // the highest token dropped from answered
	logged    tokens // in the lock store's log, and not seen answered
	unknown   int64  // when the first acquire ended whose answer nobody saw, 0 without one
}

type answeredToken struct{ token, order int64 }

// writings are the latest writes of an account.
type writings struct{ recent []signedWrite }

// signedWrite is a committed write and the token that stands behind it.
type signedWrite struct {
	op     contract.Op
	token  int64
	payout *payout // nil where the rows name none
	mark   commitMark
}

func newGranted(b *book, t *tally) *granted {
	return &granted{
		findings: findings{id: "INV-07", guarantee: "Every committed write's token was granted, for that account's key, by an answer before the write was received.", book: b, tally: t},
		keys:     map[string]*grantedKey{}, received: map[int64]cameAt{}, suspects: map[writeID]*suspicion{}, written: map[*account]*writings{},
		pending: map[writeID][]signedWrite{}, unsigned: map[authorship]signedWrite{},
	}
}

func (f *granted) RestsOn() []history.Witness {
	return []history.Witness{history.PayDB, history.LockDB, history.Wiretap}
}

func (f *granted) Observe(e *history.Event) {
	f.explain(e)
	switch {
	case e.W == history.PayDB && e.Op == history.OpCommit:
		f.commit(&f.book.txn, e)
	case e.W == history.LockDB && e.Op == history.OpCommit:
		for _, g := range f.book.grant {
			f.key(g.key).log(g.token)
		}
	case e.W == history.LockDB && e.Op == history.OpWatermark && !f.book.lost[history.LockDB]: // behind a hole the end decides
		f.passed(e.Covers)
	case e.W == history.Wiretap:
		f.order++
		f.call(e)
	}
}

func (f *granted) key(name string) *grantedKey {
	k := f.keys[name]
	if k == nil {
		k = &grantedKey{}
		f.keys[name] = k
	}
	return k
}

// at is where the answer that granted token came in the wiretap's order, 0 where none was seen.
func (k *grantedKey) at(token int64) int64 {
	for i := range k.answered {
		if k.answered[i].token == token {
			return k.answered[i].order
		}
	}
	return 0
}

func (k *grantedKey) log(token int64) {
	if k.at(token) == 0 {
		k.logged.add(token)
	}
}

func (k *grantedKey) answer(token, order int64) {
	k.logged.remove(token)
	if len(k.answered) == maxTokens {
		k.forgotten = max(k.forgotten, k.answered[0].token)
		k.answered = slices.Delete(k.answered, 0, 1)
	}
	k.answered = append(k.answered, answeredToken{token, order})
}

// call takes an event of the wiretap.
func (f *granted) call(e *history.Event) {
	switch {
	case e.Op == contract.OpAcquire && e.Stage == history.Answered:
		f.acquired(e)
	case e.Op.Fenced():
		f.request(e)
	}
}

// acquired takes the answer to an acquire.
func (f *granted) acquired(e *history.Event) {
	k := f.key(e.Key)
	switch {
	case e.Type == contract.OK && e.Granted > 0:
		k.answer(e.Granted, f.order)
		f.settle(e.Key, e.Granted)
	case e.Type == contract.Info && e.Status == 0 && e.DupOf == 0 && k.unknown == 0: // an answer that came whole is seen, a copy's is for nobody
		k.unknown = f.order
	}
}

// settle clears the writes that were committed before the answer that granted their token had come here.
func (f *granted) settle(key string, token int64) {
	a := f.book.accounts[strings.TrimPrefix(key, keyPrefix)]
	if a == nil {
		return
	}
	for _, op := range []contract.Op{contract.OpClaim, contract.OpSubmitted, contract.OpSubmit, contract.OpOutcome, contract.OpPost, contract.OpResolve} {
		id := writeID{a, op, token}
		if q := f.suspects[id]; q != nil && q.wrote != nil && f.caught(id, q, *q.wrote) {
			continue
		}
		f.checked += int64(len(f.pending[id]))
		delete(f.pending, id)
	}
}

// request takes a protected request by its stages.
func (f *granted) request(e *history.Event) {
	switch e.Stage {
	case history.Received:
		f.received[e.Call] = cameAt{f.order, e.T, e.I}
	case history.Forwarded:
		if c := f.book.call; c != nil && c.account != nil {
			f.forwarded(e, c)
		} else {
			f.unresolved++
		}
	case history.Answered:
		delete(f.received, e.Call)
		if c := f.book.call; c != nil && c.account != nil {
			f.answered(e, c, f.book.ended)
		}
	}
}

// forwarded decides whether the request is a suspect.
func (f *granted) forwarded(e *history.Event, c *call) {
	k := f.key(keyPrefix + c.account.id)
	came := cmp.Or(f.received[e.Call], cameAt{f.order, e.T, e.I})
	id := writeID{c.account, e.Op, e.Token}
	if n := len(k.answered); n > 0 && k.answered[n-1].token > e.Token {
		f.superseded++
	}
	if at := k.at(e.Token); at != 0 && at < came.order {
		if q := f.suspects[id]; q != nil {
			q.aside = true
		}
		return
	}
	if c.replay || f.book.lost[history.Wiretap] || e.Token <= k.forgotten {
		f.unresolved++
		return
	}
	first := *e
	first.I, first.T, first.Stage = came.i, came.t, history.Received
	if !f.suspect(id, &suspect{received: &first, sent: f.book.keep(e), payout: c.payout, maybe: k.unknown != 0 && k.unknown < came.order}) {
		f.unresolved++
		return
	}
	if there := f.there(id); there != nil {
		f.caught(id, f.suspects[id], *there)
	}
}

// answered: an answer that says that nothing was written clears a suspect. A write whose row bears no token has that of
// the request that is answered as effective.
func (f *granted) answered(e *history.Event, c *call, end callEnd) {
	id := writeID{c.account, e.Op, e.Token}
	f.suspectAnswered(id, e.Call, e.Type == contract.Fail || end.fencedOut)
	by := authorship{c.payout, e.Op}
	if w, ok := f.unsigned[by]; ok && end.effective && !c.replay {
		delete(f.unsigned, by)
		w.token = e.Token
		f.write(c.account, w)
	}
}

// commit takes the writes of a transaction: of payment-resource, and of rail-proxy.
func (f *granted) commit(t *txn, e *history.Event) {
	if e.Msg == snapshot {
		return
	}
	mark := markOf(e)
	for i := range t.writes {
		w := &t.writes[i]
		signed := signedWrite{w.op, w.token, w.payout, mark}
		switch {
		case w.account == nil, w.token == 0 && w.payout == nil:
			f.unresolved++
		case w.token == 0:
			f.unsign(signed)
		default:
			f.write(w.account, signed)
		}
	}
	for i := range t.marks {
		if m := &t.marks[i]; m.raises() {
			f.write(m.account, signedWrite{contract.OpSubmit, m.after, nil, mark})
		}
	}
	for i := range t.attempts {
		// A refusal on record is no write, and where the transaction raised the mark, that was judged already.
		if a := &t.attempts[i]; a.insert && a.now != contract.OutcomeFenced && a.payout.account != nil && !t.marked(a.payout.account, a.token) {
			f.write(a.payout.account, signedWrite{contract.OpSubmit, a.token, a.payout, mark})
		}
	}
}

func (m *markChange) raises() bool { return m.after != m.before || !m.known }

// marked tells whether the transaction set a's mark to token.
func (t *txn) marked(a *account, token int64) bool {
	return slices.ContainsFunc(t.marks, func(m markChange) bool { return m.account == a && m.after == token && m.raises() })
}

// unsign keeps a write until the wiretap names its token.
func (f *granted) unsign(w signedWrite) {
	by := authorship{w.payout, w.op}
	_, twice := f.unsigned[by]
	switch a := w.payout.author(w.op); {
	case twice, w.payout.account == nil:
		f.unresolved++
	case a.token != 0:
		w.token = a.token
		f.write(w.payout.account, w)
	default:
		f.unsigned[by] = w
	}
}

// write judges a committed write of an account whose token is known.
func (f *granted) write(a *account, w signedWrite) {
	of := f.written[a]
	if of == nil {
		of = &writings{}
		f.written[a] = of
	}
	of.add(w)
	id := writeID{a, w.op, w.token}
	if q := f.suspects[id]; q != nil && f.caught(id, q, w) {
		return
	}
	if f.key(keyPrefix+a.id).at(w.token) != 0 {
		f.checked++
		return
	}
	f.pending[id] = append(f.pending[id], w)
}

func (of *writings) add(w signedWrite) {
	if len(of.recent) == maxTokens {
		of.recent = slices.Delete(of.recent, 0, 1)
	}
	of.recent = append(of.recent, w)
}

// there is a write of that name, as far as they are remembered.
func (f *granted) there(id writeID) *signedWrite {
	if w := f.pending[id]; len(w) > 0 {
		return &w[0]
	}
	of := f.written[id.account]
	if of == nil {
		return nil
	}
	for i := range of.recent {
		if w := &of.recent[i]; w.op == id.op && w.token == id.token {
			return w
		}
	}
	return nil
}
