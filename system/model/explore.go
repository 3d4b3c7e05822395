package model

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
)

// Exploration is what a search of all states found.
type Exploration struct {
	States int
	Found  Violations
	// Alone are the guards that were, in some step, the only one to refuse. Every other guard that refuses at all stands
	// behind those that refuse with it.
	Alone Guards
	// Schedules holds, for every violation found that a step can make, a shortest schedule that ends with it. Of several
	// of the same length it is always the same one.
	Schedules map[Violation][]Step
}

// Explore visits every state that can be reached, breadth first. limit bounds how many; more are an error.
func (p *Protocol) Explore(limit int) (Exploration, error) {
	if err := p.check(limit); err != nil {
		return Exploration{}, fmt.Errorf("explore the protocol: %w", err)
	}
	v := newVisited()
	v.add(p.Start(), 0, 0)
	out := Exploration{Found: ViolationSet(NeverPosted), Schedules: map[Violation][]Step{}}
	var steps []Step
	for at := 0; at < len(v.states); at++ {
		if len(v.states) > limit {
			return Exploration{}, fmt.Errorf("explore the protocol: it has more than %d states", limit)
		}
		if v.states[at].posted() {
			out.Found &^= ViolationSet(NeverPosted)
		}
		steps = p.Successors(v.states[at], steps[:0])
		for i, s := range steps {
			if fresh := s.Violations &^ out.Found; fresh != 0 {
				out.Found |= fresh
				schedule := append(p.schedule(v, at), s)
				for _, f := range fresh.List() {
					out.Schedules[f] = schedule
				}
			}
			if by := s.Answer.Guards; by&(by-1) == 0 {
				out.Alone |= by
			}
			v.add(s.Next, at, i)
		}
	}
	out.States = len(v.states)
	return out, nil
}

// check refuses what a State has no room for.
func (p *Protocol) check(limit int) error {
	switch {
	case p.Executors < 1 || p.Executors > MaxExecutors:
		return fmt.Errorf("it has %d executors and needs 1 to %d", p.Executors, MaxExecutors)
	case p.Late < 0 || p.Late > MaxLate:
		return fmt.Errorf("it has %d late requests and may have 0 to %d", p.Late, MaxLate)
	case limit < 1 || limit > math.MaxInt32:
		return fmt.Errorf("the limit of %d states is not in 1 to %d", limit, math.MaxInt32)
	}
	return nil
}

// schedule is the way from the start to state number at.
func (p *Protocol) schedule(v *visited, at int) []Step {
	var way []Step
	for at != 0 {
		from := v.parents[at]
		steps := p.Successors(v.states[from.state], nil)
		way = append(way, steps[from.step])
		at = int(from.state)
	}
	slices.Reverse(way)
	return way
}

// visited is the set of states seen, which is also the queue of those to be expanded: they stand in the order in which
// they were found, and a table of open addressing finds their numbers.
type visited struct {
	seed    maphash.Seed
	states  []State
	parents []parent
	slots   []slot // a power of two of them, at most half full
}

// parent says from which state, and by which of its steps, a state was first reached.
type parent struct{ state, step uint32 }

// slot is a place in the table: part of a state's hash, which spares most comparisons and all of those of a growing
// table, and its number + 1; 0 is free.
type slot struct{ hash, state uint32 }

func newVisited() *visited {
	return &visited{seed: maphash.MakeSeed(), slots: make([]slot, 1<<16)}
}

// add puts s into the set, unless it is there.
func (v *visited) add(s State, from, step int) {
	hash := uint32(maphash.Comparable(v.seed, s))
	mask := uint32(len(v.slots) - 1)
	at := hash & mask
	for ; v.slots[at].state != 0; at = (at + 1) & mask {
		if v.slots[at].hash == hash && v.states[v.slots[at].state-1] == s {
			return
		}
	}
	v.states = append(v.states, s)
	v.parents = append(v.parents, parent{uint32(from), uint32(step)})
	v.slots[at] = slot{hash, uint32(len(v.states))}
	if 2*len(v.states) > len(v.slots) {
		v.grow()
	}
}

// grow doubles the table.
func (v *visited) grow() {
	old := v.slots
	v.slots = make([]slot, 2*len(old))
	mask := uint32(len(v.slots) - 1)
	for _, s := range old {
		if s.state == 0 {
			continue
		}
		at := s.hash & mask
		for v.slots[at].state != 0 {
			at = (at + 1) & mask
		}
		v.slots[at] = s
	}
}
