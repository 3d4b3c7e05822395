package reports

import (
	"sort"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// Bounds of what a survey keeps. A payout takes about 200 bytes.
const (
	maxDigests = 40_000
	maxWindows = 2_000
	maxTokens  = 12
)

// survey is the first pass over a history: how long it is, who takes part, and a digest of every payout, so that the
// second pass knows which few to tell in full.
type survey struct {
	end      int64 // T of the last event
	events   int64
	subjects subjects
	clients  *index
	accounts *index
	payouts  map[string]*digest
	windows  map[int]*window
	phases   []phase
	grants   int64
	blows    blows
	moved    int64
	guilty   map[string]bool // payouts that the verdict names
	dropped  int64           // digests let go
	lost     int64           // windows not kept
	issued   *issued
	reissues reissues
}

// digest is what the survey remembers of one payout.
type digest struct {
	id, account string
	first, last int64
	asked       int64 // T of the first call about it, 0 for none
	tokens      []int64
	state       contract.State
	moved       int
	atRail      int // stale writes refused at the rail
	atRow       int // stale writes refused by payment-resource
	behind      int // of both, those under tokens of a lock store that had gone back
	calls       int
	guilty      bool
	unknownSeen bool
}

// index numbers names in the order in which they turn up.
type index struct {
	names []string
	at    map[string]int
}

func newIndex() *index { return &index{at: map[string]int{}} }

func (x *index) of(name string) int {
	if name == "" {
		return -1
	}
	if i, ok := x.at[name]; ok {
		return i
	}
	i := len(x.names)
	x.names = append(x.names, name)
	x.at[name] = i
	return i
}

// find is of, for names that must not be added.
func (x *index) find(name string) int {
	if i, ok := x.at[name]; ok {
		return i
	}
	return -1
}

// sorted returns the same names in order; executor-10 stands behind executor-9.
func (x *index) sorted() *index {
	names := append([]string(nil), x.names...)
	sort.Slice(names, func(a, b int) bool {
		if len(names[a]) != len(names[b]) && (numbered(names[a], contract.Process.IsExecutor, names[b]) || numbered(names[a], contract.Process.IsLockClient, names[b])) {
			return len(names[a]) < len(names[b])
		}
		return names[a] < names[b]
	})
	s := newIndex()
	for _, n := range names {
		s.of(n)
	}
	return s
}

// numbered tells whether both are processes of a kind that is numbered.
func numbered(a string, kind func(contract.Process) bool, b string) bool {
	return kind(contract.Process(a)) && kind(contract.Process(b))
}

func newSurvey(guilty map[string]bool) *survey {
	return &survey{clients: newIndex(), accounts: newIndex(), payouts: map[string]*digest{}, windows: map[int]*window{}, guilty: guilty, issued: newIssued()}
}

// observe takes the next event of the history, in order of I.
func (s *survey) observe(e *history.Event) {
	s.events++
	if e.T > s.end {
		s.end = e.T
	}
	s.reissues.add(s.issued.observe(e))
	switch e.W {
	case history.Wiretap:
		s.wiretap(e)
	case history.PayDB:
		s.commit(e)
	case history.Journal:
		if e.Op == history.OpMoney {
			s.moved++
			d := s.digest(e.Payout, e.T)
			if d != nil {
				d.moved++
			}
		}
	case history.Nemesis:
		s.fault(e)
	case history.Run:
		if e.Op == history.OpPhase && len(s.phases) < 100 {
			s.phases = append(s.phases, phase{At: micros(e.T), Name: clip(firstOf(e.Msg, e.Event), 60)})
		}
	}
}

func (s *survey) wiretap(e *history.Event) {
	if e.Account != "" {
		s.accounts.of(e.Account)
	}
	if e.Op == contract.OpAcquire && e.Stage == history.Answered && e.Granted > 0 {
		s.grants++
		s.clients.of(string(e.Proc))
		s.accounts.of(s.subjects.of(e.Key))
	}
	if e.Op == contract.OpRevoke && s.subjects.locks {
		s.clients.of(string(e.Proc))
	}
	if !e.Op.Fenced() || e.Payout == "" {
		return
	}
	s.clients.of(string(e.Proc))
	d := s.digest(e.Payout, e.T)
	if d == nil {
		return
	}
	if e.Account != "" {
		d.account = e.Account
	}
	d.token(e.Token)
	if d.asked == 0 {
		d.asked = e.T
	}
	if e.Stage != history.Answered {
		return
	}
	d.calls++
	if e.Type == contract.Info {
		d.unknownSeen = true
	}
	if e.Code == contract.FencedOut && e.Token < e.Highest {
		if s.issued.behind(e.Token, e.Highest) {
			d.behind++
		}
		if e.Op == contract.OpSubmit {
			d.atRail++
		} else {
			d.atRow++
		}
	}
}

func (s *survey) commit(e *history.Event) {
	for i := range e.Changes {
		c := &e.Changes[i]
		if c.Table != "payout" || c.New == nil {
			continue
		}
		s.accounts.of(c.New["account_id"])
		d := s.digest(c.New["payout_id"], e.T)
		if d != nil {
			d.account, d.state = c.New["account_id"], contract.State(c.New["state"])
		}
	}
}

// digest finds or makes the digest of a payout, and stretches it to t.
func (s *survey) digest(id string, t int64) *digest {
	if id == "" {
		return nil
	}
	d, ok := s.payouts[id]
	if !ok {
		if len(s.payouts) >= maxDigests {
			s.forget()
		}
		d = &digest{id: id, first: t, guilty: s.guilty[id]}
		s.payouts[id] = d
	}
	d.last = max(d.last, t)
	return d
}

func (d *digest) token(t int64) {
	if t == 0 || len(d.tokens) >= maxTokens {
		return
	}
	for _, have := range d.tokens {
		if have == t {
			return
		}
	}
	d.tokens = append(d.tokens, t)
}

// forget lets go of half of the digests, the dullest and oldest first: guilty ones never.
func (s *survey) forget() {
	all := make([]*digest, 0, len(s.payouts))
	for _, d := range s.payouts {
		if !d.guilty {
			all = append(all, d)
		}
	}
	sort.Slice(all, func(a, b int) bool {
		if x, y := all[a].interest(), all[b].interest(); x != y {
			return x < y
		}
		if all[a].last != all[b].last {
			return all[a].last < all[b].last
		}
		return all[a].id < all[b].id
	})
	for _, d := range all[:len(all)/2] {
		delete(s.payouts, d.id)
		s.dropped++
	}
}

// interest ranks payouts for the index and the stories: what nearly went wrong comes before what went well.
func (d *digest) interest() int {
	n := 0
	if d.guilty {
		n += 1000
	}
	if d.moved > 1 {
		n += 500
	}
	n += 100*min(d.atRail, 2) + 90*min(d.atRow, 2)
	if len(d.tokens) > 1 {
		n += 20
	}
	if d.unknownSeen || d.state == contract.RailAmbiguous {
		n += 10
	}
	if !d.state.Terminal() {
		n += 5
	}
	return n
}

func (s *survey) fault(e *history.Event) {
	if e.Window == 0 {
		return
	}
	s.blows.hear(e)
	w, ok := s.windows[e.Window]
	if !ok {
		if len(s.windows) >= maxWindows {
			s.lost++
			return
		}
		w = &window{Number: e.Window, Name: string(e.Op), Target: firstOf(e.Target, string(e.Proc)), From: -1, To: -1}
		s.windows[e.Window] = w
	}
	at := micros(e.T)
	switch e.Phase {
	case "inject":
		if w.From < 0 {
			w.From = at
		}
	case "seen": // the effect is certain only from here
		w.From = at
	case "heal": // and only until here; what was killed is gone until it has been started
		if e.Op != "kill" {
			w.To = at
		}
	case "healed":
		if w.To < 0 {
			w.To = at
		}
	case "failed":
		w.Failed = true
	}
	if e.Msg != "" && len(w.Note) < 400 {
		w.Note = strings.TrimPrefix(w.Note+" · "+clip(e.Msg, 200), " · ")
	}
}

// faults returns the windows in order of time; one that was never healed lasts to the end.
func (s *survey) faults(clients *index) []window {
	out := make([]window, 0, len(s.windows))
	for _, w := range s.windows {
		c := *w
		if c.From < 0 {
			c.From = c.To
		}
		if c.From < 0 {
			continue // it never took effect
		}
		if c.To < c.From {
			c.To = micros(s.end)
		}
		c.Client = clients.find(hitBy(c.Target))
		out = append(out, c)
	}
	sort.Slice(out, func(a, b int) bool {
		if out[a].From != out[b].From {
			return out[a].From < out[b].From
		}
		return out[a].Number < out[b].Number
	})
	return out
}
