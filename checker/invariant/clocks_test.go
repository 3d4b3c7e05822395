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
