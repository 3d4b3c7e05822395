package run

import (
	"testing"
	"time"
)

func TestADrainGoesOnPastItsTimeOnlyWhilePayoutsStillEnd(t *testing.T) {
	begin := time.Now()
	type look struct {
		after time.Duration
		open  int64
		over  bool
	}
	for name, looks := range map[string][]look{
		"nothing ends":             {{0, 5, false}, {maxDrain - 1, 5, false}, {maxDrain, 5, true}},
		"the last one ended early": {{0, 5, false}, {time.Second, 4, false}, {maxDrain, 4, true}},
		"one ended just now": {{0, 5, false}, {maxDrain - 1, 4, false}, {maxDrain, 4, false}, {maxDrain + stalledDrain - 2, 4, false},
			{maxDrain + stalledDrain - 1, 4, true}},
		"one after the other":                      {{0, 5, false}, {maxDrain, 4, false}, {maxDrain + stalledDrain - 1, 3, false}, {maxDrain + 2*stalledDrain - 2, 2, false}},
		"more are open than before is no progress": {{0, 5, false}, {maxDrain, 6, true}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPatience(begin)
			for _, l := range looks {
				if got := p.over(l.open, begin.Add(l.after)); got != l.over {
					t.Errorf("after %s with %d open: over is %v", l.after, l.open, got)
				}
			}
		})
	}
}
