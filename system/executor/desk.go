package executor

import (
	"sync"
	"time"
)

// desk keeps which accounts this process is at work on, and which it leaves alone for a while because the last try came
// to nothing.
type desk struct {
	mu    sync.Mutex
	taken map[string]bool
	until map[string]time.Time
}

func newDesk() *desk { return &desk{taken: map[string]bool{}, until: map[string]time.Time{}} }

// take takes account to work on, unless it is taken or to be left alone.
func (d *desk) take(account string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.taken[account] || now.Before(d.until[account]) {
		return false
	}
	delete(d.until, account)
	d.taken[account] = true
	return true
}

// put gives account back, to be left alone until then; the zero time means not at all. Times that have passed are
// forgotten here, so that the desk holds what the last pause has seen and not every account there ever was.
func (d *desk) put(account string, until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.taken, account)
	if until.IsZero() {
		return
	}
	now := time.Now()
	for a, t := range d.until {
		if !now.Before(t) {
			delete(d.until, a)
		}
	}
	d.until[account] = until
}
