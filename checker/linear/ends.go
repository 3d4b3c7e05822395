package linear

import (
	"time"

	"github.com/anishathalye/porcupine"
)

// maxTries and maxSeen bound the search for all states in which a segment can leave the key: how many steps, and how many bytes
// it remembers them with.
const (
	maxTries = 1 << 16
	maxSeen  = 32 << 20
)

// ends searches all states in which the operations of a segment, sorted by Lo, can leave the key, from state on. It is Unknown
// when there are too many orders to try.
func ends(state State, seg []Op, deadline time.Time) ([]State, porcupine.CheckResult) {
	e := &ending{seg: seg, seen: map[string]bool{}, found: map[State]bool{}, deadline: deadline}
	if !e.from(state, make([]byte, (len(seg)+7)/8), 0) {
		return nil, porcupine.Unknown
	}
	if len(e.states) == 0 {
		return nil, porcupine.Illegal
	}
	return e.states, porcupine.Ok
}

// ending is such a search.
type ending struct {
	seg      []Op
	seen     map[string]bool // which operations have been placed, and how the key stood then
	found    map[State]bool
	states   []State
	deadline time.Time
}

// from goes on from state, where the first low operations and those of done have been placed; false once there were too many
// tries.
func (e *ending) from(state State, done []byte, low int) bool {
	done = append([]byte(nil), done...)
	ready, low := e.read(state, done, low)
	at := string(done) + state.key()
	switch {
	case e.seen[at]:
		return true
	case len(e.seen) == maxTries || len(e.seen)*len(at) > maxSeen || len(e.seen)%1024 == 1023 && !time.Now().Before(e.deadline):
		return false
	}
	e.seen[at] = true
	if low == len(e.seg) {
		if !e.found[state] {
			e.found[state], e.states = true, append(e.states, state)
		}
		return true
	}
	for _, i := range ready {
		o := &e.seg[i]
		ok, next := Step(state, o.In, o.Out)
		if !ok {
			continue
		}
		set(done, i)
		if !e.from(next, done, low) {
			return false
		}
		done[i/8] &^= 1 << (i % 8)
	}
	return true
}

// read places at once whatever may come now and changes nothing: that is in nobody's way. ready are the others that may come.
func (e *ending) read(state State, done []byte, low int) (ready []int, _ int) {
	for again := true; again; {
		again, ready = false, ready[:0]
		for low < len(e.seg) && has(done, low) {
			low++
		}
		first := int64(forever)
		for i := low; i < len(e.seg) && e.seg[i].Lo <= first; i++ {
			if !has(done, i) {
				first = min(first, e.seg[i].Hi)
			}
		}
		for i := low; i < len(e.seg) && e.seg[i].Lo <= first; i++ {
			o := &e.seg[i]
			if has(done, i) {
				continue
			}
			if ok, _ := Step(state, o.In, o.Out); !ok || !o.read() {
				ready = append(ready, i)
				continue
			}
			set(done, i)
			again = true
		}
	}
	return ready, low
}

func has(done []byte, i int) bool { return done[i/8]&(1<<(i%8)) != 0 }

func set(done []byte, i int) { done[i/8] |= 1 << (i % 8) }
