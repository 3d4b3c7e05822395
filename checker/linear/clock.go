package linear

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// clock says what is known about the moments at which the lock store's own clock showed a time. Each reading was taken
// while the server had the request, so the clock showed At somewhere from From to To. As long as that clock never goes
// back, it comes to a time after every moment at which it was seen to show less, and before every one at which it showed
// as much.
type clock struct {
	at       []int64 // sorted
	earliest []int64 // after all readings up to this one: the latest From
	latest   []int64 // before all readings from this one on: the earliest To
	steps    []step
}

// step is a time that the clock has shown twice, because it was put back.
type step struct{ from, to int64 }

func newClock(readings []reading) *clock {
	rs := slices.Clone(readings)
	c := &clock{steps: stepsBack(rs)}
	slices.SortFunc(rs, func(a, b reading) int { return cmp.Compare(a.At, b.At) })
	c.at, c.earliest, c.latest = make([]int64, len(rs)), make([]int64, len(rs)), make([]int64, len(rs))
	high := int64(math.MinInt64)
	for i, r := range rs {
		high = max(high, r.From)
		c.at[i], c.earliest[i] = r.At, high
	}
	low := int64(forever)
	for i := len(rs) - 1; i >= 0; i-- {
		low = min(low, rs[i].To)
		c.latest[i] = low
	}
	return c
}

// stepsBack finds where a reading that certainly came later shows less.
func stepsBack(rs []reading) []step {
	byEnd := slices.Clone(rs)
	slices.SortFunc(byEnd, func(a, b reading) int { return cmp.Compare(a.To, b.To) })
	slices.SortFunc(rs, func(a, b reading) int { return cmp.Compare(a.From, b.From) })
	var steps []step
	high, next := int64(math.MinInt64), 0
	for _, r := range rs {
		for next < len(byEnd) && byEnd[next].To < r.From {
			high = max(high, byEnd[next].At)
			next++
		}
		if r.At >= high {
			continue
		}
		if n := len(steps); n > 0 && r.At <= steps[n-1].to && steps[n-1].from <= high {
			steps[n-1] = step{min(steps[n-1].from, r.At), max(steps[n-1].to, high)}
			continue
		}
		steps = append(steps, step{r.At, high})
	}
	return steps
}

// reaches bounds the moment at which the clock came to show at: not before lo, and at hi at the latest.
func (c *clock) reaches(at int64) (lo, hi int64) {
	i := sort.Search(len(c.at), func(i int) bool { return c.at[i] >= at })
	lo, hi = math.MinInt64, forever
	if i > 0 {
		lo = c.earliest[i-1]
	}
	if i < len(c.at) {
		hi = c.latest[i]
	}
	return lo, hi
}

// twice tells whether the clock was put back over some time from from to to.
func (c *clock) twice(from, to int64) bool {
	return slices.ContainsFunc(c.steps, func(s step) bool { return from <= s.to && s.from <= to })
}
