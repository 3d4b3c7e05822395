// INV-07: nobody writes under a token that was not granted, for that account's key, before the write was asked for.

package invariant

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// granted has two halves. By the wiretap alone, whose order is real: had the token been answered to an acquire of the
// account's key when the request was received? One of which that is not so is a suspect. And by paydb's log: each
// committed write's token was answered at some time, and the write is no suspect's. Whom the wiretap heard acquire the key is
// granted it by an answer that the wiretap saw, or by nothing. Two more grant, and then nobody can tell when: an answer of which
// only a part came and went on to the client, and one to an operator or another client that goes past the wiretap. Both need
// their grant in the lock store's log, and their writes are left open; the first makes the verdict inconclusive.
type granted struct {
	findings
	keys     map[string]*grantedKey
	heard    lately           // the sessions for which the wiretap heard somebody acquire
	order    int64            // how many events of the wiretap came
	received map[int64]cameAt // by open call
	asked    askedLately      // and by call that was answered
	suspects map[writeID]*suspicion
	written  map[*account]*writings
	pending  map[underToken][]signedWrite // committed, and the token not yet seen answered
	unsigned map[authorship]signedWrite   // committed, and only the wiretap knows under which token
	open     bool                         // at the end: one of the witnesses is not whole
	doubt    string                       // of a write that is a violation, or is none: nobody can tell

	superseded int64
}

// cameAt is when a request was received: in the wiretap's own order, by the harness's clock, and in the history.
type cameAt struct{ order, t, i int64 }

// underToken names what was written to an account under one token.
type underToken struct {
	account *account
	token   int64
}

// writeID names a write: of one operation on one payout, under one token, to one account.
type writeID struct {
	underToken
	op     contract.Op
	payout *payout // nil: the rows name none
}

// writings are the latest writes of an account.
type writings struct{ recent []signedWrite }

// signedWrite is a committed write and the token that stands behind it.
type signedWrite struct {
	op     contract.Op
	token  int64
	payout *payout // nil where the rows name none
	mark   commitMark
}

func (w *signedWrite) of(a *account) writeID { return writeID{underToken{a, w.token}, w.op, w.payout} }

func newGranted(b *book, t *tally) *granted {
	return &granted{
		findings: findings{id: "INV-07", guarantee: "Every committed write's token was granted, for that account's key, by an answer before the write was received.", book: b, tally: t},
		keys:     map[string]*grantedKey{}, received: map[int64]cameAt{},
		suspects: map[writeID]*suspicion{}, written: map[*account]*writings{},
		pending: map[underToken][]signedWrite{}, unsigned: map[authorship]signedWrite{},
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
			f.key(g.key).log(loggedGrant{g.token, g.session, f.heard.has(g.session)})
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

// call takes an event of the wiretap.
func (f *granted) call(e *history.Event) {
	switch {
	case e.Op == contract.OpAcquire:
		f.acquire(e)
	case e.Op.Fenced():
		f.request(e)
	}
}

// acquire takes the stages of an acquire. Nobody gets the answer to a copy. One that was lost on its way to the client, and one
// whose token cannot be read, may have told the client a token or not.
func (f *granted) acquire(e *history.Event) {
	k := f.key(e.Key)
	switch {
	case e.Stage == history.Received && e.Session != "":
		f.heard.add(e.Session)
		k.hear(e.Session)
	case e.DupOf != 0:
	case e.Stage == history.Answered && e.Type == contract.OK && e.Granted > 0:
		k.answer(answeredToken{e.Granted, f.order, e.Session, []int64{e.Call}})
		f.settle(e.Key, e.Granted, e.Session)
	case e.Stage == history.Answered && (e.Type == contract.OK || e.Type == contract.Info && e.Status == 0 && e.Res != ""):
		k.tear(e.Session, f.order)
	case e.Stage == history.Lost:
		k.withdraw(e.Call, f.order)
	}
}

// settle judges the writes that were committed before the answer that granted their token had come here.
func (f *granted) settle(key string, token int64, session string) {
	id, ofAccount := strings.CutPrefix(key, keyPrefix)
	a := f.book.accounts[id]
	if !ofAccount || a == nil {
		return
	}
	under := underToken{a, token}
	for id, q := range f.suspects {
		if id.underToken == under && !q.late {
			q.late, q.session = true, session
		}
	}
	waiting := f.pending[under]
	delete(f.pending, under)
	for _, w := range waiting {
		f.underGrant(a, w)
	}
}

// underGrant judges a write whose token was answered to somebody.
func (f *granted) underGrant(a *account, w signedWrite) {
	id := w.of(a)
	switch q := f.suspects[id]; {
	case w.payout == nil && f.suspected(id.underToken, w.op):
		f.uncertain(byWhom, id)
	case q == nil:
		f.checked++
	default:
		f.caught(id, q, w)
	}
}

const byWhom = "account %s was written to with token %d (%s), by whom the rows do not say, and one request under it was received before any answer granted it"

// uncertain leaves a write open that is a violation, or is none: nobody can tell.
func (f *granted) uncertain(why string, id writeID) {
	f.unresolved++
	if f.doubt == "" {
		f.doubt = fmt.Sprintf(why, id.account.id, id.token, id.op)
	}
}

// request takes a protected request by its stages.
func (f *granted) request(e *history.Event) {
	switch e.Stage {
	case history.Received:
		f.received[e.Call] = cameAt{f.order, e.T, e.I}
	case history.Forwarded:
		c := f.book.call
		if c == nil || c.account == nil {
			f.unresolved++
			return
		}
		if k := f.key(keyPrefix + c.account.id); k.latest() > e.Token && e.Token > 0 {
			f.superseded++
		}
		for _, a := range c.writesTo() {
			f.forwarded(e, a, c.payout)
		}
	case history.Answered:
		f.asked.add(e.Call, f.received[e.Call])
		delete(f.received, e.Call)
		if c := f.book.call; c != nil && c.account != nil {
			f.answered(e, c, f.book.ended)
		}
	}
}

// writesTo is the account that the request names and, where that is another, its payout's.
func (c *call) writesTo() []*account {
	if of := c.payout.account; of != nil && of != c.account {
		return []*account{c.account, of}
	}
	return []*account{c.account}
}

// forwarded decides whether the request, if it writes to a, is a suspect.
func (f *granted) forwarded(e *history.Event, a *account, of *payout) {
	k := f.key(keyPrefix + a.id)
	// What a copy asks for was asked for by its original.
	came := cmp.Or(f.asked.of(e.DupOf), f.received[e.DupOf], f.received[e.Call], cameAt{f.order, e.T, e.I})
	id := writeID{underToken{a, e.Token}, e.Op, of}
	q, answer := f.suspects[id], k.at(e.Token)
	if answer != nil && answer.order < came.order {
		if q != nil {
			q.beside(e.Call)
		} else if author := of.author(e.Op); author != nil {
			author.vouch(e.Token)
		}
		return
	}
	if f.book.lost[history.Wiretap] || k.forgets(e.Token) {
		f.unresolved++
		return
	}
	first := *e
	first.I, first.T, first.Stage = came.i, came.t, history.Received
	if q = f.suspect(id, &suspect{received: &first, sent: f.book.keep(e), order: came.order}); q == nil {
		return
	}
	if answer != nil {
		q.late, q.session = true, answer.session
	}
	nameless := writeID{id.underToken, id.op, nil}
	if there := f.there(id, e.I); there != nil {
		f.caught(id, q, *there)
	} else if f.there(nameless, e.I) != nil {
		f.uncertain(byWhom, nameless)
	}
}

// answered: an answer that says that nothing was written clears a suspect. A write whose row bears no token has that of
// the request that is answered as effective.
func (f *granted) answered(e *history.Event, c *call, end callEnd) {
	if e.Type == contract.Fail || end.fencedOut {
		for _, a := range c.writesTo() {
			f.refused(writeID{underToken{a, e.Token}, e.Op, c.payout}, e.Call)
		}
	}
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
		if m := &t.marks[i]; m.raises() && !t.attempted(m.account, m.after) { // the attempt beside it says for which payout
			f.write(m.account, signedWrite{contract.OpSubmit, m.after, nil, mark})
		}
	}
	for i := range t.attempts {
		if a := &t.attempts[i]; a.writes() && a.payout.account != nil {
			f.write(a.payout.account, signedWrite{contract.OpSubmit, a.token, a.payout, mark})
		}
	}
}

func (m *markChange) raises() bool { return m.after != 0 && (m.after != m.before || !m.known) }

// writes tells whether the row is more than a refusal on record.
func (a *attemptChange) writes() bool { return a.insert && a.now != contract.OutcomeFenced }

// attempted tells whether the transaction recorded an attempt to pay from the account under token.
func (t *txn) attempted(of *account, token int64) bool {
	return slices.ContainsFunc(t.attempts, func(a attemptChange) bool { return a.writes() && a.payout.account == of && a.token == token })
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
	id := w.of(a)
	q := f.suspects[id]
	if q != nil && q.late || f.key(keyPrefix+a.id).at(w.token) != nil {
		f.underGrant(a, w)
		return
	}
	if q == nil || !f.caught(id, q, w) {
		f.pending[id.underToken] = append(f.pending[id.underToken], w)
	}
}

func (of *writings) add(w signedWrite) {
	if len(of.recent) == maxTokens {
		of.recent = slices.Delete(of.recent, 0, 1)
	}
	of.recent = append(of.recent, w)
}

// there is a write of that name that was recorded since, as far as they are remembered: what a request that was forwarded then
// can have written. The request may be heard of later, when paydb's log has told whose payout it is about.
func (f *granted) there(id writeID, since int64) *signedWrite {
	recent := f.pending[id.underToken]
	if of := f.written[id.account]; of != nil {
		recent = append(slices.Clip(recent), of.recent...)
	}
	for i := range recent {
		if w := &recent[i]; w.of(id.account) == id && w.mark.i > since {
			return w
		}
	}
	return nil
}
