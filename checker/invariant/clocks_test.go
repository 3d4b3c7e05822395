package invariant

import (
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

func (w *world) clockOf(target contract.Process, window int, token int64, phases ...string) {
	for _, p := range phases {
		w.record(history.Event{W: history.Nemesis, Type: contract.Info, Proc: "nemesis", Op: opClock, Phase: p, Target: string(target), Window: window, Token: token})
	}
}

func TestClocksThatWereSeenToBeWrongCountByWhoseTheyWere(t *testing.T) {
	w := bank()
	for n, target := range []contract.Process{"lockdb", "etcd-2", "executor-1", "executor-1", "reconciler", "paydb"} {
		w.clockOf(target, n+1, int64(n%3), "inject", "seen", "heal", "healed") // the third's token is 2, the fourth's 0
	}
	w.clockOf("lockdb", 9, 0, "inject", "failed", "heal", "healed")
	got := judged(w.events, nil)
	for id, want := range map[string]map[string]int64{
		"INV-06": {"clocks_of_stores": 2}, "SDK-01": {"clocks_of_holders": 1, "clocks_of_others": 3},
	} {
		for counter, n := range want {
			if got[id].Danger[counter] != n {
				t.Errorf("%s: %s is %d, want %d", id, counter, got[id].Danger[counter], n)
			}
		}
	}
}

// A client counts its deadlines on its monotonic clock: that its wall clock is wrong excuses it of nothing.
func TestAWrongClockIsNoExcuseForALateRequest(t *testing.T) {
	late := func(wrong ...string) verdict.Invariant {
		l := drive()
		token := l.lease()
		if len(wrong) > 0 {
			l.clockOf("executor-1", 1, token, wrong...)
		}
		l.pass(600 * time.Millisecond)
		l.heartbeat(200)
		l.pass(500 * time.Millisecond)
		l.claim(token)
		j := NewJudge(clientSettings)
		for i := range l.events {
			j.Observe(&l.events[i])
		}
		return j.folds[9].(*deadlines).Verdict()
	}
	right, wrong := late(), late("inject", "seen")
	if right.Found == 0 || wrong.Found != right.Found || wrong.Danger["excused"] != right.Danger["excused"] {
		t.Errorf("%d found and %d excused, where the clock is right %d and %d", wrong.Found, wrong.Danger["excused"], right.Found, right.Danger["excused"])
	}
}

func TestADeadHoldersKeyIsAwaitedFromWhenTheLockDatabasesClockIsRightAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		story func(l live)
		found int64
	}{
		{"it is refused while the clock is behind", func(l live) {
			l.clockOf("lockdb", 1, 0, "inject", "seen")
			l.pass(6 * time.Second)
			l.refused("executor-2")
		}, 0},
		{"it is refused just after", func(l live) {
			l.clockOf("lockdb", 1, 0, "inject", "seen")
			l.pass(6 * time.Second)
			l.clockOf("lockdb", 1, 0, "heal", "healed")
			l.pass(2900 * time.Millisecond)
			l.refused("executor-2")
		}, 0},
		{"it is refused long after", func(l live) {
			l.clockOf("lockdb", 1, 0, "inject", "seen")
			l.pass(6 * time.Second)
			l.clockOf("lockdb", 1, 0, "heal", "healed")
			l.pass(3200 * time.Millisecond)
			l.refused("executor-2")
		}, 1},
		{"the clock of somebody else is behind", func(l live) {
			l.clockOf("lock-server", 1, 0, "inject", "seen")
			l.pass(3200 * time.Millisecond)
			l.refused("executor-2")
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := drive()
			l.acquire("executor-1", "alice")
			c.story(l)
			l.pay("p2")
			l.pay("q1")
			l.phase("collect")
			if got := l.progress(); got.Found != c.found {
				t.Errorf("%d found, want %d: %s", got.Found, c.found, got.Reason)
			}
		})
	}
}

// A clock that was ahead explains why a grant of that time is gone, and nothing that was granted after it was right again.
func TestALockDatabaseThatWasAheadHidesNoLaterEnd(t *testing.T) {
	for _, c := range []struct {
		name       string
		granted    time.Duration // after the clock was put back; before, where it is negative
		deleted    time.Duration // after the grant
		found      int64
		unresolved int64
	}{
		{"a grant from before, deleted soon", -100 * time.Millisecond, 300 * time.Millisecond, 0, 1},
		{"a grant from just after, deleted by who may have begun before", 100 * time.Millisecond, 300 * time.Millisecond, 0, 1},
		{"a grant from long after", 6 * time.Second, 300 * time.Millisecond, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := bank()
			put := func() {
				w.acquire("executor-3", "bob") // the clock has been an hour ahead
				for i := len(w.events) - 1; i >= 0; i-- {
					if e := &w.events[i]; e.W == history.LockDB && e.Op == history.OpCommit {
						e.Committed += int64(time.Hour / time.Microsecond)
						break
					}
				}
				w.clock += int64(time.Millisecond)
				w.acquire("executor-3", "carol")
			}
			if c.granted < 0 {
				w.acquire("executor-1", "alice")
				w.clock -= int64(c.granted)
				put()
				w.clock += int64(c.deleted)
			} else {
				put()
				w.clock += int64(c.granted)
				w.acquire("executor-1", "alice")
				w.clock += int64(c.deleted)
			}
			w.free("alice")
			got := judged(w.events, nil)["INV-06"]
			if got.Found != c.found || got.Unresolved != c.unresolved {
				t.Errorf("%d found and %d unresolved, want %d and %d: %s", got.Found, got.Unresolved, c.found, c.unresolved, got.Reason)
			}
		})
	}
}
