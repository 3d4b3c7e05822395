package linear

import (
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// cut is where the judgement of a history ends because the lock store's clock is moved. A lease that was over may have a
// future again by then, and a lock whose leases come back to life is none that has a specification. What was answered before
// is judged like any history that ends there: calls that were under way are pending. The leases of etcd are by nobody's wall
// clock.
type cut struct {
	at     int64 // by T; 0 for never
	over   bool  // the log is read no further
	short  bool  // then: it is known to have all that was committed before covers, and no more
	covers int64
	left   int64 // calls about keys that were not answered before

	// The latest commit that was recorded before: its time by the store's clock, when it was recorded, and what the watermark
	// before it covers.
	last, recorded, since int64
}

// astray is how far the time of a commit may be from what the commits before it let expect, in microseconds, before it may be
// one by the moved clock.
const astray = int64(300 * time.Millisecond / time.Microsecond)

// leavesOut tells whether e is no part of what is judged. The store's log is read on until all has been recorded that was
// committed before the clock was moved, which a watermark says: what was answered may rest on that. What was committed meanwhile does
// no harm, unless its time is astray; nobody knows when the leases ended that it found.
func (c *cut) leavesOut(e *history.Event, covered int64) bool {
	switch {
	case e.W == history.Nemesis && c.at == 0 && e.Op == "clock" && e.Phase == "inject" && contract.Process(e.Target) == contract.LockDB:
		c.at = e.T
		return true
	case c.at == 0:
		if e.W == history.LockDB && e.Committed > 0 {
			c.last, c.recorded, c.since = e.Committed, e.T, covered
		}
		return false
	case c.over:
	case covered >= c.at:
		c.over, c.short, c.covers = true, true, covered
	case e.Op == history.OpCommit && e.W == history.LockDB && c.last > 0 && abs(e.Committed-c.last-(e.T-c.recorded)/1000) > astray:
		c.over, c.short, c.covers = true, !c.certain(e, covered), covered
	}
	if e.W == history.Wiretap {
		if e.Stage == history.Answered && followed(e.Op) && e.Op != contract.OpHeartbeat {
			c.left++
		}
		return true
	}
	return c.over || e.W != history.LockDB
}

// certain tells whether nothing but a moved clock explains the time of the commit e. A witness may be late with it, or have been late
// with the commit before. But that one was committed after what was covered then and before it was recorded, and e after
// what is covered now; so the time between the two is known to lie between two bounds. The log has commits in their order: before
// one that was certainly made after the clock was moved it has all that were made before.
func (c *cut) certain(e *history.Event, covered int64) bool {
	passed := e.Committed - c.last
	return e.Committed > 0 && (passed > (e.T-c.since)/1000+astray || passed < (covered-c.recorded)/1000-astray)
}

// forget makes calls unanswered whose answer may rest on what the log does not have, because it is read no further. It returns how many.
// What was committed at the very time that a watermark covers may be missing, too.
func (f *frame) forget(calls []*call) (n int64) {
	for _, c := range calls {
		if f.Short && c.Back.I != 0 && c.Back.T >= f.Covers {
			c.unanswer()
			n++
		}
	}
	return n
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}
