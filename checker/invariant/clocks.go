package invariant

import (
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// clocks counts the wall clocks that were moved and said so themselves, by whose they were. The nemesis' word is taken for
// it; it counts a danger and proves nothing.
type clocks struct {
	stores        int64 // of a member of etcd, or of lockdb, however little
	ahead, behind int64 // of lockdb, by far more than any lease
	holders       int64 // of a client with a key in its hands when its clock was moved
	others        int64

	held map[string]int64 // by key, the token of who has it and has not asked to give it back
	aims map[int]bool     // by window, whether whoever's grant began it had it when his clock was moved

	wrong map[int]bool // windows in which lockdb's clock is, or may be, wrong
	right int64        // when it was last seen to be right again, by T

	late    map[int]bool    // of wrong, those in which it was seen to be far behind
	unseen  map[int]int64   // of wrong, those that are to be far behind and were not seen to be yet: refusals since they began
	asked   map[int64]int64 // by call, when a renewal or a heartbeat came while lockdb's clock was wrong
	refused int64           // renewals and heartbeats that were refused meanwhile: nothing is extended by that clock

	early     map[int]bool // of wrong, those in which it is ahead of the true time, all the while or now and then
	lastEarly int64        // when the last of them was over, by T
	everWrong bool
}

const (
	farOff = time.Minute // more than any lease lasts
	// refusal is within what time a database's refusal becomes a 503. One that does not answer takes longer: that is no word
	// of its clock.
	refusal = time.Second
)

func newClocks() clocks {
	return clocks{held: map[string]int64{}, aims: map[int]bool{}, wrong: map[int]bool{}, late: map[int]bool{}, early: map[int]bool{},
		unseen: map[int]int64{}, asked: map[int64]int64{}}
}

func (c *clocks) hear(e *history.Event) {
	if e.Op != opClock {
		return
	}
	target := contract.Process(e.Target)
	switch e.Phase {
	case "inject":
		c.aims[e.Window] = e.Token > 0 && c.isHeld(e.Token)
		if target == contract.LockDB {
			c.wrong[e.Window], c.everWrong = true, true
			c.early[e.Window] = forward(e)
			if allTheWhile(e) <= -farOff {
				c.unseen[e.Window] = 0
			}
		}
	case "seen":
		c.seen(target, e)
		delete(c.aims, e.Window)
	case "heal":
		delete(c.late, e.Window)
		delete(c.unseen, e.Window)
	case "healed":
		if c.wrong[e.Window] {
			c.right = e.T
		}
		if c.early[e.Window] {
			c.lastEarly = e.T
		}
		delete(c.wrong, e.Window)
		delete(c.early, e.Window)
		if len(c.wrong) == 0 {
			clear(c.asked)
		}
	}
}

func (c *clocks) seen(target contract.Process, e *history.Event) {
	switch by := allTheWhile(e); {
	case target == contract.LockDB:
		c.stores++
		if by >= farOff {
			c.ahead++
		} else if by <= -farOff {
			c.behind++
			c.late[e.Window] = true
			c.refused += c.unseen[e.Window]
			delete(c.unseen, e.Window)
		}
	case target.IsEtcd():
		c.stores++
	case target.IsExecutor() && c.aims[e.Window]:
		c.holders++
	default:
		c.others++
	}
}

// isHeld tells whether somebody has a key under the token. What the steps of holders begin with names it, and not always the
// key.
func (c *clocks) isHeld(token int64) bool {
	for _, t := range c.held {
		if t == token {
			return true
		}
	}
	return false
}

// shift is a movement as the log has it, 0 where it has none of that name.
func shift(e *history.Event, name string) time.Duration {
	d, err := time.ParseDuration(e.Attrs[name])
	if err != nil {
		return 0
	}
	return d
}

// allTheWhile is by how much a clock is wrong throughout its window: 0 of one that goes to and fro and is right half the time,
// which meets no danger that a lease of some seconds is too short for.
func allTheWhile(e *history.Event) time.Duration {
	if shift(e, "strobe") != 0 {
		return 0
	}
	return shift(e, "by")
}

// forward tells whether a clock that is moved so is ahead at times. One of which nothing is said may be.
func forward(e *history.Event) bool {
	by, drift := shift(e, "by"), shift(e, "drift")
	return by > 0 || drift > 0 || by == 0 && drift == 0
}

// call follows who has which key, and who is refused while lockdb is behind.
func (c *clocks) call(e *history.Event) {
	switch {
	case e.Op == contract.OpAcquire && e.Stage == history.Delivered && e.Granted > 0:
		c.held[e.Key] = e.Granted
	case e.Op == contract.OpRelease && e.Stage == history.Received && c.held[e.Key] == e.Token:
		delete(c.held, e.Key)
	case (e.Op == contract.OpRenew || e.Op == contract.OpHeartbeat) && len(c.wrong) > 0:
		c.extension(e)
	}
}

// extension follows a renewal or a heartbeat while lockdb's clock is wrong. What is refused at once counts from the moment at
// which the clock was put behind, once that is seen: a database that is slow to say the time refuses all the while, and who was
// refused has soon begun anew, by the clock as it is, and is refused no more.
func (c *clocks) extension(e *history.Event) {
	switch e.Stage {
	case history.Received:
		c.asked[e.Call] = e.T
	case history.Answered, history.Lost:
		since, asked := c.asked[e.Call]
		delete(c.asked, e.Call)
		if e.Stage != history.Answered || e.Status != 503 || !asked || e.T-since > int64(refusal) {
			return
		}
		if len(c.late) > 0 {
			c.refused++
			return
		}
		for w := range c.unseen {
			c.unseen[w]++
		}
	}
}

// opClock is what the nemesis calls moving a clock.
const opClock = "clock"

// lockdbIsWrong tells whether the clock that decides about leases on PostgreSQL may be wrong now.
func (c *clocks) lockdbIsWrong() bool { return len(c.wrong) > 0 }

// lockdbWasAhead tells whether lockdb's clock may have been ahead at some moment since T from.
func (c *clocks) lockdbWasAhead(from int64) bool {
	for _, ahead := range c.early {
		if ahead {
			return true
		}
	}
	return c.lastEarly > 0 && c.lastEarly >= from
}

func (c *clocks) ofStores() map[string]int64 {
	return map[string]int64{"clocks_of_stores": c.stores, "lockdb_ahead": c.ahead, "lockdb_behind": c.behind, "refused_behind": c.refused}
}

// ofClients are the counts of whom a wall clock must not matter to.
func (c *clocks) ofClients() map[string]int64 {
	return map[string]int64{"clocks_of_holders": c.holders, "clocks_of_others": c.others}
}
