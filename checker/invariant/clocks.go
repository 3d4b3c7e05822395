package invariant

import (
	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// clocks counts the wall clocks that were moved and said so themselves, by whose they were. The nemesis' word is taken for
// it; it counts a danger and proves nothing.
type clocks struct {
	stores  int64 // of lockdb, or of a member of etcd
	holders int64 // of a client with a key in its hands
	others  int64

	wrong map[int]bool // windows in which lockdb's clock is, or may be, wrong
	right int64        // when it was last seen to be right again, by T
}

func newClocks() clocks { return clocks{wrong: map[int]bool{}} }

func (c *clocks) hear(e *history.Event) {
	if e.Op != opClock {
		return
	}
	target := contract.Process(e.Target)
	switch e.Phase {
	case "inject":
		if target == contract.LockDB {
			c.wrong[e.Window] = true
		}
	case "seen":
		switch {
		case target == contract.LockDB || target.IsEtcd():
			c.stores++
		case target.IsExecutor() && e.Token > 0:
			c.holders++
		default:
			c.others++
		}
	case "healed":
		if c.wrong[e.Window] {
			delete(c.wrong, e.Window)
			c.right = e.T
		}
	}
}

// opClock is what the nemesis calls moving a clock.
const opClock = "clock"

// lockdbIsWrong tells whether the clock that decides about leases on PostgreSQL may be wrong now.
func (c *clocks) lockdbIsWrong() bool { return len(c.wrong) > 0 }

func (c *clocks) ofStores() map[string]int64 { return map[string]int64{"clocks_of_stores": c.stores} }

// ofClients are the counts of whom a wall clock must not matter to.
func (c *clocks) ofClients() map[string]int64 {
	return map[string]int64{"clocks_of_holders": c.holders, "clocks_of_others": c.others}
}
