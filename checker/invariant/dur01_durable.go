// DUR-01: whatever was answered definite had been committed before the answer, and a replay equals its original.

package invariant

import (
	"fmt"
	"slices"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// durable joins every definite answer with the row, or the journal's line, that holds its effect. The order of arrival
// proves nothing, but a witness's watermark does: it says that everything that had happened by then is recorded. So an
// answer whose effect is not there once the watermark has passed the answer was given before its effect was committed;
// and an effect recorded behind a watermark was not committed before the time that the watermark covers.
type durable struct {
	findings
	stores   map[history.Witness]*effects
	sent     map[int64]sending // open calls
	asked    map[int64]uint64  // open requests of payment-resource: a hash of what they ask for
	replies  map[*payout]*replies
	attempts map[string]int64 // payout → the token of its attempt at the rail
	silent   bool             // the lock store keeps leases alive without a change in its log
	unfenced bool             // the rail's fence was switched off

	promotions *promotions // nil where there are none

	replays, lost int64
}

// sending is where a call stood when it was forwarded.
type sending struct{ i, t int64 }

// replies are the first answers to a payout's requests, so that later ones can be compared with them.
type replies struct {
	first     []reply
	forgotten int64
}

type reply struct {
	op          contract.Op
	token       int64
	status      int
	body, asked uint64 // hashes of the answer and of what was asked for
	sent        sending
	i, t, calls int64
}

func newDurable(b *book, t *tally, s verdict.Settings) *durable {
	f := &durable{
		findings: findings{id: "DUR-01", guarantee: "The effect of whatever was answered definite was committed before the answer, and a replay equals its original.", book: b, tally: t},
		stores:   map[history.Witness]*effects{}, sent: map[int64]sending{}, asked: map[int64]uint64{}, replies: map[*payout]*replies{}, attempts: map[string]int64{}, silent: onEtcd(s), unfenced: s.Fencing == "rail-off" || s.Fencing == "off",
		promotions: newPromotions(s),
	}
	for _, w := range []history.Witness{history.PayDB, history.LockDB, history.Journal} {
		f.stores[w] = &effects{seen: map[effect]*recorded{}, awaited: map[effect][]*expectation{}, forgotten: -1}
	}
	return f
}

func (f *durable) RestsOn() []history.Witness {
	return []history.Witness{history.PayDB, history.LockDB, history.Journal, history.Wiretap}
}

func (f *durable) Observe(e *history.Event) {
	f.explain(e)
	s := f.stores[e.W]
	if f.book.anew {
		f.begin(e.W, s, e)
		f.succeed(e)
	}
	f.standby(e)
	switch {
	case e.W == history.Wiretap:
		f.call(e)
	case s == nil:
	case f.book.lost[e.W]:
		s.blind = true
	case e.Op == history.OpWatermark:
		f.settle(e.W, s, e)
	case e.Op == history.OpMoney:
		f.happened(e, effect{kind: effectMoney, of: e.RailRef})
	case e.Op == history.OpCommit && e.Msg != snapshot && e.W == history.PayDB:
		f.payments(&f.book.txn, e)
	case e.Op == history.OpCommit && e.Msg != snapshot && e.W == history.LockDB:
		f.locks(e)
	}
}

// call follows a mutating call from its forwarding to its answer.
func (f *durable) call(e *history.Event) {
	switch {
	case e.Op.Read() || e.Op == contract.OpUnknown:
	case e.Stage == history.Received && e.Op.AtPayment():
		f.asked[e.Call] = hashOf(e.Req)
	case e.Stage == history.Forwarded:
		f.sent[e.Call] = sending{e.I, e.T}
	case e.Stage == history.Answered:
		sent := f.sent[e.Call]
		delete(f.sent, e.Call)
		if e.Type == contract.Info {
			f.lost++
		}
		f.answered(e, sent)
		delete(f.asked, e.Call)
	}
}

func (f *durable) answered(e *history.Event, sent sending) {
	switch x, where := f.promised(e); {
	case where == "":
		if e.Op.AtPayment() && e.Type == contract.Fail && f.book.call != nil && f.book.ended.judged {
			f.refused(e, sent)
		}
	case e.Op.AtPayment() && !f.original(e, sent):
	default:
		f.expect(where, x, e, sent)
	}
}

// original notes the first answer to a request of payment-resource, and compares each later one with it: the same
// operation, payout and token has one effect, and its stored answer is given again.
func (f *durable) original(e *history.Event, sent sending) bool {
	p := f.book.payout(e.Payout)
	r := f.replies[p]
	if r == nil {
		r = &replies{}
		f.replies[p] = r
	}
	now := reply{op: e.Op, token: e.Token, status: e.Status, body: hashOf(e.Res), asked: f.asked[e.Call], sent: sent, i: e.I, t: e.T, calls: e.Call}
	for _, was := range r.first {
		if was.op != e.Op || was.token != e.Token {
			continue
		}
		f.checked++
		f.replays++
		if was.status != now.status || was.body != now.body {
			f.report(fmt.Sprintf("%s's %s of payout %s with token %d was answered %d, and its replay %d with another body", e.Proc, e.Op, e.Payout, e.Token, was.status, e.Status),
				f.about(e), was.show(e), sentAs(e, sent), f.book.keep(e))
		}
		return false
	}
	if e.Token <= r.forgotten {
		f.unresolved++
		return false
	}
	if len(r.first) == maxPrior {
		r.forgotten = max(r.forgotten, r.first[0].token)
		r.first = slices.Delete(r.first, 0, 1)
	}
	r.first = append(r.first, now)
	return true
}

// refused judges a refusal: the same request is not refused once it was answered as effective, whatever stands at the
// fence by then. Which of two that were under way together came first, nobody knows.
func (f *durable) refused(e *history.Event, sent sending) {
	r, asked := f.replies[f.book.payout(e.Payout)], f.asked[e.Call]
	if r == nil || asked == 0 || sent.i == 0 {
		return
	}
	for _, was := range r.first {
		if was.op != e.Op || was.token != e.Token || was.asked != asked || was.i > sent.i {
			continue
		}
		f.checked++
		f.replays++
		f.report(fmt.Sprintf("%s's %s of payout %s with token %d was answered %d, and the same request once more %d %s", e.Proc, e.Op, e.Payout, e.Token, was.status, e.Status, e.Code),
			f.about(e), was.show(e), sentAs(e, sent), f.book.keep(e))
	}
}

// show is the first answer, as far as a later answer to the same request tells what it was.
func (r *reply) show(later *history.Event) *history.Event {
	e := *later
	e.I, e.T, e.Call, e.Status, e.Req, e.Res = r.i, r.t, r.calls, r.status, "", ""
	return &e
}

// sentAs is the forwarding of the call that e answers.
func sentAs(e *history.Event, sent sending) *history.Event {
	if sent.i == 0 {
		return nil
	}
	return &history.Event{I: sent.i, T: sent.t, W: history.Wiretap, Type: contract.Invoke, Proc: e.Proc, Op: e.Op, Stage: history.Forwarded,
		Call: e.Call, Link: e.Link, Key: e.Key, Payout: e.Payout, Account: e.Account, Owner: e.Owner, Session: e.Session, Token: e.Token}
}

// about says which other answers explain a violation around e.
func (f *durable) about(e *history.Event) want {
	return want{account: f.book.accountOf(e), payout: e.Payout, key: e.Key, tokens: [2]int64{max(e.Token, e.Granted)}}
}

// expect joins an answer with its effect, if that was recorded already.
func (f *durable) expect(where history.Witness, x effect, e *history.Event, sent sending) {
	s := f.stores[where]
	if where == history.LockDB && f.promotions != nil {
		f.promotions.answered(x, f.book.keep(e), sent)
	}
	was := s.take(x)
	switch {
	case was != nil && covered(was.after.covers, e.T) && !s.blind:
		f.checked++
		f.report(fmt.Sprintf("%s was answered %d to its %s before the effect was committed", e.Proc, e.Status, e.Op),
			f.about(e), sentAs(e, sent), f.book.keep(e), was.after.show(where), was.show(where))
	case was != nil:
		f.checked++
	case s.blind, sent.i == 0, sent.t <= s.forgotten:
		f.unresolved++
	case covered(s.mark.covers, e.T):
		f.missing(where, &expectation{effect: x, answer: f.book.keep(e), sent: sent})
	default:
		s.await(&expectation{effect: x, answer: f.book.keep(e), sent: sent})
	}
}

// happened takes an effect out of a log.
func (f *durable) happened(e *history.Event, x effect) {
	if f.stores[e.W].record(e, x) {
		f.checked++
	}
	if e.W == history.LockDB && f.promotions != nil {
		f.promotions.now.happened(x, e.I)
	}
}

// settle concludes about the answers that a watermark has passed.
func (f *durable) settle(where history.Witness, s *effects, mark *history.Event) {
	if mark.Covers > s.mark.covers {
		s.mark = watermark{mark.Covers, mark.I, mark.T}
	}
	for _, x := range s.due() {
		f.missing(where, x)
	}
}

// begin begins an epoch: what was answered before has its effect in the log that has been read to its end by now, or nowhere.
// A call that was under way belongs to neither, as nobody knows which of them it had its effect in.
func (f *durable) begin(where history.Witness, s *effects, e *history.Event) {
	blind := s.blind || f.book.lost[where]
	for _, x := range s.waiting {
		if !x.met && !blind {
			f.missing(where, x)
		}
	}
	*s = effects{seen: map[effect]*recorded{}, awaited: map[effect][]*expectation{}, mark: s.mark, forgotten: e.T, blind: blind}
}

// missing: the effect of an answer had not been committed when the answer was given.
func (f *durable) missing(where history.Witness, x *expectation) {
	s := f.stores[where]
	if s.blind {
		f.unresolved++
		return
	}
	f.checked++
	if x.effect.kind == effectAttempt && f.indexed(x.answer) {
		return
	}
	f.report(fmt.Sprintf("%s was answered %d to its %s%s, but the effect was not in the %s log by then", x.answer.Proc, x.answer.Status, x.answer.Op, subject(x.answer), where),
		f.about(x.answer), sentAs(x.answer, x.sent), x.answer, s.mark.show(where))
}

// indexed: where rail-proxy's fence is switched off, it forwards a second submission that the index kept off the record.
// Only the attempt under the other token is there, or the attempt of the request that this one repeats. With the fence on
// nothing is answered an outcome that is not on record.
func (f *durable) indexed(answer *history.Event) bool {
	if !f.unfenced {
		return false
	}
	token, there := f.attempts[answer.Payout]
	return there && (token != answer.Token || answer.DupOf != 0) && answer.Outcome != contract.OutcomeFenced
}

// subject is what an answer was about, for a sentence.
func subject(e *history.Event) string {
	switch {
	case e.Payout != "":
		return fmt.Sprintf(" of payout %s with token %d", e.Payout, e.Token)
	case e.Key != "":
		return fmt.Sprintf(" of key %s with token %d", e.Key, max(e.Token, e.Granted))
	case e.Session != "":
		return " of session " + e.Session
	}
	return ""
}

// Finish: what is not in a log by now was never there, if the log is whole.
func (f *durable) Finish(whole func(history.Witness) bool) {
	for _, w := range []history.Witness{history.PayDB, history.LockDB, history.Journal} {
		s := f.stores[w]
		s.blind = s.blind || !whole(w)
		s.mark.covers = theEnd
		for _, x := range s.due() {
			f.missing(w, x)
		}
	}
	f.promoted(whole(history.LockDB) && whole(history.Wiretap))
}

func (f *durable) Verdict() verdict.Invariant {
	inv := f.verdict(among(map[string]int64{"replays": f.replays, "answers_lost": f.lost}, map[string]int64{"kills_of_stores": f.book.kills.stores}, f.book.fullDisks.all(), f.book.failovers.counts(), f.book.messages.again(), f.book.injections.again()))
	inv.Doubt = f.promotions.doubted()
	return inv
}
