package invariant

import "fenceproof/checker/history"

// messages counts what became of single messages on purpose: what each fold must have met to say anything about a network
// that loses, repeats, delays and reorders. The nemesis' word is taken for it; it counts a danger and proves nothing.
type messages struct{ lost, repeated, late, overtaken int64 }

func (m *messages) hear(e *history.Event) {
	if e.Phase != "seen" || e.Call == 0 {
		return
	}
	switch e.Op {
	case "drop":
		m.lost++
	case "duplicate":
		m.repeated++
	case "delay":
		m.late++
	case "reorder":
		m.overtaken++
	}
}

// again are the counts of what a server must not do twice, order those of what it must not take for new.
func (m *messages) again() map[string]int64 {
	return map[string]int64{"messages_lost": m.lost, "messages_repeated": m.repeated}
}

func (m *messages) order() map[string]int64 {
	return map[string]int64{"messages_late": m.late, "messages_overtaken": m.overtaken}
}
