package reports

import (
	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// near is how far around a violation everything is kept, in nanoseconds.
const near = 2_000_000_000

// interval is a stretch of time, in nanoseconds.
type interval struct{ from, to int64 }

// gatherer is the second pass over a history: lanes, marks, series, and the stories that the survey chose. Its memory
// is bounded by its limits and by what is open at one time: calls, and one lease per key.
type gatherer struct {
	limits   limits
	survey   *survey
	clients  *index
	links    map[string]contract.Link
	open     map[int64]*call
	leases   *leases
	releases map[int64]bool   // tokens whose release is on its way
	last     map[string]int64 // the token that a key was granted with last, where only the lock was put to work
	counters *counters
	issued   *issued
	density  [][]int64
	rows     map[string]int // payout → row of the index
	focus    []interval
	tellings []*telling
	byPayout map[string][]*telling
	byToken  map[int64][]*telling
	ladders  map[int]*ladder

	kept    []lease
	marks   []mark
	omitted omissions
}

func newGatherer(s *survey, chosen, indexed []*digest, focus []interval, lim limits) *gatherer {
	g := &gatherer{
		limits: lim, survey: s, clients: s.clients.sorted(), links: map[string]contract.Link{}, open: map[int64]*call{},
		issued: newIssued(), releases: map[int64]bool{}, last: map[string]int64{}, counters: newCounters(micros(s.end)), rows: map[string]int{}, focus: focus,
		byPayout: map[string][]*telling{}, byToken: map[int64][]*telling{}, ladders: map[int]*ladder{},
	}
	g.leases = newLeases(s.subjects, g.lease)
	for range g.clients.names {
		g.density = append(g.density, make([]int64, len(g.counters.posted)))
	}
	for i, d := range indexed {
		g.rows[d.id] = i
	}
	for _, d := range chosen {
		t := newTelling(d, lim.steps)
		t.resets = s.issued.resets
		g.tellings = append(g.tellings, t)
		g.byPayout[d.id] = append(g.byPayout[d.id], t)
		for _, tok := range d.tokens {
			g.byToken[tok] = append(g.byToken[tok], t)
		}
	}
	return g
}

// observe takes the next event of the history, in order of I.
func (g *gatherer) observe(e *history.Event) {
	again := g.issued.observe(e)
	switch e.W {
	case history.Wiretap:
		if e.Stage == history.Received {
			g.begin(e)
		} else if c := g.open[e.Call]; c != nil {
			if again != nil {
				c.before = again
			}
			g.advance(c, e)
		}
	case history.PayDB:
		g.commit(e)
	case history.LockDB:
		g.leases.commit(e, func(t int64) bool { return g.releases[t] })
	case history.Journal:
		if e.Op == history.OpMoney {
			for _, t := range g.byPayout[e.Payout] {
				t.money(e)
			}
		}
	}
}

func (g *gatherer) begin(e *history.Event) {
	if e.Op.Read() || e.Op == contract.OpHeartbeat {
		return
	}
	c := begin(e, g.links)
	g.open[c.id] = c
	if c.op == contract.OpRelease {
		g.releases[c.token] = true
	}
	if c.op.Fenced() || c.op == contract.OpTransfer {
		for _, t := range g.byPayout[c.payout] {
			t.call(c)
		}
	}
}

func (g *gatherer) advance(c *call, e *history.Event) {
	c.advance(e)
	switch e.Stage {
	case history.Answered:
		g.answered(c)
	case history.Delivered, history.Lost:
		delete(g.open, c.id)
	}
}

func (g *gatherer) answered(c *call) {
	switch c.op {
	case contract.OpAcquire, contract.OpRenew, contract.OpRelease:
		delete(g.releases, c.token)
		g.leases.call(c)
		if g.survey.subjects.locks {
			g.locked(c)
		}
		// A renewal that worked is no news; one that did not is.
		if c.op != contract.OpRenew || c.code != "" {
			for _, t := range g.byToken[max(c.token, c.granted)] {
				if g.ours(t, accountOfKey(c.key), c.answered) {
					t.call(c)
				}
			}
		}
	}
	if c.op == contract.OpRevoke && c.token > 0 && g.survey.subjects.locks {
		g.refusal(c, revokedGrant)
	}
	if !c.op.Fenced() {
		return
	}
	b := g.counters.at(micros(c.answered))
	g.counters.calls[b]++
	g.counters.delays[b].add(micros(c.answered - c.received))
	if point := c.point(); point != "" {
		c.behind = g.issued.behind(c.token, c.highest)
		g.counters.refused[b]++
		g.refusal(c, point)
	}
}

// locked takes an answered call of a run in which only the lock was put to work. A request that waits for a key takes as
// long as others hold it, so the delays are those of releases and renewals.
func (g *gatherer) locked(c *call) {
	b := g.counters.at(micros(c.answered))
	switch {
	case c.op != contract.OpAcquire:
		g.counters.calls[b]++
		g.counters.delays[b].add(micros(c.answered - c.received))
	case c.granted > 0:
		g.counters.posted[b]++
		g.last[c.key] = c.granted
	}
	if c.lostKey() {
		g.counters.refused[b]++
		c.highest = g.last[c.key]
		g.refusal(c, lostGrant)
	}
}

func (g *gatherer) refusal(c *call, point string) {
	if len(g.marks) >= g.limits.marks && !g.inFocus(c.answered, c.answered) || len(g.marks) >= 2*g.limits.marks {
		g.omitted.Marks++
		return
	}
	m := mark{at: micros(c.answered), client: g.clients.find(c.from), account: g.survey.accounts.find(g.accountOf(c)), payout: -1,
		point: point, op: string(c.op), token: token(c.token), highest: token(c.highest)}
	if row, ok := g.rows[c.payout]; ok {
		m.payout = row
	}
	g.marks = append(g.marks, m)
}

// accountOf is the account that a call is about; most requests only name the payout.
func (g *gatherer) accountOf(c *call) string {
	if g.survey.subjects.locks {
		return c.key
	}
	if d := g.survey.payouts[c.payout]; c.account == "" && d != nil {
		return d.account
	}
	return c.account
}

// lease takes a lease that is over.
func (g *gatherer) lease(l closed) {
	client := g.clients.find(l.client)
	told := g.byToken[l.token]
	for _, t := range told {
		if g.ours(t, l.account, l.to) {
			t.lease(l)
		}
	}
	if client >= 0 {
		g.density[client][g.counters.at(micros(l.to))]++
	}
	wanted := len(told) > 0 || g.inFocus(l.from, l.to) || g.survey.grants <= int64(g.limits.leases)
	if client < 0 || !wanted || len(g.kept) >= 2*g.limits.leases {
		g.omitted.Leases++
		return
	}
	g.kept = append(g.kept, lease{client: client, account: g.survey.accounts.find(l.account), from: micros(l.from), to: micros(l.to),
		token: token(l.token), end: l.end})
}

func (g *gatherer) inFocus(from, to int64) bool {
	for _, f := range g.focus {
		if from <= f.to && to >= f.from {
			return true
		}
	}
	return false
}

// commit takes a commit of paydb.
func (g *gatherer) commit(e *history.Event) {
	var told []*telling
	for i := range e.Changes {
		c := &e.Changes[i]
		row := c.New
		if row == nil {
			row = c.Old
		}
		switch c.Table {
		case "payout":
			if c.New["state"] == string(contract.Posted) && c.Old["state"] != string(contract.Posted) && c.Old != nil {
				g.counters.posted[g.counters.at(micros(e.T))]++
			}
		case "account":
			if c.Old != nil && c.Old["fence"] != c.New["fence"] {
				g.rung(e.T, c.New["account_id"], c.New["fence"], false)
			}
		case "rail_high_water":
			g.rung(e.T, c.New["account_id"], c.New["highest_token"], true)
		}
		if len(told) == 0 {
			told = g.byPayout[row["payout_id"]]
		}
	}
	for _, t := range told {
		t.commit(e)
	}
}

// finish ends what is open when the history ends.
func (g *gatherer) finish() { g.leases.finish(g.survey.end) }
