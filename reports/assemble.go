package reports

import (
	"sort"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// maxShown is how many violations of one invariant the page shows; the verdict counts all of them.
const maxShown = 5

// shown is a violation that the page shows.
type shown struct {
	invariant string
	subjects  subjects
	told      string // its sentence, to be read
	verdict.Violation
}

// violationsShown are the violations on the page: the headline's first, the others in order of time.
func violationsShown(run verdict.Run) (out []shown, left int64) {
	for _, inv := range fallen(run) {
		n := min(len(inv.Violations), maxShown)
		for _, v := range inv.Violations[:n] {
			out = append(out, shown{inv.ID, subjectsOf(run), tell(v, subjectsOf(run)), v})
		}
		left += max(inv.Found, int64(n)) - int64(n)
	}
	if len(out) > 1 {
		rest := out[1:]
		sort.SliceStable(rest, func(a, b int) bool { return rest[a].decided() < rest[b].decided() })
	}
	return out, left
}

// decided is the time of the event that completed the violation, in nanoseconds.
func (s shown) decided() int64 {
	var t int64
	for i := range s.Events {
		t = max(t, s.Events[i].T)
	}
	return t
}

// payout is the payout that a violation is about: named by the verdict, else by the first of its events that names one.
func (s shown) payout() string {
	if s.Payout != "" {
		return s.Payout
	}
	for i := range s.Events {
		e := &s.Events[i]
		if e.Payout != "" {
			return e.Payout
		}
		for _, c := range e.Changes {
			if id := firstOf(c.New["payout_id"], c.Old["payout_id"]); id != "" {
				return id
			}
		}
	}
	return ""
}

// client is the client that the violation's evidence shows last: in a stale write, the late one.
func (s shown) client() string {
	for i := len(s.Events) - 1; i >= 0; i-- {
		if e := &s.Events[i]; e.W == history.Wiretap && (e.Op.Fenced() || s.subjects.locks) {
			return string(e.Proc)
		}
	}
	return ""
}

func (s shown) account() string { return firstOf(s.Account, s.subjects.of(s.Key)) }

// focusOn is the neighbourhood of the violations, where everything is kept.
func focusOn(violations []shown) []interval {
	var out []interval
	for _, v := range violations {
		if len(v.Events) == 0 {
			continue
		}
		f := interval{v.Events[0].T, v.Events[0].T}
		for i := range v.Events {
			f.from, f.to = min(f.from, v.Events[i].T), max(f.to, v.Events[i].T)
		}
		out = append(out, interval{f.from - near, f.to + near})
	}
	return out
}

// studied is a run with what its history says.
type studied struct {
	survey     *survey
	violations []shown
	data       pageData
	problem    error // what kept the history from being read to its end
}

// study reads the history twice: once to find out what is worth telling, once to gather it.
func study(run verdict.Run, open opener, lim limits) studied {
	violations, left := violationsShown(run)
	guilty := map[string]bool{}
	for _, v := range violations {
		if id := v.payout(); id != "" {
			guilty[id] = true
		}
	}
	s := newSurvey(guilty)
	s.subjects = subjectsOf(run)
	for _, v := range violations { // they are on the axis even if the history cannot be read
		s.end = max(s.end, v.decided())
		if c := contract.Process(v.client()); c != "" {
			s.clients.of(string(c))
		}
		s.accounts.of(v.account())
	}
	out := studied{survey: s, violations: violations}
	out.problem = pass(open, s.observe)
	index, lead := s.indexed(lim.payouts), ""
	if len(violations) > 0 {
		lead = violations[0].payout()
	}
	g := newGatherer(s, s.choose(lim.stories, lead), index, focusOn(violations), lim)
	if s.events > 0 {
		if err := pass(open, g.observe); out.problem == nil {
			out.problem = err
		}
	}
	g.finish()
	out.data = g.data(index, violations)
	out.data.Omitted.Violations = left
	return out
}

// data puts together what the page's script works with.
func (g *gatherer) data(indexed []*digest, violations []shown) pageData {
	s := g.survey
	d := pageData{
		Span: micros(s.end), Locks: s.subjects.locks, Clients: orEmpty(g.clients.names), Accounts: orEmpty(s.accounts.names), Windows: s.faults(g.clients),
		Leases: g.kept, Marks: g.marks, Phases: s.phases, Series: g.counters.series(), Omitted: g.omitted,
		Payouts: []payout{}, Guilty: []guilty{}, Stories: []story{}, Ladders: []ladder{},
	}
	sort.SliceStable(d.Leases, func(a, b int) bool { return d.Leases[a].from < d.Leases[b].from })
	for _, p := range indexed {
		d.Payouts = append(d.Payouts, p.row(s.accounts))
	}
	for _, t := range g.tellings {
		d.Stories = append(d.Stories, t.build(d.Windows, s.end))
	}
	for _, v := range violations {
		d.Guilty = append(d.Guilty, guilty{At: micros(v.decided()), Invariant: v.invariant, Sentence: clip(v.told, 400), Client: g.clients.find(v.client()),
			Account: s.accounts.find(v.account()), Payout: v.payout(), Story: storyOf(d.Stories, v.payout())})
	}
	for _, a := range s.accounts.names {
		if l := g.ladders[s.accounts.find(a)]; l != nil {
			d.Ladders = append(d.Ladders, *l)
		}
	}
	d.Omitted.Payouts = s.dropped + int64(len(s.payouts)-len(indexed))
	d.Omitted.Windows = s.lost
	if d.Omitted.Leases > 0 {
		d.Density = &density{Leases: g.density}
	}
	if d.Leases == nil {
		d.Leases = []lease{}
	}
	if d.Marks == nil {
		d.Marks = []mark{}
	}
	if d.Phases == nil {
		d.Phases = []phase{}
	}
	d.Tail = idLabelled{Accounts: sameHeads(d.Accounts), Payouts: sameHeads(payoutIDs(indexed))}
	return d
}

func (d *digest) row(accounts *index) payout {
	p := payout{id: d.id, account: accounts.find(d.account), from: micros(d.first), to: micros(d.last), state: clip(string(d.state), 40),
		moved: d.moved, atRail: d.atRail, atRow: d.atRow}
	for _, t := range d.tokens {
		p.tokens = append(p.tokens, token(t))
	}
	return p
}

// storyOf finds the story of a payout, −1 where there is none.
func storyOf(stories []story, payout string) int {
	for i, s := range stories {
		if s.Payout == payout && payout != "" {
			return i
		}
	}
	return -1
}

func payoutIDs(ds []*digest) []string {
	out := make([]string, len(ds))
	for i, d := range ds {
		out[i] = d.id
	}
	return out
}

// sameHeads tells whether the first eight characters of some two ids are alike, so that they would look the same.
func sameHeads(ids []string) bool {
	seen := map[string]bool{}
	for _, id := range ids {
		if len(id) > 8 {
			id = id[:8]
		}
		if seen[id] {
			return true
		}
		seen[id] = true
	}
	return false
}

// orEmpty makes an empty list of a missing one: the page's script wants a list.
func orEmpty(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}
