// Package sweep reads from a history how often each endpoint of the contract was carried out when a fault met one of its
// messages: how often the server had the request, and how often the logs of the stores have its effect. The folds of
// checker/invariant judge the same history; this is the same evidence by endpoint, for people, and it says of every cell
// whether it was met at all.
package sweep

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis"
	"fenceproof/nemesis/plan"
)

// Cell is one endpoint under one fault, over all messages of it that the fault met.
type Cell struct {
	Op    contract.Op
	Fault plan.Fault
	// Planned is how many messages were to be met, Met how many were.
	Planned, Met int
	// Requests counts what the servers had of the met calls: the request, and its duplicate. Due is how many it must be.
	Requests, Due int
	// Effects counts the rows, or the journal's lines, that the requests left in the logs; there must be from Least to Most.
	Effects, Least, Most int
	// Unlogged: this store's log shows no such effect.
	Unlogged bool
	// Answers counts what the servers answered.
	Answers map[string]int
}

// Good tells whether the cell was met, and everything was carried out as often as it must be.
func (c *Cell) Good() bool {
	return c.Met > 0 && c.Requests == c.Due && (c.Unlogged || c.Effects >= c.Least && c.Effects <= c.Most)
}

// Table is what a run says, or several together.
type Table struct {
	Backend string
	Seed    uint64
	Cells   []*Cell // in the order of the contract's table
}

// Good tells whether every cell is.
func (t *Table) Good() bool {
	return len(t.Cells) > 0 && !slices.ContainsFunc(t.Cells, func(c *Cell) bool { return !c.Good() })
}

// Unmet tells whether nothing is wrong but that cells were not met.
func (t *Table) Unmet() bool {
	return !slices.ContainsFunc(t.Cells, func(c *Cell) bool { return c.Met > 0 && !c.Good() })
}

// Add adds what another run says.
func (t *Table) Add(o Table) {
	t.Backend, t.Seed, t.Cells = o.Backend, o.Seed, append(t.Cells, o.Cells...)
	t.sort()
}

func (t *Table) sort() {
	order := func(c *Cell) int {
		return 10*slices.IndexFunc(endpoints, func(e endpoint) bool { return e.op == c.Op }) + slices.Index(faults, c.Fault)
	}
	slices.SortStableFunc(t.Cells, func(a, b *Cell) int { return order(a) - order(b) })
}

// endpoint is a row of the contract's table.
type endpoint struct {
	row string
	op  contract.Op
	// each: a duplicate is carried out like any request. Otherwise it may have no effect that its original has not.
	each bool
}

var endpoints = []endpoint{
	{"L1", contract.OpOpenSession, true}, {"L2", contract.OpHeartbeat, true}, {"L3", contract.OpCloseSession, false},
	{"L4", contract.OpAcquire, true}, {"L5", contract.OpRenew, true}, {"L6", contract.OpRelease, false},
	{"L7", contract.OpInspect, false}, {"L8", contract.OpRevoke, true},
	{"P1", contract.OpListPayouts, false}, {"P2", contract.OpClaim, false}, {"P3", contract.OpPost, false}, {"P4", contract.OpGetPayout, false},
	{"P5", contract.OpGetAccount, false}, {"P6", contract.OpSubmitted, false}, {"P7", contract.OpOutcome, false}, {"P8", contract.OpResolve, false},
	{"R1", contract.OpSubmit, false}, {"S1", contract.OpTransfer, false},
}

func endpointOf(op contract.Op) endpoint {
	for _, e := range endpoints {
		if e.op == op {
			return e
		}
	}
	return endpoint{row: "–", op: op, each: true}
}

var faults = []plan.Fault{plan.Drop, plan.Duplicate, plan.Delay, plan.Reorder}

// name is the fault in the table's words.
func name(f plan.Fault) string {
	return map[plan.Fault]string{plan.Drop: "answer lost", plan.Duplicate: "duplicated", plan.Delay: "delayed past the lease", plan.Reorder: "reordered"}[f]
}

// Read reads the history in dir. Its memory grows with the calls of the run.
func Read(dir string) (Table, error) {
	r, err := history.Open(dir)
	if err != nil {
		return Table{}, err
	}
	defer r.Close()
	p, err := plan.Parse(r.Header().Plan)
	if err != nil {
		return Table{}, fmt.Errorf("read the plan in the history's header: %w", err)
	}
	x := newReading(p)
	for {
		var e history.Event
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return Table{}, fmt.Errorf("read the history: %w", err)
		}
		x.observe(&e)
	}
	for w, why := range r.Gaps() {
		return Table{}, fmt.Errorf("the %s witness has a gap, so nobody can count: %s", w, why)
	}
	return x.table(), nil
}

// reading is a history being read.
type reading struct {
	plan    plan.Plan
	calls   map[int64]*call
	copies  map[int64][]*call // by original
	hits    []hit
	effects map[effect]int
}

// hit is a message that a fault met.
type hit struct {
	fault plan.Fault
	call  int64
}

// call is one request with its answer, as far as its effect goes.
type call struct {
	op        contract.Op
	forwarded bool
	answer    string // "200", "409 FENCED_OUT", "none"
	// promised are the effects that it may have had; sure tells whether its answer says so.
	promised effect
	sure     bool
	logged   bool
}

func newReading(p plan.Plan) *reading {
	return &reading{plan: p, calls: map[int64]*call{}, copies: map[int64][]*call{}, effects: map[effect]int{}}
}

func (x *reading) observe(e *history.Event) {
	switch e.W {
	case history.Wiretap:
		x.call(e)
	case history.Nemesis:
		if e.Phase == nemesis.PhaseSeen && e.Call != 0 {
			x.hits = append(x.hits, hit{plan.Fault(e.Op), e.Call})
		}
	default:
		x.effect(e)
	}
}

func (x *reading) call(e *history.Event) {
	c := x.calls[e.Call]
	switch {
	case e.Stage == history.Received:
		c = &call{op: e.Op, answer: "none"}
		x.calls[e.Call] = c
		if e.DupOf != 0 {
			x.copies[e.DupOf] = append(x.copies[e.DupOf], c)
		}
	case c == nil:
	case e.Stage == history.Forwarded:
		c.forwarded = true
	case e.Stage == history.Answered:
		if e.Status != 0 {
			c.answer = fmt.Sprint(e.Status)
			if e.Code != "" {
				c.answer += " " + string(e.Code)
			}
		}
		c.promised, c.sure, c.logged = promised(e, x.plan.Backend == plan.BackendEtcd)
	}
}

// table counts.
func (x *reading) table() Table {
	t := Table{Backend: x.plan.Backend, Seed: x.plan.Seed}
	cells := map[hit]*Cell{} // by op and fault
	cell := func(op contract.Op, f plan.Fault) *Cell {
		for _, c := range t.Cells {
			if c.Op == op && c.Fault == f {
				return c
			}
		}
		c := &Cell{Op: op, Fault: f, Answers: map[string]int{}}
		t.Cells = append(t.Cells, c)
		return c
	}
	for _, s := range x.plan.Steps {
		if s.Fault.OnMessage() {
			cell(s.Message.Op, s.Fault).Planned++
		}
	}
	for _, h := range x.hits {
		if c := x.calls[h.call]; c != nil && cells[h] == nil {
			cells[h] = cell(c.op, h.fault)
			x.count(cells[h], c, x.copies[h.call])
		}
	}
	t.sort()
	return t
}

// count adds one met call with its copies.
func (x *reading) count(cell *Cell, c *call, copies []*call) {
	cell.Met++
	cell.Due++
	if cell.Fault == plan.Duplicate {
		cell.Due++
	}
	var seen []effect
	may, must := 0, 0
	calls := []*call{c}
	if cell.Fault == plan.Duplicate { // what another fault had repeated is another cell's
		calls = append(calls, copies...)
	}
	for _, c := range calls {
		if c.forwarded {
			cell.Requests++
		}
		cell.Answers[c.answer]++
		cell.Unlogged = cell.Unlogged || !c.logged
		if c.promised == (effect{}) {
			continue
		}
		if known := slices.Contains(seen, c.promised); !known {
			seen = append(seen, c.promised)
			may++
			cell.Effects += x.effects[c.promised]
			if c.sure {
				must++
			}
		}
	}
	if may > 1 && !endpointOf(cell.Op).each {
		may = 1 // what a duplicate does is done already
	}
	cell.Least, cell.Most = cell.Least+must, cell.Most+may
}
