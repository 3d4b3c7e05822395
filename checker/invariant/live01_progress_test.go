package invariant

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// liveSettings are those of a run whose payouts have 11.25 s and their load's time: session 1 s, reaper 1 s, lock 1 s,
// settlement window 5 s, three rounds of the reconciler 0.75 s, look-up lag 2.5 s.
var liveSettings = verdict.Settings{Executors: 2, Services: map[string]string{"LOCK_DEFAULT_TTL": "1s", "LOCK_SESSION_TTL": "1s",
	"RECONCILER_SETTLEMENTWINDOW": "5s", "RECONCILER_INTERVAL": "250ms", "RAIL_STUB_LOOKUPLAGMS": "2500"}}

// live is a run whose clock is in the test's hands.
type live struct{ *world }

func (l live) phase(name string) {
	l.record(history.Event{W: history.Run, Type: contract.Info, Proc: "harness", Op: history.OpPhase, Msg: name})
}

// pass lets time go by, with the harness's signs of life.
func (l live) pass(d time.Duration) {
	for end := l.clock + int64(d); l.clock < end; {
		l.clock = min(end, l.clock+int64(100*time.Millisecond))
		l.record(history.Event{W: history.Run, Type: contract.Info, Proc: "harness", Op: history.OpAlive})
	}
}

// pay pays a payout in a second.
func (l live) pay(payout string) {
	token := l.acquire("executor-1", l.payouts[payout].account)
	for _, op := range []contract.Op{contract.OpClaim, contract.OpSubmitted, contract.OpSubmit, contract.OpOutcome, contract.OpPost} {
		l.do("executor-1", op, payout, token)
		if op == contract.OpClaim {
			l.pass(time.Second)
		}
	}
	l.release(l.payouts[payout].account)
}

// drive is a run in which p1 was paid in a second, and the two payouts p2 of alice and q1 of bob are open when it is
// healed: they have 11.25 s + 3 s.
func drive() live { return driveOn(newWorld()) }

func driveOn(w *world) live {
	l := live{w}
	l.openAccount("clearing", 0)
	for id, account := range map[string]string{"p1": "alice", "p2": "alice", "q1": "bob"} {
		if l.accounts[account] == nil {
			l.openAccount(account, 1000)
		}
		l.order(id, account, 100)
	}
	l.pass(200 * time.Millisecond)
	l.pay("p1")
	l.phase("drain")
	return l
}

func (l live) progress() verdict.Invariant {
	l.watermarks()
	settings := liveSettings
	if l.etcd {
		settings.Backend = "etcd"
	}
	j := NewJudge(settings)
	for i := range l.events {
		j.Observe(&l.events[i])
	}
	for _, inv := range j.Conclude(nil) {
		if inv.ID == "LIVE-01" {
			return inv
		}
	}
	panic("no LIVE-01")
}

func TestProgress(t *testing.T) {
	for _, c := range []struct {
		name  string
		story func(l live)
		want  verdict.Status
		words string
	}{
		{"all come to their ends", func(l live) {
			l.pay("p2")
			l.pay("q1")
			l.phase("collect")
		}, verdict.Pass, ""},
		{"one comes to its end too late", func(l live) {
			l.pay("q1")
			l.pass(14 * time.Second)
			l.pay("p2")
			l.phase("collect")
		}, verdict.Violated, "payout p2 became POSTED only 16"},
		{"one never comes to its end", func(l live) {
			l.pay("q1")
			l.do("executor-1", contract.OpClaim, "p2", l.acquire("executor-1", "alice"))
			l.pass(20 * time.Second)
			l.phase("collect")
		}, verdict.Violated, "payout p2 was still CLAIMED 21"},
		{"one is open when the run ends, and had time left", func(l live) {
			l.pay("q1")
			l.pass(5 * time.Second)
			l.phase("collect")
		}, verdict.Inconclusive, "1 payout was still open when the drain ended, 8."},
		{"the drain is cut short", func(l live) {
			l.pass(5 * time.Second)
			l.record(history.Event{W: history.Run, Op: history.OpInterrupted, Msg: "interrupted by the user"})
			l.phase("collect")
		}, verdict.Inconclusive, "2 payouts were still open when the run was cut short"},
		{"the harness stood still meanwhile", func(l live) {
			l.pay("q1")
			l.pass(5 * time.Second)
			l.clock += int64(1100 * time.Millisecond)
			l.pass(15 * time.Second)
			l.phase("collect")
		}, verdict.Inconclusive, "the harness stood still for 1.2"},
		{"the harness stood still, and all came to their ends in time", func(l live) {
			l.clock += int64(2 * time.Second)
			l.pay("p2")
			l.pay("q1")
			l.phase("collect")
		}, verdict.Pass, ""},
		{"an ambiguous one is in its window when the run ends", func(l live) {
			l.pay("q1")
			l.ambiguous("p2")
			l.pass(5 * time.Second)
			l.phase("collect")
		}, verdict.Pass, ""},
		{"an ambiguous one should have been resolved", func(l live) {
			l.pay("q1")
			l.ambiguous("p2")
			l.pass(20 * time.Second)
			l.phase("collect")
		}, verdict.Violated, "payout p2 was still RAIL_AMBIGUOUS 21"},
		{"the history ends in the drain", func(l live) { l.pass(time.Hour / 60) }, verdict.Inconclusive, "2 payouts were still open when the history ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := drive()
			c.story(l)
			got := l.progress()
			if got.Status != c.want || !strings.Contains(got.Reason, c.words) {
				t.Errorf("%s because %q, want %s because %q", got.Status, got.Reason, c.want, c.words)
			}
			for _, v := range got.Violations {
				if n := len(v.Events); n < 3 || n > maxEvidence {
					t.Errorf("%q is proved by %d events", v.Sentence, n)
				}
			}
		})
	}
}

// ambiguous makes a payout RAIL_AMBIGUOUS at once.
func (l live) ambiguous(payout string) {
	token := l.acquire("executor-1", l.payouts[payout].account)
	l.do("executor-1", contract.OpClaim, payout, token)
	l.do("executor-1", contract.OpSubmitted, payout, token)
	r := l.ask("executor-1", contract.OpOutcome, payout, token)
	r.reports = contract.OutcomeTimeout
	l.complete(r)
	l.release(l.payouts[payout].account)
}

// Nobody else serves an account's payouts meanwhile: eight of them take as long as it takes one after the other.
func TestThePayoutsOfOneAccountSetThePace(t *testing.T) {
	l := drive()
	l.events = l.events[:len(l.events)-1] // the drain has not begun
	for n := range 8 {
		l.order(fmt.Sprintf("a%d", n), "alice", 10)
	}
	l.phase("drain")
	l.pass(14 * time.Second) // of 11.25 s + 3 × 9 × 1 s, and not of 11.25 s + 3 × 10 × 1 s ÷ 2
	l.pass(14 * time.Second)
	for n := range 8 {
		l.pay(fmt.Sprintf("a%d", n))
	}
	l.pay("p2")
	l.pay("q1")
	l.phase("collect")
	if got := l.progress(); got.Status != verdict.Pass {
		t.Errorf("%s: %s", got.Status, got.Reason)
	}
}

func TestWithoutSignsOfLifeNobodyKnowsWhatWasLate(t *testing.T) {
	l := drive()
	l.pass(30 * time.Second)
	l.phase("collect")
	var events []history.Event
	for _, e := range l.events {
		if e.Op != history.OpAlive {
			events = append(events, e)
		}
	}
	l.events = events
	if got := l.progress(); got.Status != verdict.Inconclusive || got.Found != 0 {
		t.Errorf("%s with %d found: %s", got.Status, got.Found, got.Reason)
	}
}

// refused lets proc ask for alice's key in vain.
func (l live) refused(proc string) {
	r := l.send(history.Event{Op: contract.OpAcquire, Proc: contract.Process(proc), Key: "payout:alice"})
	r.answer = answer{status: 409, code: contract.LockContended}
	l.reply(r)
	l.watermarks()
}

func TestADeadHoldersKeyIsGrantedAgainToThoseWhoAskForIt(t *testing.T) {
	for _, c := range []struct {
		name  string
		story func(l live)
		found int64
	}{
		{"nobody is granted it", func(l live) {
			l.acquire("executor-1", "alice")
			l.pass(3100 * time.Millisecond)
			l.refused("executor-2")
			l.refused("executor-2") // told once
		}, 1},
		{"it is asked for in time", func(l live) {
			l.acquire("executor-1", "alice")
			l.pass(2900 * time.Millisecond)
			l.refused("executor-2")
		}, 0},
		{"nobody asks for it", func(l live) {
			l.acquire("executor-1", "alice")
			l.pass(10 * time.Second)
		}, 0},
		{"its holder is alive", func(l live) {
			l.acquire("executor-1", "alice")
			for range 10 {
				l.pass(900 * time.Millisecond)
				l.renew("alice")
			}
			l.refused("executor-2")
		}, 0},
		{"somebody else was granted it", func(l live) {
			l.acquire("executor-1", "alice")
			l.pass(5 * time.Second)
			l.acquire("executor-3", "alice")
			l.refused("executor-2")
		}, 0},
		{"it is free", func(l live) {
			l.acquire("executor-1", "alice")
			l.pass(5 * time.Second)
			l.free("alice")
			l.refused("executor-2")
		}, 0},
		{"the server does not answer", func(l live) {
			l.acquire("executor-1", "alice")
			l.pass(5 * time.Second)
			l.loseAnswer(l.send(history.Event{Op: contract.OpAcquire, Proc: "executor-2", Key: "payout:alice"}))
		}, 0},
		{"the harness stood still", func(l live) {
			l.acquire("executor-1", "alice")
			l.clock += int64(5 * time.Second)
			l.pass(time.Second)
			l.refused("executor-2")
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := drive()
			c.story(l)
			l.pay("p2")
			l.pay("q1")
			l.phase("collect")
			got := l.progress()
			if got.Found != c.found {
				t.Errorf("%d found, want %d: %s", got.Found, c.found, got.Reason)
			}
			for _, v := range got.Violations {
				if n := len(v.Events); n < 3 || n > maxEvidence || v.Key != "payout:alice" {
					t.Errorf("%q of %s is proved by %d events", v.Sentence, v.Key, n)
				}
			}
		})
	}
}

func TestARegrantBehindADeadHolderIsCounted(t *testing.T) {
	l := drive()
	before := l.progress().Danger["dead_holders"]
	l.acquire("executor-1", "bob")
	l.acquire("executor-2", "bob") // over the expired row
	l.pass(2 * time.Second)
	l.free("bob") // reaped
	l.acquire("executor-2", "bob")
	if got := l.progress().Danger["dead_holders"]; got != before+2 {
		t.Errorf("%d dead holders, want %d", got, before+2)
	}
}
