// INV-05: at each fence point by itself, no stale token is ever let through and no mark ever goes down.

package invariant

import (
	"fmt"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// fencePoints judges paydb's log in commit order: an account's fence and a rail mark never go down, and whatever a fence
// point let through has a token above what stood there before. By the wiretap alone it judges every request forwarded
// after a higher token had been accepted at its fence point: it has no effect, and a definite answer to it is FENCED_OUT.
type fencePoints struct {
	findings
	fence map[*account]setter // who set what stands there now
	mark  map[*account]*history.Event

	stalePayment, staleRail int64 // requests sent after a higher token was accepted
}

// setter is the commit that set a fence, and the token it was set under.
type setter struct {
	event *history.Event
	token int64
}

func newFencePoints(b *book, t *tally) *fencePoints {
	return &fencePoints{
		findings: findings{id: "INV-05", guarantee: "At each fence point by itself, the stored fence or mark never goes down and a stale token is refused.", book: b, tally: t},
		fence:    map[*account]setter{}, mark: map[*account]*history.Event{},
	}
}

func (f *fencePoints) RestsOn() []history.Witness {
	return []history.Witness{history.PayDB, history.Wiretap}
}

func (f *fencePoints) Observe(e *history.Event) {
	f.explain(e)
	switch {
	case e.W == history.PayDB && e.Op == history.OpCommit:
		t := &f.book.txn
		lowered := f.fences(t, e)
		for i := range t.writes {
			if w := &t.writes[i]; w.account != lowered {
				f.write(w, e)
			}
		}
		f.marks(t, e)
		for i := range t.attempts {
			f.attempt(&t.attempts[i], e)
		}
	case e.W == history.Wiretap && e.Stage == history.Answered && e.Op.Fenced() && f.book.call != nil:
		f.answer(e, f.book.call, f.book.ended)
	}
}

// fences judges the account rows of a commit, and returns the account whose fence went down.
func (f *fencePoints) fences(t *txn, e *history.Event) (lowered *account) {
	for i := range t.accounts {
		c := &t.accounts[i]
		if c.insert || c.fence0 == c.fence1 {
			continue
		}
		f.checked++
		by := authorOf(t, c)
		if was := f.fence[c.account]; c.fence1 < c.fence0 {
			lowered = c.account
			f.report(fmt.Sprintf("the fence of account %s went down from %d to %d", c.account.id, c.fence0, c.fence1),
				want{account: c.account.id, payout: by.payout, tokens: [2]int64{by.tokens[0], was.token}, op: by.op}, was.event, f.book.keep(e))
		}
		f.fence[c.account] = setter{f.book.keep(e), by.tokens[0]}
	}
	return lowered
}

// write: payment-resource lets a token through only above the fence, strictly (C1 1.6 a).
func (f *fencePoints) write(w *write, e *history.Event) {
	if w.token == 0 || w.fence < 0 {
		return
	}
	f.checked++
	if w.token > w.fence {
		return
	}
	set := f.fence[w.account]
	wants := want{account: w.account.id, tokens: [2]int64{w.token, set.token}, op: w.op}
	if w.payout != nil {
		wants.payout = w.payout.id
	}
	f.report(fmt.Sprintf("payment-resource let a %s pass with token %d, although the fence of account %s stood at %d", w.op, w.token, w.account.id, w.fence),
		wants, set.event, f.book.keep(e))
}

func (f *fencePoints) marks(t *txn, e *history.Event) {
	for i := range t.marks {
		c := &t.marks[i]
		if c.known {
			f.checked++
			if c.after < c.before {
				f.report(fmt.Sprintf("the rail mark of account %s went down from %d to %d", c.account.id, c.before, c.after),
					want{account: c.account.id, tokens: [2]int64{c.after, c.before}, op: contract.OpSubmit}, f.mark[c.account], f.book.keep(e))
			}
		}
		f.mark[c.account] = f.book.keep(e)
	}
}

// attempt: what rail-proxy records as an attempt, it forwards. FENCED rows only record a refusal, as long as they stay so.
func (f *fencePoints) attempt(a *attemptChange, e *history.Event) {
	if a.now == contract.OutcomeFenced || !a.insert && a.before != contract.OutcomeFenced {
		return
	}
	if a.payout.account == nil {
		f.unresolved++
		return
	}
	f.checked++
	if a.token > a.markBefore {
		return
	}
	acc := a.payout.account
	f.report(fmt.Sprintf("rail-proxy let a submission of payout %s pass with token %d, although the mark of account %s stood at %d", a.payout.id, a.token, acc.id, a.markBefore),
		want{account: acc.id, payout: a.payout.id, tokens: [2]int64{a.token, a.markBefore}, op: contract.OpSubmit}, f.mark[acc], f.book.keep(e))
}

// answer judges a request that was sent after a higher token had been accepted where it went.
func (f *fencePoints) answer(e *history.Event, c *call, end callEnd) {
	switch {
	case c.account == nil:
		if end.effective {
			f.unresolved++
		}
		return
	case !c.stale() || c.replay:
		return
	case e.Op == contract.OpSubmit:
		f.staleRail++
	default:
		f.stalePayment++
	}
	f.checked++
	if !end.judged || end.fencedOut {
		return // a definite refusal, or an answer that says nothing: then the log tells
	}
	if e.Op.AtPayment() && e.Token <= c.payout.forgotten {
		f.unresolved++
		return
	}
	what := fmt.Sprintf("was answered %d %s instead of FENCED_OUT", e.Status, e.Code)
	if end.effective {
		what = "took effect"
	}
	f.report(fmt.Sprintf("%s's %s of payout %s with token %d %s, although %d had been accepted there before it was sent", e.Proc, e.Op, e.Payout, e.Token, what, c.accepted.token),
		want{account: c.account.id, payout: e.Payout, tokens: [2]int64{e.Token, c.accepted.token}}, c.accepted.event, c.sent, f.book.keep(e))
}

// authorOf is the write that a transaction changed an account's row for; where its rows do not say, its token is taken
// for the fence itself.
func authorOf(t *txn, c *accountChange) (by want) {
	for i := range t.writes {
		if w := &t.writes[i]; w.account == c.account && w.token != 0 {
			if w.payout != nil {
				by.payout = w.payout.id
			}
			by.tokens[0], by.op = w.token, w.op
			return by
		}
	}
	by.tokens[0] = c.fence1
	return by
}

func (f *fencePoints) Finish(func(history.Witness) bool) {}

func (f *fencePoints) Verdict() verdict.Invariant {
	return f.verdict(among(map[string]int64{
		"stale_refused_payment": f.book.staleRefusedPayment, "stale_refused_rail": f.book.staleRefusedRail,
		"sent_stale_payment": f.stalePayment, "sent_stale_rail": f.staleRail,
	}, f.book.messages.order()))
}
