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
	at   int64 // by T; 0 for never
	over bool  // all that was committed before has been recorded
	left int64 // calls about keys that were not answered before

	last, recorded int64 // the time of the latest commit before, by the store's clock, and when it was recorded
}

// astray is how far the time of a commit may be from what the commits before it let expect, in microseconds, before it is
// taken for one by the moved clock.
const astray = int64(300 * time.Millisecond / time.Microsecond)

// leavesOut tells whether e is no part of what is judged. The store's log is read on until all has been recorded that was
// committed before the clock was moved: what was answered may rest on that. What was committed meanwhile does no harm; nobody
// knows when the leases ended that it found.
func (c *cut) leavesOut(e *history.Event, covered int64) bool {
	switch {
	case e.W == history.Nemesis && c.at == 0 && e.Op == "clock" && e.Phase == "inject" && contract.Process(e.Target) == contract.LockDB:
		c.at = e.T
		return true
	case c.at == 0:
		if e.W == history.LockDB && e.Committed > 0 {
			c.last, c.recorded = e.Committed, e.T
		}
		return false
	}
	c.over = c.over || covered >= c.at || e.Op == history.OpCommit && e.W == history.LockDB && c.last > 0 && abs(e.Committed-c.last-(e.T-c.recorded)/1000) > astray
	if e.W == history.Wiretap {
		if e.Stage == history.Answered && followed(e.Op) && e.Op != contract.OpHeartbeat {
			c.left++
		}
		return true
	}
	return c.over || e.W != history.LockDB
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}
