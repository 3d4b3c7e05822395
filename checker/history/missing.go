package history

import (
	"fmt"
	"slices"

	"fenceproof/checker/contract"
)

// missing are numbers that no file has: of events that were recorded, and removed since. A trailer can be made to fit; the
// sequence over all files cannot, unless it is renumbered as a whole.
type missing struct {
	first, count int64
}

func (m *missing) add(from, to int64) {
	if m.count == 0 {
		m.first = from
	}
	m.count += to - from + 1
}

func (m *missing) String() string {
	if m.count == 1 {
		return fmt.Sprintf("event %d was recorded and is in no file; whose file it was removed from, nobody can tell", m.first)
	}
	return fmt.Sprintf("%d events were recorded and are in no file, the first of them event %d; whose files they were removed from, nobody can tell", m.count, m.first)
}

// broken tells whether a number that is missing now may be one of a file whose recording broke off before it, or that is
// not there. Every file has been read up to its next event.
func (r *Reader) broken() bool {
	return len(r.gaps) > 0 || slices.ContainsFunc(r.files, func(f *source) bool { return f.ended && f.gap != "" })
}

const brokenOff = "its file breaks off here, or is not there"

// brokenOff is the event that w may have seen more than its file has, in the place of that.
func (r *Reader) brokenOff(w Witness) Event {
	return Event{I: r.last, W: w, T: r.lastT, Type: contract.Info, Op: OpLostPlace, Event: Missing, Msg: brokenOff}
}

// Missing is the Event of an OpLostPlace that a Reader gives in the place of what is in no file.
const Missing = "missing"

// blind is the event that w may have seen what is missing, in the place of the first of it. How much is missing Gaps says in
// the end.
func (m *missing) blind(w Witness, t int64) Event {
	return Event{I: m.first, W: w, T: t, Type: contract.Info, Op: OpLostPlace, Event: Missing,
		Msg: fmt.Sprintf("event %d was recorded and is in no file; whose file it was removed from, nobody can tell", m.first)}
}

// expected are the witnesses that the headers name, and those that have a file.
func (r *Reader) expected() []Witness {
	all := r.header.expected()
	for _, f := range r.files {
		if !slices.Contains(all, f.witness) {
			all = append(slices.Clip(all), f.witness)
		}
	}
	return all
}

// sayLost makes what is missing a gap of every witness that has none of its own: each may have seen it.
func (r *Reader) sayLost() {
	if r.lost.count == 0 {
		return
	}
	for _, w := range r.expected() {
		if r.gaps[w] == "" {
			r.gaps[w] = r.lost.String()
		}
	}
}
