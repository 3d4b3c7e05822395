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

// moveClock is clockOf a clock that is moved by so much because of a grant of key.
func (w *world) moveClock(target contract.Process, window int, token int64, key, by string, phases ...string) {
	w.clockSays(target, window, token, key, map[string]string{"by": by}, phases)
}

// strobe has a clock go to and fro between there and the true time.
func (w *world) strobe(target contract.Process, window int, by string, phases ...string) {
	w.clockSays(target, window, 0, "", map[string]string{"by": by, "strobe": "200ms"}, phases)
}

func (w *world) clockSays(target contract.Process, window int, token int64, key string, how map[string]string, phases []string) {
	for _, p := range phases {
		w.record(history.Event{W: history.Nemesis, Type: contract.Info, Proc: "nemesis", Op: opClock, Phase: p, Target: string(target), Window: window, Token: token, Key: key,
			Attrs: how})
	}
}

func TestClocksThatWereSeenToBeWrongCountByWhoseTheyWere(t *testing.T) {
	w := bank()
	token := w.acquire("executor-1", "alice")
	given := w.acquire("executor-2", "bob")
	w.release("bob")
	for n, x := range []struct {
		target contract.Process
		token  int64
		by     string
	}{
		{"lockdb", 0, "1h0m0s"}, {"lockdb", 0, "-1h0m0s"}, {"lockdb", 0, "1s"}, {"lockdb", 0, "-1h0m0s"}, {"etcd-2", 0, "1h0m0s"},
		{"executor-1", token, "1h0m0s"}, {"executor-1", token - 1, "1h0m0s"}, {"executor-1", 0, "1h0m0s"}, {"executor-2", given, "1h0m0s"}, {"reconciler", 0, "1h0m0s"}, {"paydb", 0, "-1h0m0s"},
	} {
		w.moveClock(x.target, n+1, x.token, "", x.by, "inject", "seen", "heal", "healed") // the claim that begins a step names no key
	}
	w.moveClock("lockdb", 99, 0, "", "1h0m0s", "inject", "failed", "heal", "healed")
	got := judged(w.events, nil)
	for id, want := range map[string]map[string]int64{
		"INV-06": {"clocks_of_stores": 5, "lockdb_ahead": 1, "lockdb_behind": 2}, "SDK-01": {"clocks_of_holders": 1, "clocks_of_others": 5},
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
		{"a grant from some time after, deleted by who may have begun before", 2500 * time.Millisecond, 300 * time.Millisecond, 0, 1},
		{"a grant from longer after than anything lasts", 3 * time.Second, 300 * time.Millisecond, 1, 0},
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

func TestARefusalCountsForAClockThatIsBehindOnlyWhileItIs(t *testing.T) {
	const by = "-1h0m0s"
	type story struct {
		*world
		refused func(op contract.Op, status int, after time.Duration)
	}
	for _, c := range []struct {
		name  string
		story func(s story)
		want  int64
	}{
		{"before, while it is behind, and when it is put right", func(s story) {
			s.refused(contract.OpRenew, 503, 0)
			s.moveClock("lockdb", 1, 0, "", by, "inject", "seen")
			s.refused(contract.OpRenew, 503, 0)
			s.refused(contract.OpHeartbeat, 503, 0)
			s.refused(contract.OpHeartbeat, 200, 0)
			s.refused(contract.OpAcquire, 503, 0) // is no extension
			s.moveClock("lockdb", 1, 0, "", by, "heal")
			s.refused(contract.OpHeartbeat, 503, 0)
			s.moveClock("lockdb", 1, 0, "", by, "healed")
		}, 2},
		{"before it is heard to say so", func(s story) {
			s.moveClock("lockdb", 1, 0, "", by, "inject")
			s.refused(contract.OpRenew, 503, 900*time.Millisecond)
			s.moveClock("lockdb", 1, 0, "", by, "seen")
			s.refused(contract.OpRenew, 503, 0)
			s.moveClock("lockdb", 1, 0, "", by, "heal", "healed")
		}, 2},
		{"and it never is heard to say so", func(s story) {
			s.moveClock("lockdb", 1, 0, "", by, "inject")
			s.refused(contract.OpRenew, 503, 0)
			s.moveClock("lockdb", 1, 0, "", by, "heal", "healed")
			s.moveClock("lockdb", 2, 0, "", by, "inject", "seen", "heal", "healed")
		}, 0},
		{"by a database that does not answer", func(s story) {
			s.moveClock("lockdb", 1, 0, "", by, "inject", "seen")
			s.refused(contract.OpRenew, 503, 1100*time.Millisecond)
			s.moveClock("lockdb", 1, 0, "", by, "heal", "healed")
		}, 0},
		{"while it goes to and fro, and is right half the time", func(s story) {
			s.strobe("lockdb", 1, by, "inject")
			s.refused(contract.OpRenew, 503, 0)
			s.strobe("lockdb", 1, by, "seen")
			s.refused(contract.OpRenew, 503, 0)
			s.strobe("lockdb", 1, by, "heal", "healed")
		}, 0},
		{"while it is ahead", func(s story) {
			s.moveClock("lockdb", 1, 0, "", "1h0m0s", "inject")
			s.refused(contract.OpRenew, 503, 0)
			s.moveClock("lockdb", 1, 0, "", "1h0m0s", "seen")
			s.refused(contract.OpRenew, 503, 0)
			s.moveClock("lockdb", 1, 0, "", "1h0m0s", "heal", "healed")
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := bank()
			c.story(story{w, func(op contract.Op, status int, after time.Duration) {
				r := w.send(history.Event{Op: op, Proc: "executor-1", Key: keyPrefix + "alice", Session: "session-executor-1"})
				r.answer = answer{status: status, code: contract.NotLeader}
				w.clock += int64(after)
				w.reply(r)
			}})
			if got := judged(w.events, nil)["INV-06"].Danger["refused_behind"]; got != c.want {
				t.Errorf("%d refusals, want %d", got, c.want)
			}
		})
	}
}

// A release is one whatever the clock showed. Nothing has to be excused there.
func TestWhatWasGivenBackIsJudgedWhateverTheClockOfTheLockDatabaseShowed(t *testing.T) {
	w := bank()
	w.moveClock("lockdb", 1, 0, "", "1h0m0s", "inject", "seen")
	w.acquire("executor-1", "alice")
	w.release("alice")
	w.acquire("executor-1", "bob")
	w.free("bob")
	w.moveClock("lockdb", 1, 0, "", "1h0m0s", "heal", "healed")
	w.clock += underWay + 1
	w.acquire("executor-1", "alice")
	w.release("alice")
	if got := judged(w.events, nil)["INV-06"]; got.Found != 0 || got.Unresolved != 1 || got.Danger["early_ends_judged"] != 1 {
		t.Errorf("%d found, %d unresolved, of %d ends no clock was the excuse: %s", got.Found, got.Unresolved, got.Danger["early_ends_judged"], got.Reason)
	}
}

// A clock that was ahead for so short a time that nobody committed anything shows in no commit, and a reaper may have asked it.
func TestAnEndByAClockThatNoCommitShowsIsExcusedAsLongAsItMayHaveBegunByIt(t *testing.T) {
	for _, c := range []struct {
		name              string
		by                string
		later             time.Duration // from when it was right again to the end
		found, unresolved int64
	}{
		{"at once", "1h0m0s", 0, 0, 1},
		{"by who may have begun before", "1h0m0s", 2 * time.Second, 0, 1},
		{"by who cannot have", "1h0m0s", 4 * time.Second, 1, 0},
		{"after it was behind", "-1h0m0s", 0, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := bank()
			w.acquire("executor-1", "alice")
			w.moveClock("lockdb", 1, 0, "", c.by, "inject", "seen", "heal", "healed")
			for range c.later / (500 * time.Millisecond) {
				w.clock += int64(500 * time.Millisecond)
				w.renew("alice")
			}
			w.free("alice")
			if got := judged(w.events, nil)["INV-06"]; got.Found != c.found || got.Unresolved != c.unresolved {
				t.Errorf("%d found and %d unresolved, want %d and %d: %s", got.Found, got.Unresolved, c.found, c.unresolved, got.Reason)
			}
		})
	}
}
