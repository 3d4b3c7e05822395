package reports

import (
	"sort"
	"strconv"

	"fenceproof/checker/contract"
)

// entry is a step with its place.
type entry struct {
	place
	step
	opens, closes int64 // token of the lease that begins or ends here
	fault         int   // index of the window that begins (n+1) or ends (−n−1) here
}

// build puts a telling in order.
func (t *telling) build(windows []window, end int64) story {
	s := story{Payout: t.of.id, Account: t.of.account, Kind: t.of.kind(), Guilty: t.of.guilty, Left: t.left}
	lanes := t.lanes()
	s.Lanes = lanes.names
	entries := append(t.callEntries(lanes), t.factEntries(lanes)...)
	entries = append(entries, t.leaseEntries(lanes)...)
	if len(entries) == 0 {
		s.Steps, s.Bands, s.Holds = []step{}, []band{}, []hold{}
		s.Caption = "The history holds no call about this payout."
		return s
	}
	order(entries)
	from, to := entries[0].at, entries[len(entries)-1].at
	entries = append(entries, faultEntries(lanes, windows, entries)...)
	entries = append(entries, t.resetEntries(lanes, from)...)
	order(entries)
	if cut := 2 * t.limit; len(entries) > cut {
		s.Left += len(entries) - cut
		entries = entries[:cut]
	}
	for _, e := range entries {
		s.Steps = append(s.Steps, e.step)
	}
	s.From, s.To = micros(from), micros(to)
	s.Bands, s.Holds = bands(entries, windows), t.holds(entries, lanes)
	s.Caption = t.caption(s.Bands, s.Lanes)
	return s
}

func order(entries []entry) {
	sort.SliceStable(entries, func(a, b int) bool { return entries[a].before(entries[b].place) })
}

// lanes are the clients in the order in which they come in, then the servers from left to right as a payout meets them.
func (t *telling) lanes() *index {
	calls := append([]*call(nil), t.calls...)
	sort.SliceStable(calls, func(a, b int) bool { return calls[a].received < calls[b].received })
	x := newIndex()
	servers := map[string]bool{}
	for _, c := range calls {
		servers[c.to] = true
	}
	for _, c := range calls {
		if !servers[c.from] {
			x.of(c.from)
		}
	}
	known := []string{string(contract.LockServer), string(contract.PaymentResource), string(contract.RailProxy), string(contract.RailStub)}
	for _, k := range known {
		if servers[k] {
			x.of(k)
		}
	}
	for _, c := range calls { // servers that the contract does not name
		x.of(c.from)
		x.of(c.to)
	}
	for _, f := range t.facts { // a commit may be all that was seen
		x.of(f.server())
	}
	return x
}

// server is the process whose resource a fact is about.
func (f fact) server() string {
	switch {
	case f.money:
		return string(contract.RailStub)
	case f.rail:
		return string(contract.RailProxy)
	}
	return string(contract.PaymentResource)
}

func (t *telling) callEntries(lanes *index) []entry {
	var out []entry
	stale := t.staleWrites()
	for _, c := range t.calls {
		from, to := lanes.find(c.from), lanes.find(c.to)
		ask := entry{place: place{c.received, c.receivedI, 0},
			step: step{At: micros(c.received), Kind: stepCall, From: from, To: to, Token: token(c.token), Text: []string{c.asks()}, Who: "wiretap"}}
		if stale[c] {
			ask.Tone = toneBad
		}
		out = append(out, ask)
		if c.answered < 0 {
			continue
		}
		text, mood := c.answers()
		a := entry{place: place{c.answered, c.answeredI, 0},
			step: step{At: micros(c.answered), Kind: stepAnswer, From: to, To: from, Text: []string{text}, Tone: mood, Who: "wiretap"}}
		switch {
		case c.op == contract.OpAcquire && c.granted > 0:
			a.opens, a.Token = c.granted, token(c.granted)
		case c.op == contract.OpRelease && c.status/100 == 2:
			a.closes = c.token
		}
		out = append(out, a)
	}
	return out
}

func (t *telling) factEntries(lanes *index) []entry {
	places := t.placeFacts()
	var out []entry
	moved := 0
	for n, f := range t.facts {
		lane := lanes.find(f.server())
		s := step{At: micros(places[n].at), Kind: stepNote, From: lane, To: lane, Token: f.token, Who: f.who}
		for _, l := range f.lines {
			s.Text = append(s.Text, l.text)
			s.Tone = stronger(s.Tone, l.tone)
		}
		if f.money {
			if moved++; moved > 1 {
				s.Text, s.Tone = append(s.Text, "for the "+ordinal(moved)+" time"), toneBad
			}
		}
		out = append(out, entry{place: places[n], step: s})
	}
	return out
}

func ordinal(n int) string {
	switch n {
	case 2:
		return "second"
	case 3:
		return "third"
	}
	return strconv.Itoa(n) + "th"
}

// stronger keeps the tone that the reader must not miss.
func stronger(a, b tone) tone {
	rank := map[tone]int{toneBad: 6, toneMoney: 5, toneRefused: 4, toneUnknown: 3, toneFault: 2, toneRaise: 1}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// leaseEntries are the ends that no call shows: a lease that ran out, or whose session ended.
func (t *telling) leaseEntries(lanes *index) []entry {
	var out []entry
	for _, l := range t.leases {
		lane := lanes.find(l.client)
		text := ""
		switch l.end {
		case endExpired:
			text = "lease ran out"
		case endDeleted:
			text = "lease ended with its session"
		case endTaken:
			text = "superseded by the next grant"
		}
		if lane < 0 || text == "" {
			continue
		}
		out = append(out, entry{place: place{l.to, 0, 0}, closes: l.token,
			step: step{At: micros(l.to), Kind: stepNote, From: lane, To: lane, Token: token(l.token), Text: []string{text}, Tone: toneFault, Who: "lease"}})
	}
	return out
}

// faultEntries are the faults that lay on a lane while it took part in the story. A process that was stopped before or
// after is not part of it.
func faultEntries(lanes *index, windows []window, entries []entry) []entry {
	busy := make([]interval, len(lanes.names))
	for _, e := range entries {
		for _, lane := range []int{e.From, e.To} {
			if busy[lane].from == 0 {
				busy[lane].from = e.at
			}
			busy[lane].to = e.at
		}
	}
	var out []entry
	for n, w := range windows {
		lane := lanes.find(hitBy(w.Target))
		if lane < 0 || w.Failed || w.From > micros(busy[lane].to) || w.To < micros(busy[lane].from) {
			continue
		}
		begin, end := "stopped", "resumed after "+span(w.To-w.From)
		switch w.Name {
		case "pause":
		case "kill":
			begin, end = "killed", "runs again, "+span(w.To-w.From)+" later"
		default:
			fault := faultOf(w.Name, w.Target)
			begin, end = fault+" begins", fault+" healed after "+span(w.To-w.From)
		}
		note := func(at int64, text string, fault int) {
			out = append(out, entry{place: place{at * 1000, 0, 0}, fault: fault,
				step: step{At: at, Kind: stepNote, From: lane, To: lane, Text: []string{text}, Tone: toneFault, Who: "nemesis"}})
		}
		if w.From*1000 >= entries[0].at {
			note(w.From, begin, n+1)
		}
		if w.To*1000 <= entries[len(entries)-1].at {
			note(w.To, end, -n-1)
		}
	}
	return out
}

// bands finds where each fault lies among the steps; one that began before the story begins at its first step.
func bands(entries []entry, windows []window) []band {
	out := []band{}
	open := map[int]int{} // window → index in out
	for at, e := range entries {
		switch {
		case e.fault > 0:
			w := windows[e.fault-1]
			open[e.fault-1] = len(out)
			out = append(out, band{Lane: e.From, From: at, To: len(entries) - 1, Text: faultOf(w.Name, w.Target) + " " + span(w.To-w.From)})
		case e.fault < 0:
			n := -e.fault - 1
			if at0, ok := open[n]; ok {
				out[at0].To = at
			} else {
				out = append(out, band{Lane: e.From, From: 0, To: at, Text: windows[n].Name + " " + span(windows[n].To-windows[n].From)})
			}
		}
	}
	return out
}

// holds finds where each lease lies among the steps.
func (t *telling) holds(entries []entry, lanes *index) []hold {
	out := []hold{}
	open := map[int64]int{}
	for at, e := range entries {
		if e.opens != 0 {
			open[e.opens] = len(out)
			out = append(out, hold{Lane: e.To, From: at, To: len(entries) - 1, Token: token(e.opens)})
		}
		if n, ok := open[e.closes]; ok && e.closes != 0 {
			out[n].To, out[n].Stale = at, e.Kind == stepNote
			delete(open, e.closes)
		}
	}
	return out
}

// asks is what a request says, for its arrow; the token stands beside it.
func (c *call) asks() string {
	text := string(c.op)
	switch c.op {
	case contract.OpSubmit:
		text = "submit " + c.amount
	case contract.OpTransfer:
		text = "transfer " + c.amount
	case contract.OpOutcome:
		text = "outcome " + string(c.outcome)
	}
	if c.dup {
		text += " (repeated on purpose)"
	}
	return clip(text, 60)
}

// answers is what an answer says.
func (c *call) answers() (string, tone) {
	suffix := ""
	if c.lost {
		suffix = ", never delivered"
	}
	switch {
	case c.code == contract.FencedOut:
		return "FENCED_OUT, highest " + strconv.FormatInt(c.highest, 10) + suffix, toneRefused
	case c.status == 0:
		return "no answer", toneUnknown
	case c.typ == contract.Info:
		return firstOf(string(c.code), "status "+strconv.Itoa(c.status)) + suffix, toneUnknown
	case c.code != "":
		return clip(string(c.code), 40) + suffix, toneNone
	case c.op == contract.OpAcquire && c.before != nil:
		return "issued again" + suffix, toneBad
	case c.op == contract.OpAcquire:
		return "granted" + suffix, toneNone
	}
	return "ok" + suffix, toneNone
}
