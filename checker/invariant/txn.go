package invariant

import (
	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// txn is one committed transaction of paydb, read once for all folds. The changes to accounts and payouts are already
// in the book when a fold sees it; what stood there before is here.
type txn struct {
	event    *history.Event
	accounts []accountChange
	payouts  []payoutChange
	legs     []legChange
	marks    []markChange
	attempts []attemptChange
	writes   []write
}

// accountChange is a row of account, inserted or updated.
type accountChange struct {
	account        *account
	insert         bool
	before, after  int64 // balance
	fence0, fence1 int64 // fence before and after
}

// payoutChange is a row of payout, inserted or updated.
type payoutChange struct {
	payout         *payout
	insert         bool
	from, to       contract.State
	token0, token1 int64 // claim_token before and after
	attempts       int64 // by how much attempt_count grew
	claimedBy      string
}

// legChange is a row of ledger_entry; sign is −1 where the row was taken away.
type legChange struct {
	payout  *payout
	account *account
	amount  int64 // signed: a DEBIT takes away
	fence   int64
	sign    int64
}

// markChange is a row of rail_high_water.
type markChange struct {
	account       *account
	known         bool // there was a mark before
	before, after int64
}

// attemptChange is a row of rail_submission.
type attemptChange struct {
	payout       *payout
	insert       bool
	token        int64
	before, now  contract.Outcome
	markBefore   int64 // the account's mark before this transaction
	submissionID string
}

// write is what one transaction wrote for one customer account under one token.
type write struct {
	account *account
	payout  *payout     // nil where the transaction changed the account alone
	op      contract.Op // claim, submitted, outcome, post or resolve
	token   int64       // 0: only the request's header knows
	by      string      // the owner, where the row says so
	fence   int64       // the account's fence before; −1: unknown
}

func (t *txn) reset(e *history.Event) {
	t.event = e
	t.accounts, t.payouts, t.legs = t.accounts[:0], t.payouts[:0], t.legs[:0]
	t.marks, t.attempts, t.writes = t.marks[:0], t.attempts[:0], t.writes[:0]
}

// readTxn reads a commit of paydb and enters it in the book: first the rows that others refer to, then the legs, then
// who wrote what.
func (b *book) readTxn(e *history.Event) {
	t := &b.txn
	t.reset(e)
	for i := range e.Changes {
		c := &e.Changes[i]
		switch c.Table {
		case "account":
			b.readAccount(c)
		case "rail_high_water":
			b.readMark(c)
		case "payout":
			b.readPayout(c)
		}
	}
	for i := range e.Changes {
		c := &e.Changes[i]
		switch c.Table {
		case "ledger_entry":
			b.readLeg(c)
		case "rail_submission":
			b.readAttempt(c)
		}
	}
	t.classify()
}

// readAccount takes a row that was deleted for one that holds nothing and shuts out nobody.
func (b *book) readAccount(c *history.Change) {
	a := b.account(rowID(c, "account_id"))
	ch := accountChange{account: a, insert: c.Kind == history.Insert && !a.known, after: history.Int(c.New["balance_minor"]), fence1: history.Int(c.New["fence"])}
	if a.known && c.Old != nil {
		b.follows("account", a.id, "balance_minor", c.Old, a.balance)
		b.follows("account", a.id, "fence", c.Old, a.fence)
	}
	switch {
	case ch.insert:
		a.opening, ch.before = ch.after, ch.after
	case a.known && c.Old != nil && b.lost[history.PayDB]:
		ch.before, ch.fence0 = history.Int(c.Old["balance_minor"]), history.Int(c.Old["fence"])
	case a.known:
		ch.before, ch.fence0 = a.balance, a.fence
	case c.Old != nil: // it was there before the witness came: what it held then counts as its opening balance
		ch.before, ch.fence0 = history.Int(c.Old["balance_minor"]), history.Int(c.Old["fence"])
		a.opening = ch.before - a.entries
	default:
		ch.before, ch.fence0 = ch.after, ch.fence1
		a.rebased = true
	}
	a.known, a.balance, a.fence = true, ch.after, ch.fence1
	b.txn.accounts = append(b.txn.accounts, ch)
}

// readMark takes a row that was deleted for a mark that refuses nobody.
func (b *book) readMark(c *history.Change) {
	a := b.account(rowID(c, "account_id"))
	ch := markChange{account: a, known: a.mark > 0, before: a.mark, after: history.Int(c.New["highest_token"])}
	if ch.known && c.Old != nil {
		b.follows("rail_high_water", a.id, "highest_token", c.Old, a.mark)
	}
	if c.Old != nil && (!ch.known || b.lost[history.PayDB]) {
		ch.known, ch.before = true, history.Int(c.Old["highest_token"])
	}
	a.mark = ch.after
	b.txn.marks = append(b.txn.marks, ch)
}

func (b *book) readPayout(c *history.Change) {
	if c.New == nil {
		return
	}
	p := b.payout(c.New["payout_id"])
	if p.account == nil {
		p.account = b.account(c.New["account_id"])
		p.account.customer, p.whole = true, c.Kind == history.Insert
		p.amount, p.currency = history.Int(c.New["amount_minor"]), c.New["currency"]
	}
	ch := payoutChange{
		payout: p, insert: c.Kind == history.Insert,
		from: p.state, to: contract.State(c.New["state"]),
		token0: p.token, token1: history.Int(c.New["claim_token"]),
		claimedBy: c.New["claimed_by"],
	}
	if c.Old != nil {
		if p.state != "" && c.Old["state"] != string(p.state) {
			b.hole(history.PayDB, "payout %s was last seen %s and then changed from %s: commits between are missing", p.id, p.state, c.Old["state"])
		}
		ch.attempts = history.Int(c.New["attempt_count"]) - history.Int(c.Old["attempt_count"])
		ch.from, ch.token0 = contract.State(c.Old["state"]), history.Int(c.Old["claim_token"])
	}
	b.countState(p.state, ch.to)
	p.state, p.token = ch.to, ch.token1
	b.txn.payouts = append(b.txn.payouts, ch)
}

// rowID is a column of the row that c is about, whatever became of it.
func rowID(c *history.Change, column string) string {
	if c.New == nil {
		return c.Old[column]
	}
	return c.New[column]
}

// follows sees that a row changed from what it was last seen to hold. The log has every commit, with whole old rows, so
// anything else means that commits are missing from it.
func (b *book) follows(table, id, column string, old map[string]string, seen int64) {
	if was := history.Int(old[column]); was != seen {
		b.hole(history.PayDB, "%s %s had %s %d and then changed from %d: commits between are missing", table, id, column, seen, was)
	}
}

func (b *book) readLeg(c *history.Change) {
	add := func(row map[string]string, sign int64) {
		if row == nil {
			return
		}
		l := legChange{payout: b.payout(row["payout_id"]), account: b.account(row["account_id"]), amount: history.Int(row["amount_minor"]), fence: history.Int(row["fence"]), sign: sign}
		if row["direction"] == "DEBIT" {
			if l.account == l.payout.account {
				l.payout.debited += sign * l.amount
			}
			l.amount = -l.amount
		} else {
			l.account.credits += sign
			if sign > 0 {
				l.account.creditor, l.account.credited = l.payout, b.keep(b.txn.event)
			}
		}
		l.account.entries += sign * l.amount
		l.payout.legs += sign * l.amount
		b.txn.legs = append(b.txn.legs, l)
	}
	add(c.Old, -1)
	add(c.New, 1)
}

func (b *book) readAttempt(c *history.Change) {
	if c.New == nil {
		return
	}
	a := attemptChange{
		payout: b.payout(c.New["payout_id"]), insert: c.Kind == history.Insert, token: history.Int(c.New["presented_token"]),
		now: contract.Outcome(c.New["outcome"]), before: contract.Outcome(c.Old["outcome"]), submissionID: c.New["submission_id"],
	}
	if acc := a.payout.account; acc != nil {
		a.markBefore = acc.mark
		for _, m := range b.txn.marks {
			if m.account == acc {
				a.markBefore = m.before
				break
			}
		}
	}
	b.txn.attempts = append(b.txn.attempts, a)
}

// classify derives the writes of the transaction from its rows alone, as INV-01 defines a transaction's token: the
// claim token for claim and resolve, the legs' fence for post, the request's header (0 here) for submitted and outcome.
func (t *txn) classify() {
	for i := range t.payouts {
		if c := &t.payouts[i]; !c.insert {
			t.classifyPayout(c)
		}
	}
	for i := range t.accounts {
		// A debit without a change of any payout of the account: whoever debits stamps his token as the fence.
		if c := &t.accounts[i]; c.account.customer && c.after < c.before && !t.writesFor(c.account) {
			t.add(write{account: c.account, op: contract.OpPost, token: c.fence1})
		}
	}
}

func (t *txn) classifyPayout(c *payoutChange) {
	w := write{account: c.payout.account, payout: c.payout}
	legs := t.legsOf(c.payout)
	switch {
	case legs != 0 || c.to == contract.Posted:
		w.op, w.token = contract.OpPost, legs
		if d := t.debitOf(w.account); legs == 0 && d != nil {
			w.token = d.fence1 // posted again: the legs were there already, but the debit stamps its token
		}
	case c.from == contract.RailAmbiguous && c.to != c.from, c.to == contract.Abandoned:
		w.op, w.token, w.by = contract.OpResolve, c.token1, c.claimedBy
	case c.token0 != c.token1, c.from == contract.Pending && c.to != c.from, c.to == c.from && c.attempts != 0:
		w.op, w.token, w.by = contract.OpClaim, c.token1, c.claimedBy
	case c.from == contract.Claimed && c.to == contract.RailSubmitted:
		w.op = contract.OpSubmitted
	case c.from == contract.RailSubmitted && c.to != c.from:
		w.op = contract.OpOutcome
	default:
		return // nothing that a token stands behind
	}
	t.add(w)
}

func (t *txn) add(w write) {
	w.fence = -1
	if w.account != nil && w.account.known {
		w.fence = w.account.fence
	}
	for i := range t.accounts {
		if c := &t.accounts[i]; c.account == w.account {
			w.fence = c.fence0
			break
		}
	}
	t.writes = append(t.writes, w)
}

func (t *txn) writesFor(a *account) bool {
	for i := range t.writes {
		if t.writes[i].account == a {
			return true
		}
	}
	return false
}

// legsOf is the fence on the new legs of p, 0 without any. Legs that differ are judged by the lowest.
func (t *txn) legsOf(p *payout) int64 {
	var token int64
	for i := range t.legs {
		if l := &t.legs[i]; l.payout == p && l.sign > 0 && (token == 0 || l.fence < token) {
			token = l.fence
		}
	}
	return token
}

// debitOf is the change that took money from a, nil without one.
func (t *txn) debitOf(a *account) *accountChange {
	for i := range t.accounts {
		if c := &t.accounts[i]; c.account == a && c.after < c.before {
			return c
		}
	}
	return nil
}
