package linear

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// still is how long lockdb stands still, in ns; its clock does so, too.
const still = 1300e6

// stops is when lockdb stands still, in ns: while the statement is under way that takes longest.
func (l *lockWorld) stops(events []history.Event) (stop int64) {
	longest := int64(0)
	for i := range events {
		if e := &events[i]; e.Op == history.OpCommit && e.Call > 0 && e.T-e.Call*1e6 > longest {
			stop, longest = e.Call*1e6, e.T-e.Call*1e6
		}
	}
	return stop
}

// recorded is what the witnesses write down: commits in their order, some of them late, and watermarks that come behind
// everything that they cover. What lockdb commits just before it stands still is seen in its log, and by others only
// when it goes on.
func (l *lockWorld) recorded() []history.Event {
	events, late := l.history(), int64(0)
	stop := l.stops(events)
	logged := func(e *history.Event) bool { return e.Call*1e6 <= stop && e.T <= stop+100e6 }
	for i := range events {
		if e := &events[i]; e.Op == history.OpCommit && e.T > stop {
			if !logged(e) {
				break
			}
			e.T = stop
		}
	}
	order := func(a, b history.Event) int { return cmp.Compare(a.T, b.T) }
	slices.SortStableFunc(events, order)
	after := func(t int64) int64 {
		if t > stop {
			return t + still
		}
		return t
	}
	for i := range events {
		e := &events[i]
		if e.Op == contract.OpHeartbeat && e.Stage == history.Answered {
			e.Res = fmt.Sprintf(`{"serverTime":%q}`, clockAt(l.clock(e.T/1e6-1)).Format(time.RFC3339Nano))
		}
		switch early := e.T <= stop; {
		case e.W != history.LockDB:
			e.T = after(e.T)
			continue
		case early:
			late = min(stop, max(late, e.T+l.Int64N(25)*1e6))
		default:
			late = max(late, e.T+still+l.Int64N(25)*1e6)
		}
		e.T, e.Covers = late, after(e.Covers)
		if e.Op == history.OpCommit {
			e.Call = 0
		}
	}
	slices.SortStableFunc(events, order)
	for i := range events {
		events[i].I = int64(i + 1)
	}
	return events
}

// A commit is in the log before others see it, and lockdb may stand still in between.
func TestWhatLockdbCommittedBeforeItStoodStillIsSeenAfterwards(t *testing.T) {
	for name, story := range map[string]struct {
		ends   func(w *world)
		before int64 // until when another may still be refused
	}{
		"an answered release":       {func(w *world) { w.released(30, 1500, "ann", 1); w.removes(40) }, 1500},
		"an answered revoke":        {func(w *world) { w.revokes(30, 1500, 1, 5); w.events[len(w.events)-1].T = 40e6 }, 1500},
		"a release nobody heard of": {func(w *world) { w.call(30, 0, "ann", history.Event{Op: contract.OpRelease, Token: 1}); w.removes(40) }, 2450},
		"the end of a session":      {func(w *world) { w.endsSession(40, "ann") }, 2450},
	} {
		t.Run(name, func(t *testing.T) {
			for _, late := range []bool{false, true} {
				w := newWorld()
				w.ttl, w.quiet = 10_000, []span{{40, 1450}}
				w.acquires(10, 20, "ann", 1)
				story.ends(w)
				w.contended(1460, 1470, "bob")
				if !late {
					w.acquires(1480, 1520, "bob", 6)
					fine(t, w)
					continue
				}
				w.contended(story.before+50, story.before+60, "bob")
				if f := find(t, w); f.Sentence == "" {
					t.Error("what was visible for a second is still in the way, and nobody minds")
				}
			}
		})
	}
}

func TestAGrantThatLockdbCommittedBeforeItStoodStillMayBeSeenAfterwards(t *testing.T) {
	w := newWorld()
	w.ttl, w.quiet = 10_000, []span{{40, 1450}}
	w.granted(30, 1500, "ann", 1, 40)
	w.puts(40, "ann", 1)
	w.refused(1460, 1470, "operator", contract.OpRevoke, 0, 404, contract.NotFound)
	w.contended(1510, 1520, "bob")
	fine(t, w)
}
