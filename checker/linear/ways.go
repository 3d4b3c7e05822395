package linear

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// ways follows a key from segment to segment where a segment can leave it in more than one state. What may have taken place, or
// not, is no part of a segment: it lies beside them, often to the end of the history, and is used where it is needed.
type ways struct {
	now   []way
	maybe []Op    // what nobody knows to have taken place, sorted by Lo
	next  int     // of maybe, the first that no segment has come to
	open  []int32 // of those before it, the ones that may still take place
	low   int64   // the latest Lo of all segments so far
	until time.Time
}

// way is one way in which the key can stand between two segments.
type way struct {
	state State
	used  []int32 // of maybe that is still open, what has taken place, in order
	since int64   // the latest Lo of all that has taken place: nothing that comes can have come before
}

// maxWays bounds how many ways are followed. maxTries and maxSeen bound the search through a segment from one of them on: how many
// steps, and how many bytes it remembers them with.
const (
	maxWays  = 64
	maxTries = 1 << 16
	maxSeen  = 32 << 20
)

func newWays(maybe []Op, until time.Time) *ways {
	return &ways{now: []way{{since: math.MinInt64}}, maybe: maybe, low: math.MinInt64, until: until}
}

// follow goes through a segment, sorted by Lo, from all ways on. It is Illegal when none of them has an order for it, and Unknown
// where there are too many to try; then nothing has changed.
func (w *ways) follow(seg []Op) porcupine.CheckResult {
	low, high := w.low, int64(math.MinInt64)
	for i := range seg {
		low, high = max(low, seg[i].Lo), max(high, seg[i].Hi)
	}
	for ; w.next < len(w.maybe) && w.maybe[w.next].Lo <= high; w.next++ {
		w.open = append(w.open, int32(w.next))
	}
	w.open = slices.DeleteFunc(w.open, func(m int32) bool { return w.maybe[m].Hi < w.low })
	plain := len(w.open) == 0 && !slices.ContainsFunc(seg, func(o Op) bool { return o.ambiguous() })
	var next []way
	for _, from := range w.now {
		if plain {
			end, result := order(from.state, seg, w.until)
			if result == porcupine.Unknown {
				return result
			}
			if result == porcupine.Ok {
				next = append(next, way{state: end, since: low})
			}
			continue
		}
		s := &walk{ways: w, seg: seg, seen: map[string]bool{}}
		if !s.from(from, make([]byte, (len(seg)+7)/8), 0) {
			return porcupine.Unknown
		}
		next = append(next, s.ends...)
	}
	if len(next) == 0 {
		return porcupine.Illegal
	}
	if next = w.best(next, low); len(next) > maxWays {
		return porcupine.Unknown
	}
	w.now, w.low = next, low
	return porcupine.Ok
}

// best are those of all that are not worse than another: of two in the same state the one that has used more. low is the latest Lo
// of what has come.
func (w *ways) best(all []way, low int64) (best []way) {
	for i := range all {
		all[i].used = slices.DeleteFunc(slices.Clone(all[i].used), func(m int32) bool { return w.maybe[m].Hi < low })
	}
	slices.SortStableFunc(all, func(a, b way) int { return len(a.used) - len(b.used) })
	for _, a := range all {
		if !slices.ContainsFunc(best, func(b way) bool { return b.state == a.state && b.since <= a.since && allIn(b.used, a.used) }) {
			best = append(best, a)
		}
	}
	return best
}

// allIn tells whether all of a is in b, which is in order.
func allIn(a, b []int32) bool {
	for _, m := range a {
		if _, in := slices.BinarySearch(b, m); !in {
			return false
		}
	}
	return true
}

// with is seg, and what may take place besides from one way on; all that is to come where seg is all of it.
func (w *ways) with(from way, seg []Op, all bool) []Op {
	out := slices.Clone(seg)
	for m := range w.maybe {
		o := &w.maybe[m]
		if _, used := slices.BinarySearch(from.used, int32(m)); !used && o.Hi >= from.since && (all || m < w.next) {
			out = append(out, *o)
		}
	}
	slices.SortStableFunc(out, byLo)
	return out
}

// rest searches an order for all that is to come, from any way on.
func (w *ways) rest(ops []Op) porcupine.CheckResult {
	result := porcupine.Illegal
	for _, from := range w.now {
		switch _, one := order(from.state, w.with(from, ops, true), w.until); one {
		case porcupine.Ok:
			return one
		case porcupine.Unknown:
			result = one
		}
	}
	return result
}

// walk is a search for all ways through a segment.
type walk struct {
	*ways
	seg  []Op
	seen map[string]bool // what has been placed and used, and how the key stood then
	ends []way
}

// from goes on from at, where the first of seg and those of done have been placed; false once there were too many tries.
func (s *walk) from(at way, done []byte, first int) bool {
	done = slices.Clone(done)
	ready, first, by := s.read(&at, done, first)
	key := s.key(&at, done)
	switch {
	case s.seen[key]:
		return true
	case len(s.seen) == maxTries || len(s.seen)*len(key) > maxSeen || len(s.seen)%1024 == 1023 && !time.Now().Before(s.until):
		return false
	}
	s.seen[key] = true
	if first == len(s.seg) {
		s.ends = append(s.ends, at)
		return true
	}
	for _, i := range ready {
		o := &s.seg[i]
		ok, next := Step(at.state, o.In, o.Out)
		if !ok {
			continue
		}
		set(done, i)
		if !s.from(way{next, at.used, max(at.since, o.Lo)}, done, first) {
			return false
		}
		done[i/8] &^= 1 << (i % 8)
	}
	return s.perhaps(&at, done, first, by)
}

// perhaps goes on with what may take place now and changes something: each of them ends the grant that there is. Of several that
// are the same the first will do, and none is tried where another will do that is good for less.
func (s *walk) perhaps(at *way, done []byte, first int, by int64) bool {
	var all []int32
	for _, m := range s.open {
		o := &s.maybe[m]
		if o.Lo > by || o.Hi < at.since || slices.ContainsFunc(all, func(n int32) bool { return s.maybe[n].same(o) }) {
			continue
		}
		if _, used := slices.BinarySearch(at.used, m); used {
			continue
		}
		if _, next := Step(at.state, o.In, o.Out); next != at.state {
			all = append(all, m)
		}
	}
	for _, m := range all {
		o := &s.maybe[m]
		if slices.ContainsFunc(all, func(n int32) bool {
			p := &s.maybe[n]
			return p.reach() < o.reach() && p.Hi <= o.Hi && p.Lo <= max(at.since, o.Lo)
		}) {
			continue
		}
		_, next := Step(at.state, o.In, o.Out)
		place, _ := slices.BinarySearch(at.used, m)
		if !s.from(way{next, slices.Insert(slices.Clone(at.used), place, m), max(at.since, o.Lo)}, done, first) {
			return false
		}
	}
	return true
}

// reach says how much what may end a grant is good for: the lease of one grant only; a request to end one, to end one of a
// holder's, of anybody's; and an operator's, who ends whatever there is. Who has ended a grant by the first has all others left, and
// its holder may still give it back.
func (o *Op) reach() int {
	switch {
	case o.In.Verb == Expire:
		return 0
	case o.In.Verb == Revoke:
		return 4
	case o.In.Token != 0:
		return 1
	case o.In.Session != Anybody:
		return 2
	}
	return 3
}

// same tells whether p does the same as o, and until the same time.
func (o *Op) same(p *Op) bool { return o.In == p.In && o.Out == p.Out && o.Hi == p.Hi }

// read places at once whatever may come now and changes nothing: that is in nobody's way, unless something may still take place
// that can only come before it. ready are the others that may come, and by is when the next of all must have.
func (s *walk) read(at *way, done []byte, first int) (ready []int, _ int, by int64) {
	soon := int64(forever)
	for _, m := range s.open {
		if _, used := slices.BinarySearch(at.used, m); !used && s.maybe[m].Hi >= at.since {
			soon = min(soon, s.maybe[m].Hi)
		}
	}
	for again := true; again; {
		again, ready, by = false, ready[:0], forever
		for first < len(s.seg) && has(done, first) {
			first++
		}
		for i := first; i < len(s.seg) && s.seg[i].Lo <= by; i++ {
			if !has(done, i) {
				by = min(by, s.seg[i].Hi)
			}
		}
		for i := first; i < len(s.seg) && s.seg[i].Lo <= by; i++ {
			o := &s.seg[i]
			if has(done, i) {
				continue
			}
			if ok, _ := Step(at.state, o.In, o.Out); !ok || !o.read() || o.Lo > soon {
				ready = append(ready, i)
				continue
			}
			set(done, i)
			again, at.since = true, max(at.since, o.Lo)
		}
	}
	return ready, first, by
}

func (s *walk) key(at *way, done []byte) string {
	b := append([]byte(at.state.key()), done...)
	b = binary.LittleEndian.AppendUint64(b, uint64(at.since))
	for _, m := range at.used {
		b = binary.LittleEndian.AppendUint32(b, uint32(m))
	}
	return string(b)
}

func has(done []byte, i int) bool { return done[i/8]&(1<<(i%8)) != 0 }

func set(done []byte, i int) { done[i/8] |= 1 << (i % 8) }
