// INV-03: after every commit the balances equal what was opened and posted, and at the end money moved exactly for what
// was posted.

package invariant

import (
	"cmp"
	"fmt"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// balance compares, after every commit, balance with opening + Σ entries for each account it touched, and for each payout
// that it posted, or whose legs it touched, Σ legs with 0 and what they take from its account with what they must: its amount
// where it is POSTED, and nothing before. Books that balance may still hold a payout twice, or not at all, or have somebody else
// paid. At the end it holds every payout that is POSTED or FAILED against the journal: at least one transfer of its amount
// if it was posted, none of any amount if it failed, and none that is no payout's. And it holds its own sums against what a
// SELECT says when all is over.
type balance struct {
	findings
	off   map[*account]int64 // by how much an account is off: a difference is reported when it comes up or changes
	legs  map[*payout]int64  // the same for a payout's legs
	taken map[*payout]int64  // by how much a payout's legs take too much from its account, or too little
	paid  map[*account]bool  // customers that were reported as credited
	last  map[*account]*history.Event
	moved map[string]transfers
	ends  map[*payout]*history.Event // the commit of a payout's last state, as evidence

	selected int64 // balances that a SELECT has confirmed
}

// transfers is what the rail moved for one payout: the first, and the first of its exact amount.
type transfers struct {
	first, other *history.Event // of different amount or currency
}

func newBalance(b *book, t *tally) *balance {
	return &balance{
		findings: findings{id: "INV-03", guarantee: "After every commit each balance is its opening plus the sum of its entries, and the legs of a payout cancel out and take its amount from its own account, once, if it is POSTED; at the end the rail moved a payout's amount if it is POSTED, nothing if it is FAILED, and nothing else.", book: b, tally: t},
		off:      map[*account]int64{}, legs: map[*payout]int64{}, taken: map[*payout]int64{}, paid: map[*account]bool{}, last: map[*account]*history.Event{}, moved: map[string]transfers{}, ends: map[*payout]*history.Event{},
	}
}

func (f *balance) RestsOn() []history.Witness {
	return []history.Witness{history.PayDB, history.Journal}
}

func (f *balance) Observe(e *history.Event) {
	f.explain(e)
	switch {
	case e.W == history.PayDB && e.Op == history.OpCommit && !f.book.lost[history.PayDB]: // behind a hole sums prove nothing
		f.commit(&f.book.txn, e)
	case e.W == history.Journal && e.Op == history.OpMoney:
		m := f.moved[e.Payout]
		switch {
		case m.first == nil:
			m.first = f.book.keep(e)
		case m.other == nil && (e.Amount != m.first.Amount || e.Currency != m.first.Currency):
			m.other = f.book.keep(e)
		default:
			return
		}
		f.moved[e.Payout] = m
	case e.W == history.Run && !f.book.lost[history.PayDB] && (e.Op == history.OpBalance || e.Op == history.OpAudited):
		f.audit(e)
	}
}

func (f *balance) commit(t *txn, e *history.Event) {
	f.checked++
	for i := range t.accounts {
		f.account(t.accounts[i].account, e)
	}
	for i := range t.legs {
		f.account(t.legs[i].account, e)
		f.payout(t.legs[i].payout, e)
		f.once(t.legs[i].payout, e)
		f.credited(t.legs[i].account)
	}
	for i := range t.payouts {
		f.once(t.payouts[i].payout, e)
		f.credited(t.payouts[i].payout.account)
	}
	for i := range t.accounts {
		f.last[t.accounts[i].account] = f.book.keep(e)
	}
	for i := range t.payouts {
		if c := &t.payouts[i]; c.to == contract.Posted || c.to == contract.Failed {
			f.ends[c.payout] = ending(c, e)
		}
	}
}

// ending is the commit e without anything but the change c: one is kept for every payout.
func ending(c *payoutChange, e *history.Event) *history.Event {
	kept := *e
	kept.Changes = []history.Change{{Table: "payout", Kind: history.Update, New: map[string]string{
		"payout_id": c.payout.id, "state": string(c.to),
	}}}
	return &kept
}

func (f *balance) account(a *account, e *history.Event) {
	if !a.known || a.rebased {
		return
	}
	off := a.balance - a.opening - a.entries
	if off == f.off[a] {
		return
	}
	if off == 0 {
		delete(f.off, a)
		return
	}
	f.off[a] = off
	w := want{account: a.id}
	for i := range f.book.txn.writes {
		if wr := &f.book.txn.writes[i]; wr.payout != nil {
			w.payout, w.tokens[0], w.op = wr.payout.id, wr.token, wr.op
			if wr.account != a { // a clearing account: its story is the customer's
				w.key = keyPrefix + wr.account.id
			}
		}
	}
	f.report(fmt.Sprintf("account %s holds %d minor units, but it was opened with %d and its entries sum up to %d",
		a.id, a.balance, a.opening, a.entries), w, f.last[a], f.book.keep(e))
}

func (f *balance) payout(p *payout, e *history.Event) {
	if p.legs == f.legs[p] {
		return
	}
	if p.legs == 0 {
		delete(f.legs, p)
		return
	}
	f.legs[p] = p.legs
	w := want{payout: p.id}
	if p.account != nil {
		w.account, w.tokens[0] = p.account.id, p.token
	}
	f.report(fmt.Sprintf("the legs of payout %s sum up to %d, not to 0", p.id, p.legs), w, f.last[p.account], f.book.keep(e))
}

// once holds what the legs of a payout take from its account against what they must. A second pair of legs cancels out as well
// as the first, and so does none.
func (f *balance) once(p *payout, e *history.Event) {
	var must int64
	if p.state == contract.Posted {
		must = p.amount
	}
	off := p.debited - must
	switch {
	case !p.whole || p.amount == 0 || off == f.taken[p]:
		return
	case off == 0:
		delete(f.taken, p)
		return
	}
	f.taken[p] = off
	f.report(fmt.Sprintf("payout %s of %d minor units is %s, and its legs take %d from its account", p.id, p.amount, p.state, p.debited),
		want{payout: p.id, account: p.account.id, tokens: [2]int64{p.token}}, f.last[p.account], f.book.keep(e))
}

// credited reports a customer whose account a leg adds to: payouts take from customers, and pay what they take to nobody here.
func (f *balance) credited(a *account) {
	if a == nil || !a.customer || a.credits <= 0 || f.paid[a] {
		return
	}
	f.paid[a] = true
	w := want{payout: a.creditor.id}
	if payer := a.creditor.account; payer != nil {
		w.account, w.key, w.tokens[0] = payer.id, keyPrefix+payer.id, a.creditor.token
	}
	f.report(fmt.Sprintf("the legs of payout %s pay customer's account %s", a.creditor.id, a.id), w, f.book.key(w.key).ever.granted.event, f.last[a.creditor.account], a.credited)
}

// Finish compares the payouts that came to an end with the journal. An end is final, whatever else the log lost.
func (f *balance) Finish(whole func(history.Witness) bool) {
	for _, id := range sortedKeys(f.book.payouts) {
		p := f.book.payouts[id]
		if p.account == nil || p.state != contract.Posted && p.state != contract.Failed {
			continue
		}
		m := f.moved[id]
		paid := m.of(p) != nil
		moved := m.first != nil
		w := want{payout: id, account: p.account.id, tokens: [2]int64{p.token}}
		switch {
		case p.state == contract.Failed && moved:
			f.checked++
			f.report(fmt.Sprintf("payout %s is FAILED, but the rail moved %d minor units of %s for it (%s)", id, m.first.Amount, cmp.Or(m.first.Currency, p.currency), m.first.RailRef),
				w, append(f.book.railStory(id), m.first, f.ends[p])...)
		case p.state == contract.Posted && !paid && whole(history.Journal):
			f.checked++
			f.report(fmt.Sprintf("payout %s is POSTED, but the rail never moved its %d minor units of %s", id, p.amount, p.currency),
				w, append(f.book.railStory(id), m.first, f.ends[p])...)
		case paid || whole(history.Journal):
			f.checked++
		}
	}
	if whole(history.PayDB) {
		f.orphans()
	}
}

// orphans reports the transfers of which paydb knows no payout.
func (f *balance) orphans() {
	for _, id := range sortedKeys(f.moved) {
		f.checked++
		if p := f.book.payouts[id]; p == nil || p.account == nil {
			m := f.moved[id].first
			f.report(fmt.Sprintf("the rail moved %d minor units of %s for client reference %s (%s), which is no payout's", m.Amount, m.Currency, id, m.RailRef), want{payout: id}, m)
		}
	}
}

// of is the transfer of p's amount, nil without one.
func (m transfers) of(p *payout) *history.Event {
	for _, e := range []*history.Event{m.first, m.other} {
		if e != nil && e.Amount == p.amount && (e.Currency == "" || e.Currency == p.currency) {
			return e
		}
	}
	return nil
}

func (f *balance) Verdict() verdict.Invariant {
	return f.verdict(among(map[string]int64{"stale_refused_payment": f.book.staleRefusedPayment, "balances_selected": f.selected}, map[string]int64{"kills_in_post": f.book.kills.inPost}, f.book.fullDisks.of(contract.PayDB)))
}
