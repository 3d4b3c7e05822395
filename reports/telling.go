package reports

import (
	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// telling gathers the evidence of one story.
type telling struct {
	of     *digest
	limit  int // of calls and of facts, each
	calls  []*call
	seen   map[int64]bool
	facts  []fact
	leases []closed
	resets []reset // of the lock store, in the whole run
	left   int
}

// fact is something that happened without a call of its own: a commit, or money that moved.
type fact struct {
	at    int64 // ns, as the witness recorded it
	i     int64
	lines []wording
	token string
	rail  bool // the rail proxy's commit, not payment-resource's
	money bool
	who   string
}

func newTelling(d *digest, limit int) *telling {
	return &telling{of: d, limit: limit, seen: map[int64]bool{}}
}

func (t *telling) call(c *call) {
	if t.seen[c.id] {
		return
	}
	if len(t.calls) >= t.limit {
		t.left++
		return
	}
	t.seen[c.id] = true
	t.calls = append(t.calls, c)
}

func (t *telling) lease(l closed) {
	if len(t.leases) < t.limit {
		t.leases = append(t.leases, l)
	}
}

func (t *telling) money(e *history.Event) {
	t.fact(fact{at: e.T, i: e.I, money: true, who: string(e.W),
		lines: []wording{{text: money(e.Amount, e.Currency) + " moved", tone: toneMoney}}})
}

// commit keeps the rows of a commit that belong to the story: the clearing account's do not.
func (t *telling) commit(e *history.Event) {
	mine := make([]history.Change, 0, len(e.Changes))
	for _, c := range e.Changes {
		row := c.New
		if row == nil {
			row = c.Old
		}
		// A transaction may finish several payouts of an account; the story is about one.
		if id := row["payout_id"]; id != "" && id != t.of.id {
			continue
		}
		if id := row["account_id"]; id != "" && t.of.account != "" && id != t.of.account && c.Table == "account" {
			continue
		}
		mine = append(mine, c)
	}
	lines := describe(mine)
	if len(lines) == 0 {
		return
	}
	f := fact{at: e.T, i: e.I, lines: lines, who: string(e.W)}
	for _, l := range lines {
		f.rail = f.rail || l.rail
		f.token = firstOf(f.token, l.token)
	}
	t.fact(f)
}

func (t *telling) fact(f fact) {
	if len(t.facts) >= t.limit {
		t.left++
		return
	}
	t.facts = append(t.facts, f)
}

// place is a position in a story: time, then the history's own order, then a finer one.
type place struct {
	at, i int64
	sub   int
}

func (p place) before(q place) bool {
	if p.at != q.at {
		return p.at < q.at
	}
	if p.i != q.i {
		return p.i < q.i
	}
	return p.sub < q.sub
}

// placeFacts says where each fact stands. A commit is decoded, and a journal line read, a moment after it happened,
// often after the answer that it led to. It certainly happened before that answer, so that is where it is told; the
// order of the commits among themselves is never changed by more than that.
func (t *telling) placeFacts() []place {
	out := make([]place, len(t.facts))
	used := map[*call]int{}
	for n, f := range t.facts {
		out[n] = place{f.at, f.i, 0}
		c := t.cause(f, used)
		if c == nil {
			continue
		}
		used[c]++
		// The attempt is recorded before the rail is called, its outcome after.
		if f.rail && c.op == contract.OpSubmit && used[c] == 1 && c.code != contract.FencedOut {
			out[n] = earlier(out[n], place{c.received, c.receivedI, n + 1})
		} else if c.answered >= 0 {
			out[n] = earlier(out[n], place{c.answered, c.answeredI, n - len(t.facts)})
		}
	}
	return out
}

func earlier(a, b place) place {
	if b.before(a) {
		return b
	}
	return a
}

// cause finds the call that a fact is the effect of: the first one with its token, at its server, that was there in
// time and has not been used up.
func (t *telling) cause(f fact, used map[*call]int) *call {
	for _, c := range t.calls {
		room := 1
		switch {
		case c.received > f.at:
			continue
		case f.money != (c.op == contract.OpTransfer), !f.money && f.rail != (c.op == contract.OpSubmit):
			continue
		case !f.money && (!c.op.Fenced() || token(c.token) != f.token):
			continue
		case c.op == contract.OpSubmit && c.code != contract.FencedOut:
			room = 2
		case c.code != "" && c.op != contract.OpSubmit && c.code != contract.InsufficientFunds && c.typ == contract.Fail:
			continue // a refused call has no effect
		}
		if used[c] < room {
			return c
		}
	}
	return nil
}
