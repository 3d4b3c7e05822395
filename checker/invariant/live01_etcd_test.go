package invariant

import (
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// driveOnEtcd is drive where the lock's store is etcd.
func driveOnEtcd() live {
	w := newWorld()
	w.etcd = true
	return driveOn(w)
}

// watched lets time go by while etcd's witness says how far it has come.
func (l live) watched(d time.Duration) {
	for ; d > 0; d -= 500 * time.Millisecond {
		l.pass(min(d, 500*time.Millisecond))
		l.watermarks()
	}
}

func (l live) election() {
	l.record(history.Event{W: history.LockDB, Type: contract.Info, Proc: "etcd", Op: history.OpElection, Attrs: map[string]string{"term": "3"}})
}

func TestADeadHoldersKeyOnEtcdIsGrantedAgainToThoseWhoAskForIt(t *testing.T) {
	for _, c := range []struct {
		name       string
		story      func(l live)
		found      int64
		unresolved int64
	}{
		{"nobody is granted it", func(l live) {
			l.acquire("executor-1", "alice")
			l.watched(3100 * time.Millisecond)
			l.refused("executor-2")
			l.refused("executor-2") // told once
		}, 1, 0},
		{"it is asked for in time", func(l live) {
			l.acquire("executor-1", "alice")
			l.watched(2900 * time.Millisecond)
			l.refused("executor-2")
		}, 0, 0},
		{"its holder renews it", func(l live) {
			l.acquire("executor-1", "alice")
			for range 10 {
				l.watched(900 * time.Millisecond)
				l.renewed("alice", l.grants["alice"])
			}
			l.refused("executor-2")
		}, 0, 0},
		{"its holder renewed it last long ago", func(l live) {
			l.acquire("executor-1", "alice")
			l.watched(900 * time.Millisecond)
			l.renewed("alice", l.grants["alice"])
			l.watched(3100 * time.Millisecond)
			l.refused("executor-2")
		}, 1, 0},
		{"its holder's renewals are refused", func(l live) {
			l.acquire("executor-1", "alice")
			g := *l.grants["alice"]
			for range 4 {
				l.watched(900 * time.Millisecond)
				r := l.askRenewal("alice", &g)
				r.answer = answer{status: 409, code: contract.LockLost}
				l.reply(r)
			}
			l.refused("executor-2")
		}, 1, 0},
		{"nobody knows what became of its renewal", func(l live) {
			l.acquire("executor-1", "alice")
			l.watched(2 * time.Second)
			r := l.askRenewal("alice", l.grants["alice"])
			r.answer = answer{status: 503, code: contract.NotLeader}
			l.reply(r)
			l.watched(2 * time.Second)
			l.refused("executor-2")
		}, 0, 0},
		{"its renewal may still be under way", func(l live) {
			l.acquire("executor-1", "alice")
			l.loseAnswer(l.askRenewal("alice", l.grants["alice"]))
			l.watched(5 * time.Second)
			l.refused("executor-2")
		}, 0, 1},
		{"there was an election", func(l live) {
			l.acquire("executor-1", "alice")
			l.watched(time.Second)
			l.election()
			l.watched(2500 * time.Millisecond)
			l.refused("executor-2")
		}, 0, 0},
		{"there was an election long ago", func(l live) {
			l.acquire("executor-1", "alice")
			l.watched(time.Second)
			l.election()
			l.watched(3100 * time.Millisecond)
			l.refused("executor-2")
		}, 1, 0},
		{"etcd did not answer for a while", func(l live) {
			l.acquire("executor-1", "alice")
			l.watermarks()
			l.pass(3 * time.Second)
			l.watched(2500 * time.Millisecond)
			l.refused("executor-2")
		}, 0, 0},
		{"somebody else was granted it", func(l live) {
			l.acquire("executor-1", "alice")
			l.watched(5 * time.Second)
			l.acquire("executor-3", "alice")
			l.refused("executor-2")
		}, 0, 0},
		{"it is free", func(l live) {
			l.acquire("executor-1", "alice")
			l.watched(5 * time.Second)
			l.free("alice")
			l.refused("executor-2")
		}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := driveOnEtcd()
			c.story(l)
			l.pay("p2")
			l.pay("q1")
			l.phase("collect")
			got := l.progress()
			if got.Found != c.found || got.Unresolved != c.unresolved {
				t.Errorf("%d found and %d unresolved, want %d and %d: %s", got.Found, got.Unresolved, c.found, c.unresolved, got.Reason)
			}
			for _, v := range got.Violations {
				if n := len(v.Events); n < 3 || n > maxEvidence || v.Key != "payout:alice" {
					t.Errorf("%q of %s is proved by %d events", v.Sentence, v.Key, n)
				}
			}
		})
	}
}

func TestOnEtcdOnlyAGrantBehindAHolderThatDiedIsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(l live)
		want int64
	}{
		"its lease ran out": {func(l live) { l.pass(2 * time.Second); l.free("bob") }, 1},
		"its session died":  {func(l live) { l.endSession("executor-1", "bob") }, 1},
		"it was released":   {func(l live) { l.release("bob") }, 0},
		"its session was closed": {func(l live) {
			r := l.send(history.Event{Op: contract.OpCloseSession, Proc: "executor-1", Session: "session-executor-1"})
			l.endSession("executor-1", "bob")
			r.answer = answer{status: 204}
			l.reply(r)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := driveOnEtcd()
			before := l.progress().Danger["dead_holders"]
			l.acquire("executor-1", "bob")
			c.end(l)
			l.acquire("executor-2", "bob")
			if got := l.progress().Danger["dead_holders"]; got != before+c.want {
				t.Errorf("%d dead holders, want %d", got, before+c.want)
			}
		})
	}
}

// An election begins the time anew in which all payouts have to come to their ends: leases live longer for it.
func TestTheTimeOfAllPayoutsBeginsAnewWithAnElection(t *testing.T) {
	for name, c := range map[string]struct {
		elect bool
		want  verdict.Status
	}{"no election": {false, verdict.Violated}, "an election in the drain": {true, verdict.Pass}} {
		t.Run(name, func(t *testing.T) {
			l := driveOnEtcd()
			l.watched(5 * time.Second)
			if c.elect {
				l.election()
			}
			l.watched(12 * time.Second) // of 14.25 s
			l.pay("p2")
			l.pay("q1")
			l.phase("collect")
			if got := l.progress(); got.Status != c.want {
				t.Errorf("%s because %q, want %s", got.Status, got.Reason, c.want)
			}
		})
	}
}
