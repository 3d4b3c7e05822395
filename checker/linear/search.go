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
// of their tokens and each of the other operations belongs to one grant. Where one does not, or where nobody knows whether it took
// place, all ways are followed in which the key can stand then; and where there are too many, all that is left is one segment.
func (f *finding) epoch(t *task, ops []Op, deadline time.Time) {
	narrow(ops, State{})
	left, settled := settle(ops, State{})
	f.Counts.Settled += settled
	slices.SortStableFunc(left, byLo)
	var sure, maybe []Op
	for _, o := range left {
		if o.In.Maybe {
			maybe = append(maybe, o)
		} else {
			sure = append(sure, o)
		}
	}
	w := newWays(maybe, deadline)
	var before []piece
	segs := segment(sure)
	for i, seg := range segs {
		f.Segments++
		from, result, all := w.now[0], w.follow(seg), false
		if result == porcupine.Unknown {
			seg, all = slices.Concat(segs[i:]...), true
			result = w.rest(seg)
		}
		f.Searched += int64(len(seg))
		switch {
		case result == porcupine.Illegal:
			f.explain(t, before, piece{from.state, w.with(from, seg, all)}, deadline)
			return
		case result == porcupine.Unknown:
			f.Open = fmt.Sprintf("the search ran out of its %s among %d operations at once", t.Budget.Time, len(seg))
			return
		case all:
			return
		}
		before = append(before, piece{from.state, seg})
	}
}

func byLo(a, b Op) int { return cmp.Or(cmp.Compare(a.Lo, b.Lo), cmp.Compare(a.Hi, b.Hi)) }

// piece is a segment and how the key stood when it began.
type piece struct {
	state State
	ops   []Op
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
