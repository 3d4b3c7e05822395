package linear

import (
	"math"
	"slices"
	"sort"
)

// span is a time without its two ends.
type span struct{ after, before int64 }

// meets tells whether some moment of o lies in s.
func (s span) meets(o *Op) bool {
	return s.after < s.before-1 && max(s.after+1, o.Lo) <= min(s.before-1, o.Hi)
}

// certain is what the intervals alone say about the key, whatever the order of operations within them.
type certain struct {
	index    map[int64]int // by token: the grant
	sessions []string
	begin    []int64 // by grant: before this its acquire has certainly not taken place
	held     []span  // by grant: its acquire has certainly taken place, and nothing that can end it
	over     []int64 // by grant: from when on it has certainly ended
	free     []span  // between two grants: the one has certainly ended, the next not begun
}

func certainties(ops []Op, before State) *certain {
	grants, about := byToken(ops)
	c := &certain{index: map[int64]int{}}
	if before.Phase == Held { // the grant that was there when it begins
		c.note(ops, before.Token, before.Session, math.MinInt64, span{math.MinInt64, forever}, about[before.Token])
	}
	for _, i := range grants {
		g := &ops[i]
		if n := len(c.held); n > 0 {
			c.held[n-1].before = min(c.held[n-1].before, g.Lo)
			c.over[n-1] = min(c.over[n-1], g.Hi)
			c.free = append(c.free, span{c.over[n-1], g.Lo})
		} else {
			c.free = append(c.free, span{math.MinInt64, g.Lo})
		}
		c.note(ops, g.Out.Token, g.In.Session, g.Lo, span{g.Hi, forever}, about[g.Out.Token])
	}
	if n := len(c.over); n > 0 {
		c.free = append(c.free, span{c.over[n-1], forever})
	} else {
		c.free = append(c.free, span{math.MinInt64, forever})
	}
	return c
}

func (c *certain) note(ops []Op, token int64, session string, begin int64, held span, about []int) {
	over := int64(forever)
	for _, j := range about {
		if ops[j].ends() || ops[j].In.Verb == Expire {
			held.before = min(held.before, ops[j].Lo)
			if !ops[j].In.Maybe {
				over = min(over, ops[j].Hi)
			}
		}
	}
	c.index[token] = len(c.held)
	c.begin, c.sessions = append(c.begin, begin), append(c.sessions, session)
	c.held, c.over = append(c.held, held), append(c.over, over)
}

// settle takes out of ops what has a place in every linearization of the others: an operation that changes nothing, and
// whose interval has a moment at which the key certainly stands as it must for that answer. Without it the others are
// linearizable if and only if they are with it. What is left to search is what nobody can see at a glance.
func settle(ops []Op, before State) (left []Op, settled int64) {
	if before.Token < 0 || slices.ContainsFunc(ops, func(o Op) bool { return o.open() }) {
		return ops, 0
	}
	c := certainties(ops, before)
	left = slices.DeleteFunc(ops, func(o Op) bool { return o.read() && c.settles(&o) })
	return left, int64(len(ops) - len(left))
}

func (c *certain) settles(o *Op) bool {
	switch {
	case o.Out.Result == Contended:
		i := sort.Search(len(c.held), func(i int) bool { return c.held[i].before > o.Lo })
		for ; i < len(c.held) && c.held[i].after <= o.Hi; i++ {
			if (c.sessions[i] != o.In.Session || o.In.Exclusive) && c.held[i].meets(o) {
				return true
			}
		}
		return false
	case o.Out.Result == NotHeld:
		return slices.ContainsFunc(c.free, func(s span) bool { return s.meets(o) })
	}
	i, known := c.index[o.subject()]
	if o.Out.Result == Lost {
		return !known || c.over[i] < o.Hi || o.Lo < c.begin[i]
	}
	return known && c.held[i].meets(o)
}

// segment cuts ops, sorted by Lo, where no operation is under way: whatever is before such a moment comes first in every
// linearization.
func segment(ops []Op) (segments [][]Op) {
	from, high := 0, int64(math.MinInt64)
	for i := range ops {
		if i > from && ops[i].Lo > high {
			segments, from = append(segments, ops[from:i]), i
		}
		high = max(high, ops[i].Hi)
	}
	if from < len(ops) {
		segments = append(segments, ops[from:])
	}
	return segments
}
