package soak

import (
	"fmt"
	"time"
)

// besidesDrive is what a run takes besides its drive, to begin, to end and to be judged: a little more than what the runs of the
// matrix in docs/nemeses.md took.
const besidesDrive = 10 * time.Second

// pace says how long a round takes, and warns where a cell has never been run and will not be before the time is up: the soak would
// end as not exercised, whatever its runs show. The tasks are those of the first round. What this machine cannot do is left out
// when its turn comes: it is no run, and takes no time.
func (s *soak) pace(first []Task) {
	each, runs := s.each(), 0
	for _, t := range first {
		if s.Check(t.Args()) == nil {
			runs++
		}
	}
	fmt.Fprintf(s.Out, "soak: a round has %s, and takes about %s\n", number(runs, "run"), about(s.begins(runs+s.Jobs-1, each)))
	if s.Duration == 0 {
		return
	}
	ran := map[Cell]bool{}
	for _, l := range s.folder.Lines {
		ran[l.Cell] = ran[l.Cell] || l.counts()
	}
	before, late, enough := 0, 0, time.Duration(0)
	for _, t := range first {
		if s.done[t.key()] {
			continue
		}
		at, here := s.begins(before, each), s.Check(t.Args()) == nil
		if at >= s.Duration && !ran[t.Cell] {
			ran[t.Cell], late, enough = true, late+1, at+each
		}
		if here {
			ran[t.Cell] = true
			before++
		}
	}
	if late > 0 {
		fmt.Fprintf(s.Out, "soak: WARNING: --duration %s is too short for that: of %s nothing will have been run, and the soak will not be a pass; give it %s, or go on with it later\n",
			s.Duration, number(late, "cell"), about(enough))
	}
}

// begins is when the n-th run begins, counted from 0, where each takes so long.
func (s *soak) begins(n int, each time.Duration) time.Duration {
	return time.Duration(n/s.Jobs) * each
}

// each is how long a run takes: what those that were done before took in the middle, or else a guess.
func (s *soak) each() time.Duration {
	var took []int64
	for _, l := range s.folder.Lines {
		if l.counts() {
			took = append(took, int64(l.Took))
		}
	}
	if len(took) > 0 {
		return time.Duration(spread(took).Median)
	}
	return s.Drive + besidesDrive
}

// about is a time that is not known to the second: whole minutes, where there are some.
func about(d time.Duration) string {
	if d < 2*time.Minute {
		return d.Round(time.Second).String()
	}
	text := (d + time.Minute - 1).Truncate(time.Minute).String()
	return text[:len(text)-len("0s")]
}
