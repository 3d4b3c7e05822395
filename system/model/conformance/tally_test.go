package conformance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"fenceproof/system/model"
)

// event is a request and how it was answered.
type event struct {
	op   model.Op
	code model.Code
}

func (e event) String() string { return fmt.Sprintf("%v: %v", e.op, e.code) }

// tally counts what schedules met.
type tally struct {
	mu     sync.Mutex
	counts map[event]int
}

func (t *tally) add(events []event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[event]int{}
	}
	for _, e := range events {
		t.counts[e]++
	}
}

func (t *tally) sum() int {
	n := 0
	for _, c := range t.counts {
		n += c
	}
	return n
}

func (t *tally) String() string {
	keys := slices.SortedFunc(maps.Keys(t.counts), func(a, b event) int {
		return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.code, b.code))
	})
	var parts []string
	for _, k := range keys {
		parts = append(parts, fmt.Sprintf("%v %d", k, t.counts[k]))
	}
	return strings.Join(parts, ", ")
}

// enough is how many schedules meet everything that is expected of them.
const enough = 100

// expected is what schedules must have met, or they compared too little.
func expected(paymentOff, railOff bool) []event {
	var all []event
	for _, op := range []model.Op{model.Claim, model.Submitted, model.Outcome, model.Post, model.Resolve} {
		all = append(all, event{op, model.OK}, event{op, model.NotClaimable}, event{op, model.Replayed})
		if !paymentOff {
			all = append(all, event{op, model.FencedOut})
		}
	}
	all = append(all, event{model.Claim, model.Blocked}, event{model.Claim, model.NoFunds}, event{model.Submit, model.Forwarding})
	if !paymentOff {
		all = append(all, event{model.Post, model.AlreadyPosted})
	}
	if !railOff {
		all = append(all, event{model.Submit, model.FencedOut}, event{model.Submit, model.Duplicate})
	} else {
		all = append(all, event{model.ForwardUnrecorded, model.OK})
	}
	return append(all, event{model.Forward, model.OK}, event{model.Forward, model.Ambiguous}, event{model.Forward, model.Declining})
}
