package nemesis

import (
	"fmt"
	"time"

	"fenceproof/nemesis/plan"
)

// sightings is what a process has said of its time so far: by how much it is ahead, at least and at most. A service says
// it in whole seconds, so of a clock that stands still in relation to the harness's several answers tell more than one.
type sightings struct {
	any         bool
	least, most time.Duration
	away, home  bool // of a strobe: at its far end, and at the true time
	first       drifted
}

// drifted is a sighting of a clock that drifts: when it was, and where the clock was then.
type drifted struct {
	at          time.Time
	least, most time.Duration
}

// driftShare is how much of the way that a drift should have made between two sightings it has to have made for certain, and
// driftMost how much it may have made at most: it goes in small steps, and the harness is late at times.
const (
	driftShare = 0.5
	driftMost  = 2.0
)

// drifts takes an answer of a clock that gains so much a second, and tells whether this and the first answer can be nothing
// else: both bounds are on that side, and in the time between the clock has moved about as far as it should have.
func (s *sightings) drifts(drift time.Duration, at time.Time, least, most time.Duration) bool {
	if drift < 0 {
		drift, least, most = -drift, -most, -least
	}
	if s.first.at.IsZero() {
		s.first = drifted{at, least, most}
		return false
	}
	due := time.Duration(at.Sub(s.first.at).Seconds() * float64(drift))
	certain, possible := least-s.first.most, most-s.first.least
	return least > 0 && certain > 0 && float64(possible) >= driftShare*float64(due) && float64(certain) <= driftMost*float64(due)
}

// still takes an answer of a clock that is taken to be by ahead, and tells whether it is and cannot be as far away from
// that as other is.
func (s *sightings) still(by, other, least, most time.Duration) bool {
	if s.any {
		least, most = max(least, s.least), min(most, s.most)
	}
	if least > most { // it has moved since: what was said before is of no use any more
		*s = sightings{}
		return false
	}
	s.any, s.least, s.most = true, least, most
	return least <= by && by <= most && most-least < other
}

// take takes an answer, at some moment, of a clock that moves like m, and tells in words when there can be no doubt of that.
func (s *sightings) take(m plan.Movement, at time.Time, least, most time.Duration) (text string, done bool) {
	by := time.Duration(m.By)
	switch {
	case m.Drift != 0:
		done = s.drifts(time.Duration(m.Drift), at, least, most)
		return fmt.Sprintf("%s, and was %s", shift(least, most), shift(s.first.forwards(m.Drift < 0))), done
	case m.Strobe != 0:
		if most-least < by.Abs()/2 { // an answer of several processes, of which one is at each end, says nothing of either
			s.away = s.away || least <= by && by <= most
			s.home = s.home || least <= 0 && 0 <= most
		}
		return fmt.Sprintf("it goes to and fro between right and %s, as it says itself", aheadBy(by)), s.away && s.home
	}
	done = s.still(by, by.Abs(), least, most)
	return shift(s.least, s.most), done
}

// forwards is where the clock was, as it was answered.
func (d drifted) forwards(losing bool) (least, most time.Duration) {
	if losing {
		return -d.most, -d.least
	}
	return d.least, d.most
}

// movement is m in words.
func movement(m plan.Movement) string {
	switch {
	case m.Drift > 0:
		return fmt.Sprintf("gaining %s a second", m.Drift)
	case m.Drift < 0:
		return fmt.Sprintf("losing %s a second", -m.Drift)
	case m.Strobe != 0:
		return fmt.Sprintf("going to and fro between right and %s every %s", aheadBy(time.Duration(m.By)), m.Strobe)
	}
	return aheadBy(time.Duration(m.By))
}

// aheadBy is a distance in words.
func aheadBy(by time.Duration) string {
	if by < 0 {
		return fmt.Sprintf("%s behind", -by)
	}
	return fmt.Sprintf("%s ahead", by)
}

// shift is an answer in words, beside the harness's clock.
func shift(least, most time.Duration) string {
	least, most = least.Round(100*time.Microsecond), most.Round(100*time.Microsecond)
	switch {
	case least >= 0:
		return fmt.Sprintf("%s to %s", least, aheadBy(most))
	case most < 0:
		return fmt.Sprintf("%s to %s", -most, aheadBy(least))
	}
	return fmt.Sprintf("between %s and %s", aheadBy(least), aheadBy(most))
}
