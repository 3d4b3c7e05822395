// INV-02: each payout moves money at most once.

package invariant

import (
	"fmt"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// paidOnce counts the journal's lines per payout: the rail's own record of money moved is the only truth about it. A
// payout has at most one submission with the final outcome ACKED, too.
type paidOnce struct {
	findings
	paid      map[string]*payment
	submitted map[string]int64 // R1 requests forwarded per payout

	resubmitted, duplicates int64
}

// payment is what the rail did for one payout.
type payment struct {
	times int64
	first *history.Event
	acked string // the submission that was ACKED first
	ack   *history.Event
}

func newPaidOnce(b *book, t *tally) *paidOnce {
	return &paidOnce{
		findings: findings{id: "INV-02", guarantee: "Each payout moves money at most once.", book: b, tally: t},
		paid:     map[string]*payment{}, submitted: map[string]int64{},
	}
}

func (f *paidOnce) RestsOn() []history.Witness {
	return []history.Witness{history.Journal, history.PayDB}
}

func (f *paidOnce) Observe(e *history.Event) {
	f.explain(e)
	switch {
	case e.W == history.Journal && e.Op == history.OpMoney:
		f.moved(e)
	case e.W == history.PayDB && e.Op == history.OpCommit:
		for i := range f.book.txn.attempts {
			f.outcome(&f.book.txn.attempts[i], e)
		}
	case e.W == history.Wiretap && e.Op == contract.OpSubmit && e.Stage == history.Forwarded:
		if f.submitted[e.Payout]++; f.submitted[e.Payout] == 2 {
			f.resubmitted++
		}
	case e.W == history.Wiretap && e.Op == contract.OpSubmit && e.Stage == history.Answered && e.Outcome == contract.OutcomeDuplicate:
		f.duplicates++
	}
}

func (f *paidOnce) payment(id string) *payment {
	p := f.paid[id]
	if p == nil {
		p = &payment{}
		f.paid[id] = p
	}
	return p
}

func (f *paidOnce) moved(e *history.Event) {
	p := f.payment(e.Payout)
	if p.times++; p.times == 1 {
		f.checked++
		p.first = f.book.keep(e)
		return
	}
	f.report(fmt.Sprintf("the rail moved money for payout %s %d times: %s and now %s", e.Payout, p.times, p.first.RailRef, e.RailRef),
		want{payout: e.Payout}, append(f.book.railStory(e.Payout), p.first, f.book.keep(e))...)
}

// outcome judges a submission's final outcome. A row that stays ACKED is no second one.
func (f *paidOnce) outcome(a *attemptChange, e *history.Event) {
	if a.now != contract.OutcomeAcked || a.before == contract.OutcomeAcked && !a.insert {
		return
	}
	p := f.payment(a.payout.id)
	if p.acked == "" {
		p.acked = a.submissionID
		ack := abridged(e)
		p.ack = &ack
		return
	}
	f.report(fmt.Sprintf("payout %s has two submissions with the final outcome ACKED, %s and %s", a.payout.id, p.acked, a.submissionID),
		want{payout: a.payout.id}, append(f.book.railStory(a.payout.id), p.ack, f.book.keep(e))...)
}

func (f *paidOnce) Finish(func(history.Witness) bool) {}

func (f *paidOnce) Verdict() verdict.Invariant {
	return f.verdict(map[string]int64{
		"resubmitted_payouts": f.resubmitted, "duplicates_refused": f.duplicates, "stale_refused_rail": f.book.staleRefusedRail,
	})
}
