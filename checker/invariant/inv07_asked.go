package invariant

// askedLately remembers of the latest calls that have been answered when they were received: a copy of one may follow.
type askedLately struct {
	came  map[int64]cameAt
	order [maxAsked]int64 // a ring
	next  int
}

const maxAsked = 1 << 10

func (a *askedLately) add(call int64, came cameAt) {
	if a.came == nil {
		a.came = make(map[int64]cameAt, maxAsked)
	}
	delete(a.came, a.order[a.next])
	a.order[a.next], a.came[call] = call, came
	a.next = (a.next + 1) % maxAsked
}

func (a *askedLately) of(call int64) cameAt { return a.came[call] }
