package run

import "time"

// patience says when a drain has waited long enough: after maxDrain, and on a machine that is slow for others' sake as
// long as payouts still come to their end. A late verdict is worth more than none.
type patience struct {
	begun, ended time.Time // the drain's beginning; when a payout was last seen to have ended
	open         int64     // the fewest open payouts seen
}

func newPatience(now time.Time) *patience { return &patience{begun: now, ended: now, open: -1} }

// over takes the number of open payouts and tells whether waiting on is in vain.
func (p *patience) over(open int64, now time.Time) bool {
	if p.open < 0 || open < p.open {
		p.open, p.ended = open, now
	}
	return now.Sub(p.begun) >= maxDrain && now.Sub(p.ended) >= stalledDrain
}
