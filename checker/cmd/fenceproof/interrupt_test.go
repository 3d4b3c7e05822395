package main

import (
	"testing"
	"time"
)

// timeout signals its child and then its group: whoever runs us under it asks once, and wants a verdict.
func TestASignalThatFollowsAtOnceIsTheSameWish(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		at   []time.Duration
		want []wish
	}{
		"one":                        {[]time.Duration{0}, []wish{judgeFirst}},
		"two as timeout sends them":  {[]time.Duration{0, 100 * time.Microsecond}, []wish{judgeFirst, sameAsked}},
		"somebody who presses twice": {[]time.Duration{0, time.Second}, []wish{judgeFirst, endAtOnce}},
		"two, and one who presses":   {[]time.Duration{0, time.Millisecond, 2 * time.Second}, []wish{judgeFirst, sameAsked, endAtOnce}},
		"one who does not let go": {[]time.Duration{0, oneWish / 2, oneWish - 1, oneWish},
			[]wish{judgeFirst, sameAsked, sameAsked, endAtOnce}}, // counted from the first: it ends
	} {
		t.Run(name, func(t *testing.T) {
			var asked interruption
			for n, after := range c.at {
				if got := asked.at(begun.Add(after)); got != c.want[n] {
					t.Errorf("signal %d, after %s: %d, want %d", n+1, after, got, c.want[n])
				}
			}
		})
	}
}
