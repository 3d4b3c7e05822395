package invariant

import (
	"time"

	"fenceproof/checker/history"
)

// lockdbClock is what the log shows of lockdb's clock: the times of its commits, this one's included. It may be put back.
type lockdbClock struct {
	high instant // the highest it ever was
	now  instant // the highest since it was put back last
	back int64   // when that was seen, by T
}

const (
	// putBack is by how much a commit's time has to be lower than an earlier one's: those of concurrent transactions may be
	// a little out of order by themselves.
	putBack = instant(500 * time.Millisecond / time.Microsecond)
	// underWay is how long a transaction may last that began before the clock was put back: the lock server gives an operation
	// 3 s, and the database each of its statements 2.
	underWay = int64(3 * time.Second)
)

func (c *lockdbClock) read(e *history.Event) {
	at := instant(e.Committed)
	if at == 0 {
		return
	}
	if at < c.now-putBack {
		c.now, c.back = at, e.T
	}
	c.now, c.high = max(c.now, at), max(c.high, at)
}

// mayHavePassed tells whether whoever deleted the row may have seen a clock that was past its end, although the commit's own
// time is before. That clock can have been one that is put back by now only for a row that was there before it was put back,
// or for a transaction that had begun before: a wrong clock explains nothing of what was written and deleted after it was
// right again. A clock that was ahead need not have shown in the log: nobody may have committed anything meanwhile.
func (c *lockdbClock) mayHavePassed(row *leaseRow, deleted *history.Event, moved *clocks) bool {
	switch {
	case row.expires <= c.now, moved.lockdbWasAhead(deleted.T - underWay):
		return true
	case row.expires > c.high:
		return false
	}
	return row.event == nil || row.event.T <= c.back || deleted.T-c.back < underWay
}
