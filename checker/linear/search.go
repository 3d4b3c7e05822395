package linear

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Budget is what the search for one key may use.
type Budget struct {
	Time   time.Duration // of the search, and of the reading before it
	Memory int64         // bytes
}

// DefaultBudget is far beyond what a key of a run needs.
var DefaultBudget = Budget{Time: 20 * time.Second, Memory: 512 << 20}

// finding is the conclusion about one key.
type finding struct {
	Counts   Counts
	Searched int64  // operations that porcupine had to place
	Segments int64  // searches
	Open     string // why nobody can know; "" when the key was decided
	Twice    bool   // the lock store's clock was put back over a grant: the key is left out
	Sentence string // what could not have happened; "" when everything could
	Refs     []int64
	Page     bool // porcupine's page was written
}

// check judges one key: whether the operations of each epoch can have taken place one after the other, each within its
// interval, in an order that the specification allows.
func check(t *task, k *keyLog, f *frame, c *clock, deadline time.Time) finding {
	epochs, counts, twice := resolve(k, f, c)
	out := finding{Counts: counts, Twice: twice}
	if twice {
		return out
	}
	for _, ops := range epochs {
		out.epoch(t, ops, deadline)
		if out.Open != "" || out.Sentence != "" {
			break
		}
	}
	return out
}

// epoch searches the operations of one epoch, segment by segment. Each begins as the one before it ended: at a moment
// when nothing is under way, every linearization has left the key in the same state, because the grants came in the order
// of their tokens and each of the other operations belongs to one grant. Where one does not, all states are tried in which
// the segment can have left the key; and where there are too many ways to find them, the next segment is searched with it.
func (f *finding) epoch(t *task, ops []Op, deadline time.Time) {
	states := []State{{}}
	narrow(ops, State{})
	left, settled := settle(ops, State{})
	f.Counts.Settled += settled
	slices.SortStableFunc(left, func(a, b Op) int { return cmp.Or(cmp.Compare(a.Lo, b.Lo), cmp.Compare(a.Hi, b.Hi)) })
	var before []piece
	segs := segment(left)
	for i, seg := range segs {
		f.Searched += int64(len(seg))
		f.Segments++
		last := i == len(segs)-1
		next, result := follow(states, seg, last, deadline)
		switch {
		case result == porcupine.Ok:
			before, states = append(before, piece{states[0], seg}), next
		case result == porcupine.Illegal:
			f.explain(t, before, piece{states[0], seg}, deadline)
			return
		case !last && time.Now().Before(deadline):
			segs[i+1] = slices.Concat(seg, segs[i+1])
			f.Searched -= int64(len(seg))
			f.Segments--
		default:
			f.Open = fmt.Sprintf("the search ran out of its %s among %d operations at once", t.Budget.Time, len(seg))
			return
		}
	}
}

// piece is a segment and how the key stood when it began.
type piece struct {
	state State
	ops   []Op
}

// follow searches an order for the operations of a segment, from any of states on, and the states that they can leave. Of the
// last segment nobody asks for these.
func follow(states []State, seg []Op, last bool, deadline time.Time) (next []State, result porcupine.CheckResult) {
	ambiguous := slices.ContainsFunc(seg, func(o Op) bool { return o.ambiguous() })
	result = porcupine.Illegal
	for _, s := range states {
		var found []State
		one := porcupine.Unknown
		if ambiguous {
			found, one = ends(s, seg, deadline)
		}
		if one == porcupine.Unknown && (!ambiguous || last) {
			var end State
			end, one = order(s, seg, deadline)
			found = []State{end}
		}
		switch one {
		case porcupine.Unknown:
			return nil, one
		case porcupine.Ok:
			result = one
			for _, end := range found {
				if !slices.Contains(next, end) {
					next = append(next, end)
				}
			}
		}
	}
	return next, result
}

// order searches one order for the operations of a segment, from state on.
func order(state State, seg []Op, deadline time.Time) (State, porcupine.CheckResult) {
	if len(seg) == 1 {
		if ok, next := Step(state, seg[0].In, seg[0].Out); ok {
			return next, porcupine.Ok
		}
		return state, porcupine.Illegal
	}
	left := time.Until(deadline)
	if left <= 0 {
		return state, porcupine.Unknown
	}
	m := model(state)
	result, info := porcupine.CheckOperationsVerbose(m, operations(seg), left)
	if result == porcupine.Ok {
		for _, i := range info.PartialLinearizations()[0][0] {
			_, state = Step(state, seg[i].In, seg[i].Out)
		}
	}
	return state, result
}

// operations are ops, sorted by Lo, as porcupine takes them. On its page each client has a row, and more where several of
// its operations were under way at once.
func operations(ops []Op) []porcupine.Operation {
	rows, busy := map[string][]int{}, []int64{} // by client; until when each row is taken
	out := make([]porcupine.Operation, len(ops))
	for i := range ops {
		o := &ops[i]
		who := string(o.Who)
		at := slices.IndexFunc(rows[who], func(row int) bool { return busy[row] < o.Lo })
		if at < 0 {
			at = len(rows[who])
			rows[who], busy = append(rows[who], len(busy)), append(busy, o.Hi)
		}
		row := rows[who][at]
		busy[row] = o.Hi
		if o.In.Verb == Acquire {
			who += ", session " + o.In.Session
		}
		out[i] = porcupine.Operation{ClientId: row, Input: o.In, Output: o.Out, Call: o.Lo, Return: o.Hi, Metadata: who}
	}
	return out
}
