package linear

import (
	"cmp"
	"slices"
)

// narrow takes from every operation's interval what the specification itself rules out: tokens only increase, so grants
// come in the order of their tokens, and what is about a grant comes after it and before the next. Every linearization
// lies within the narrowed intervals, so none is lost, and none is won. It also tells each granted Acquire its place in
// the order of tokens. It gives up, and leaves the intervals and the order of tokens as they were, where they contradict
// one another: then there is no linearization, and the search, which goes by time, comes to where it ends.
func narrow(ops []Op, before State) {
	if before.Token < 0 || slices.ContainsFunc(ops, func(o Op) bool { return o.open() }) {
		return // not all that happened has a place in the order of tokens
	}
	grants, about := byToken(ops)
	cuts, after := slices.Clone(ops), before.Token
	for _, i := range grants {
		cuts[i].In.After, after = after, cuts[i].Out.Token
	}
	if forwards(cuts, grants, about) && backwards(cuts, grants, about) {
		copy(ops, cuts)
	}
}

// byToken lists the granted acquires in the order of their tokens, and what is about each token besides.
func byToken(ops []Op) (grants []int, about map[int64][]int) {
	about = map[int64][]int{}
	for i := range ops {
		if ops[i].granted() {
			grants = append(grants, i)
		} else if t := ops[i].subject(); t > 0 && ops[i].Out.Result != Lost {
			about[t] = append(about[t], i)
		}
	}
	slices.SortStableFunc(grants, func(a, b int) int { return cmp.Compare(ops[a].Out.Token, ops[b].Out.Token) })
	return grants, about
}

// forwards moves beginnings: a grant comes after the one before it and, in another session, after its end.
func forwards(ops []Op, grants []int, about map[int64][]int) bool {
	for n, i := range grants {
		g := &ops[i]
		if n > 0 {
			last := &ops[grants[n-1]]
			g.Lo = max(g.Lo, last.Lo)
			if last.In.Session != g.In.Session || g.In.Exclusive {
				g.Lo = max(g.Lo, firstEnd(ops, about[last.Out.Token], g.Lo))
			}
		}
		for _, j := range about[g.Out.Token] {
			ops[j].Lo = max(ops[j].Lo, g.Lo)
			if ops[j].Lo > ops[j].Hi {
				return false
			}
		}
		if g.Lo > g.Hi {
			return false
		}
	}
	return true
}

// firstEnd is when the grant can have ended at the earliest, otherwise where it never does.
func firstEnd(ops []Op, about []int, otherwise int64) int64 {
	first := int64(forever)
	for _, j := range about {
		if ops[j].ends() || ops[j].In.Verb == Expire {
			first = min(first, ops[j].Lo)
		}
	}
	if first == forever {
		return otherwise
	}
	return first
}

// backwards moves ends: a grant comes before the next one, and before all that it was needed for.
func backwards(ops []Op, grants []int, about map[int64][]int) bool {
	next := int64(forever)
	for n := len(grants) - 1; n >= 0; n-- {
		g := &ops[grants[n]]
		g.Hi = min(g.Hi, next)
		for _, j := range about[g.Out.Token] {
			switch {
			case ops[j].In.Maybe: // it need not have anything to do with the grant
				ops[j].Hi = min(ops[j].Hi, max(ops[j].Lo, next))
				continue
			case ops[j].needs():
				ops[j].Hi = min(ops[j].Hi, next)
			case ops[j].In.Verb == Expire: // after the next grant it changes nothing, whenever it comes
				ops[j].Hi = min(ops[j].Hi, max(ops[j].Lo, next))
			}
			g.Hi = min(g.Hi, ops[j].Hi)
			if ops[j].Lo > ops[j].Hi {
				return false
			}
		}
		if next = g.Hi; g.Lo > g.Hi {
			return false
		}
	}
	return true
}
