// INV-01: on every customer account, the tokens of committed writes never go down.

package invariant

import (
	"fmt"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// tokenOrder compares every write of an account with the one committed just before it: when no neighbour goes down, the
// whole order does not. A write whose token only its request knows stays in line, with both neighbours, until the
// wiretap names it.
//
// The second half rests on the wiretap alone: no request of payment-resource takes effect under a token below one whose
// effective answer had been given for that account before the request was forwarded.
type tokenOrder struct {
	findings
	last      map[*account]*step
	waiting   map[authorship]*step
	takeovers int64
}

// authorship names a transition whose author only the wiretap knows.
type authorship struct {
	payout *payout
	op     contract.Op
}

// step is one committed write in its account's order.
type step struct {
	write
	event      *history.Event
	prev, next *step // only as long as this pair has not been compared
}

func newTokenOrder(b *book, t *tally) *tokenOrder {
	return &tokenOrder{
		findings: findings{id: "INV-01", guarantee: "On every customer account, the tokens of committed writes never go down.", book: b, tally: t},
		last:     map[*account]*step{}, waiting: map[authorship]*step{},
	}
}

func (f *tokenOrder) RestsOn() []history.Witness {
	return []history.Witness{history.PayDB, history.Wiretap}
}

func (f *tokenOrder) Observe(e *history.Event) {
	f.explain(e)
	switch {
	case e.W == history.PayDB && e.Op == history.OpCommit:
		for _, c := range f.book.txn.payouts {
			if c.token0 != 0 && c.token1 > c.token0 && c.from == c.to {
				f.takeovers++
			}
		}
		for _, w := range f.book.txn.writes {
			f.commit(w, e)
		}
	case e.W == history.Wiretap && e.Stage == history.Answered && e.Op.AtPayment() && f.book.call != nil:
		f.answer(e, f.book.call, f.book.ended)
	}
}

// commit puts a write in line behind the account's last one.
func (f *tokenOrder) commit(w write, e *history.Event) {
	s := &step{write: w, event: f.book.keep(e)}
	if w.token == 0 {
		if w.payout == nil {
			f.unresolved++
			return
		}
		a := w.payout.author(w.op)
		if a.made { // made twice, so no request can be told to be its only author
			f.unresolved++
			return
		}
		if a.made = true; a.token != 0 {
			s.token, s.by = a.token, string(a.proc)
		} else {
			f.waiting[authorship{w.payout, w.op}] = s
		}
	}
	if s.prev = f.last[w.account]; s.prev != nil {
		s.prev.next = s
	}
	f.last[w.account] = s
	f.compare(s)
}

// compare judges the pairs of s with its neighbours that are both known, and parts them.
func (f *tokenOrder) compare(s *step) {
	if s.token == 0 {
		return
	}
	f.checked++
	if p := s.prev; p != nil && p.token != 0 {
		p.next, s.prev = nil, nil
		f.judge(p, s)
	}
	if n := s.next; n != nil && n.token != 0 {
		s.next, n.prev = nil, nil
		f.judge(s, n)
	}
}

func (f *tokenOrder) judge(earlier, later *step) {
	if later.token >= earlier.token {
		return
	}
	w := want{account: later.account.id, tokens: [2]int64{later.token, earlier.token}, op: later.op}
	if later.payout != nil {
		w.payout = later.payout.id
	}
	who := later.by
	if who == "" {
		who = f.book.holder(later.account, later.token)
	}
	if who == "" {
		who = "a client"
	}
	f.report(fmt.Sprintf("%s wrote to account %s with token %d (%s) after %d had written (%s)",
		who, later.account.id, later.token, later.op, earlier.token, earlier.op), w, earlier.event, later.event)
}

// answer settles the steps that waited for this request, and judges the request itself.
func (f *tokenOrder) answer(e *history.Event, c *call, end callEnd) {
	if !end.effective {
		return
	}
	by := authorship{c.payout, e.Op}
	if s := f.waiting[by]; s != nil {
		delete(f.waiting, by)
		s.token, s.by = e.Token, string(e.Proc)
		f.compare(s)
	}
	switch {
	case c.account == nil:
		f.unresolved++
	case !c.stale() || c.replay:
		f.checked++
	case e.Token <= c.payout.forgotten:
		f.unresolved++
	default:
		f.checked++
		f.report(fmt.Sprintf("%s's %s of payout %s took effect with token %d, although %d had been accepted for the account before it was sent",
			e.Proc, e.Op, e.Payout, e.Token, c.accepted.token),
			want{account: c.account.id, payout: e.Payout, tokens: [2]int64{e.Token, c.accepted.token}}, c.accepted.event, c.sent, f.book.keep(e))
	}
}

// Finish attributes what waited to the only request that can have made it, where the wiretap has seen all requests, and closes
// the gaps of what stays unknown.
func (f *tokenOrder) Finish(func(history.Witness) bool) {
	for by, s := range f.waiting {
		if !f.book.lost[history.Wiretap] {
			s.token = by.payout.author(by.op).settle()
		}
		if s.token != 0 {
			f.compare(s)
		} else {
			f.unresolved++
			f.drop(s)
		}
	}
	clear(f.waiting)
}

// drop takes a write that nobody can name out of the line; its neighbours become each other's.
func (f *tokenOrder) drop(s *step) {
	if s.prev != nil {
		s.prev.next = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	if p, n := s.prev, s.next; p != nil && n != nil && p.token != 0 && n.token != 0 {
		p.next, n.prev = nil, nil
		f.judge(p, n)
	}
}

func (f *tokenOrder) Verdict() verdict.Invariant {
	return f.verdict(map[string]int64{"takeovers": f.takeovers, "stale_refused_payment": f.book.staleRefusedPayment})
}
