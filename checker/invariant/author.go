package invariant

import (
	"slices"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// author says which requests may have made a payout's transition, for the transitions whose rows bear no token of their
// own. Only the wiretap knows whose request it was.
type author struct {
	token   int64 // of the first request that was answered as effective
	proc    contract.Process
	unknown [2]int64 // tokens of requests whose answers leave it open
	many    bool     // more than those
	vouched [2]int64 // the latest tokens of requests that had been granted when they came
	made    bool     // the transition has been committed once
}

// authored is how many operations an author is kept for.
const authored = 5

func authorIndex(op contract.Op) int {
	switch op {
	case contract.OpClaim:
		return 0
	case contract.OpSubmitted:
		return 1
	case contract.OpOutcome:
		return 2
	case contract.OpPost:
		return 3
	case contract.OpResolve:
		return 4
	}
	return -1
}

// author of p's transition by op; nil for operations that make none.
func (p *payout) author(op contract.Op) *author {
	if i := authorIndex(op); i >= 0 {
		return &p.authors[i]
	}
	return nil
}

// answer enters what the answer to a request says about who made the transition.
func (p *payout) answer(e *history.Event, end callEnd) {
	a := p.author(e.Op)
	if a == nil {
		return
	}
	switch {
	case end.effective:
		if a.token == 0 {
			a.token, a.proc = e.Token, e.Proc
		}
	case end.unsure, e.Type == contract.Info:
		a.maybe(e.Token)
	}
}

// maybe notes a request that may have been the one.
func (a *author) maybe(token int64) {
	for i := range a.unknown {
		switch a.unknown[i] {
		case token:
			return
		case 0:
			a.unknown[i] = token
			return
		}
	}
	a.many = true
}

// vouch notes a request whose token had been granted, for when that is forgotten.
func (a *author) vouch(token int64) {
	if slices.Contains(a.vouched[:], token) {
		return
	}
	if i := slices.Index(a.vouched[:], 0); i >= 0 {
		a.vouched[i] = token
	} else {
		a.vouched = [2]int64{a.vouched[1], token}
	}
}

func (a *author) vouchedFor(token int64) bool { return slices.Contains(a.vouched[:], token) }

// settle is the token of the one request that can have made the transition, 0 when there are several or none. It is
// asked at the end; before it, only token says anything.
func (a *author) settle() int64 {
	switch {
	case a.token != 0:
		return a.token
	case a.many || a.unknown[1] != 0:
		return 0
	}
	return a.unknown[0]
}

// author of the transition that c asked for; nil where it asked for none.
func (c *call) author() *author {
	if c.payout == nil {
		return nil
	}
	return c.payout.author(c.op)
}
