package invariant

import (
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// asked is the harness's word for how long executors were kept from running since it asked last.
func (l live) asked(waited map[string]string) {
	l.record(history.Event{W: history.Run, Type: contract.Info, Proc: "harness", Op: history.OpWaits, Attrs: waited})
}

// pass100 lets so many times 100 ms pass, in each of which executors are kept from running.
func (l live) pass100(n int, waited map[string]string) {
	for range n {
		l.pass(100 * time.Millisecond)
		l.asked(waited)
	}
}

// renewedAfter renews a grant 50 ms later than it may after its release was answered; the harness is told of what it waited for
// in the time since.
func (l live) renewedAfter(waited map[string]string) {
	l.asked(nil)
	token := l.lease()
	l.release("alice")
	l.pass100(2, nil)
	l.pass(100 * time.Millisecond)
	l.renewal(token, 409)
	l.asked(waited)
}

// A lease of 1 s, 300 ms of grace past its deadline at 0.7 s: what comes at 1.1 s is 100 ms too late.
func TestALateClientIsToBlameOnlyWhereTheMachineLetItRun(t *testing.T) {
	kept := func(d string) map[string]string { return map[string]string{"executor-1": d} }
	// late asks once, lets the lease's holder go for 0.7 s and then as the story tells, has it claim, and asks again.
	late := func(story func(l live), then map[string]string) func(l live) {
		return func(l live) {
			l.asked(nil)
			token := l.lease()
			l.pass100(7, nil)
			story(l)
			l.claim(token)
			l.pass(10 * time.Millisecond)
			l.asked(then)
		}
	}
	// answeredLater is of one that was kept from running after its call, as well as before it.
	answeredLater := func(before map[string]string) func(l live) {
		return func(l live) {
			l.asked(nil)
			token := l.lease()
			l.pass100(11, before)
			call := l.send(history.Event{Op: contract.OpClaim, Proc: "executor-1", Account: "alice", Payout: "p2", Token: token})
			l.asked(nil)
			l.pass100(1, kept("180ms"))
			l.answerAt(call, 409)
		}
	}
	for _, c := range []struct {
		name     string
		story    func(l live)
		violated bool
	}{
		{"it was kept from running for longer than it was late", late(func(l live) { l.pass100(4, kept("26ms")) }, nil), false},
		{"it was kept from running for less", late(func(l live) { l.pass100(4, kept("24ms")) }, nil), true},
		{"another one was", late(func(l live) { l.pass100(4, map[string]string{"executor-2": "90ms"}) }, nil), true},
		{"it was before its deadline, which it has to know of", func(l live) {
			l.asked(nil)
			token := l.lease()
			l.pass100(7, kept("90ms"))
			l.pass100(4, nil)
			l.claim(token)
			l.asked(nil)
		}, true},
		{"it was around its deadline, and no more counts than what lies after it", func(l live) {
			l.asked(nil)
			token := l.lease()
			l.pass100(6, nil)
			l.pass(190 * time.Millisecond)
			l.asked(kept("180ms")) // 90 ms of it
			l.pass100(3, nil)
			l.pass(10 * time.Millisecond)
			l.claim(token)
			l.asked(nil)
		}, true},
		{"it waited for longer than the harness waits between two questions, which is heard when it is over", late(func(l live) {
			l.pass100(3, nil)
			l.pass(90 * time.Millisecond)
			l.asked(kept("300ms"))
			l.pass(110 * time.Millisecond) // 200 ms too late
		}, nil), false},
		{"it waited for the same time that another thread of it did", late(func(l live) {
			l.pass100(2, kept("80ms")) // what the next one says began before
			l.pass100(1, kept("300ms"))
			l.pass100(3, nil) // 300 ms too late, and not for 460
			l.pass(10 * time.Millisecond)
		}, nil), true},
		{"it was just before it sent, as is heard afterwards", late(func(l live) { l.pass100(3, nil); l.pass(100 * time.Millisecond) }, kept("105ms")), false},
		{"it was after it had sent", answeredLater(nil), true},
		{"it was before it sent and after it", answeredLater(kept("30ms")), false},
		{"the harness was asking when it sent, and hears of it the next time", late(func(l live) {
			l.pass100(3, nil)
			l.pass(90 * time.Millisecond)
			l.asked(nil)
			l.pass(10 * time.Millisecond)
		}, map[string]string{history.AskedFor: "15ms"}), false},
		{"it was while the harness asked", late(func(l live) { l.pass100(4, nil) }, map[string]string{"executor-1": "110ms", history.AskedFor: "8ms"}), false},
		{"nobody asks the kernel", func(l live) {
			token := l.lease()
			l.pass(1100 * time.Millisecond)
			l.claim(token)
		}, true},
		{"nobody has asked it since", func(l live) {
			l.asked(nil)
			token := l.lease()
			l.pass100(10, nil)
			l.pass(100 * time.Millisecond)
			l.claim(token)
		}, false},
		{"it renewed what it had released, and was not kept from running", func(l live) { l.renewedAfter(nil) }, true},
		{"it renewed what it had released, and was kept from running", func(l live) { l.renewedAfter(kept("60ms")) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := live{bank()}
			c.story(l)
			j := NewJudge(clientSettings)
			for i := range l.events {
				j.Observe(&l.events[i])
			}
			for _, inv := range j.Conclude(nil) {
				if inv.ID != "SDK-01" {
					continue
				}
				if got := inv.Status == verdict.Violated; got != c.violated || !c.violated && inv.Unresolved != 1 {
					t.Errorf("it is %s, with %d unresolved: %s", inv.Status, inv.Unresolved, inv.Reason)
				}
			}
		})
	}
}
