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

// A lease of 1 s, 300 ms of grace past its deadline at 0.7 s: what comes at 1.1 s is 100 ms too late.
func TestALateClientIsToBlameOnlyWhereTheMachineLetItRun(t *testing.T) {
	kept := func(d string) map[string]string { return map[string]string{"executor-1": d} }
	for _, c := range []struct {
		name     string
		story    func(l live)
		violated bool
	}{
		{"it was kept from running for longer than it was late", func(l live) {
			l.asked(nil)
			token := l.lease()
			l.pass100(11, kept("10ms"))
			l.claim(token)
			l.asked(nil)
		}, false},
		{"it was kept from running for less", func(l live) {
			l.asked(nil)
			token := l.lease()
			l.pass100(11, kept("8ms"))
			l.claim(token)
			l.asked(nil)
		}, true},
		{"another one was", func(l live) {
			l.asked(nil)
			token := l.lease()
			l.pass100(11, map[string]string{"executor-2": "90ms"})
			l.claim(token)
			l.asked(nil)
		}, true},
		{"it was before it had the lease", func(l live) {
			l.asked(nil)
			l.pass100(11, kept("90ms"))
			token := l.lease()
			l.pass100(11, nil)
			l.claim(token)
			l.asked(nil)
		}, true},
		{"many threads of it were at one time, which is no longer than that", func(l live) {
			l.asked(nil)
			token := l.lease()
			l.pass100(1, kept("900ms"))
			l.pass100(11, nil)
			l.claim(token) // 200 ms too late
			l.asked(nil)
		}, true},
		{"it was just before it sent, as is heard afterwards", func(l live) {
			l.asked(nil)
			token := l.lease()
			l.pass100(9, nil)
			l.pass(200 * time.Millisecond)
			l.claim(token)
			l.asked(kept("180ms"))
		}, false},
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
		}, true},
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
