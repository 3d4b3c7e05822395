package invariant

import (
	"fmt"
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

func TestTheDangersOfALeaseAreCountedAsClientsMeetThem(t *testing.T) {
	const key = "k"
	at := int64(0)
	hear := func(d *leaseDanger, e history.Event) {
		at++
		e.I, e.T, e.W = at, at, history.Wiretap
		if e.Target != "" {
			e.W = history.Nemesis
		}
		d.hear(&e)
	}
	answer := func(d *leaseDanger, proc contract.Process, op contract.Op, token, granted int64, code contract.Code) {
		e := history.Event{Stage: history.Answered, Type: contract.OK, Proc: proc, Op: op, Key: key, Token: token, Granted: granted, Code: code}
		if code != "" {
			e.Type = contract.Fail
		}
		hear(d, e)
	}
	stop := func(d *leaseDanger, target, phase string) {
		hear(d, history.Event{Type: contract.Info, Op: "pause", Target: target, Phase: phase})
	}
	for name, c := range map[string]struct {
		story func(d *leaseDanger)
		want  string // counter
		n     int64
	}{
		"somebody else has the key":                 {func(d *leaseDanger) { answer(d, "a", contract.OpAcquire, 0, 0, contract.LockContended) }, "contended", 1},
		"a release comes late":                      {func(d *leaseDanger) { answer(d, "a", contract.OpRelease, 7, 0, contract.LockLost) }, "stale_releases", 1},
		"a renewal comes late":                      {func(d *leaseDanger) { answer(d, "a", contract.OpRenew, 7, 0, contract.LockLost) }, "stale_renewals", 1},
		"a backend that does not answer is no loss": {func(d *leaseDanger) { answer(d, "a", contract.OpRenew, 7, 0, contract.NotLeader) }, "stale_renewals", 0},
		"it was stopped with the key in its hands": {func(d *leaseDanger) {
			answer(d, "a", contract.OpAcquire, 0, 7, "")
			stop(d, "a", "seen")
			stop(d, "a", "healed")
			answer(d, "a", contract.OpRenew, 7, 0, contract.LockLost)
			answer(d, "a", contract.OpRelease, 7, 0, contract.LockLost) // of the same grant
		}, "woken_refused", 1},
		"its request came a second time before it was stopped": {func(d *leaseDanger) {
			answer(d, "a", contract.OpAcquire, 0, 7, "")
			hear(d, history.Event{Stage: history.Answered, Type: contract.OK, Proc: "a", Op: contract.OpAcquire, Key: key, Granted: 8, DupOf: 1})
			stop(d, "a", "seen")
			answer(d, "a", contract.OpRelease, 7, 0, contract.LockLost)
		}, "woken_refused", 1},
		"it had given the key back before it was stopped": {func(d *leaseDanger) {
			answer(d, "a", contract.OpAcquire, 0, 7, "")
			answer(d, "a", contract.OpRelease, 7, 0, "")
			stop(d, "a", "seen")
			answer(d, "a", contract.OpRelease, 7, 0, contract.LockLost)
		}, "woken_refused", 0},
		"it was granted the key after it had gone on": {func(d *leaseDanger) {
			stop(d, "a", "seen")
			stop(d, "a", "healed")
			answer(d, "a", contract.OpAcquire, 0, 9, "")
			answer(d, "a", contract.OpRelease, 9, 0, contract.LockLost)
		}, "woken_refused", 0},
		"the injection failed": {func(d *leaseDanger) {
			answer(d, "a", contract.OpAcquire, 0, 7, "")
			stop(d, "a", "failed")
			answer(d, "a", contract.OpRelease, 7, 0, contract.LockLost)
		}, "woken_refused", 0},
		"a session ends that nobody closed": {func(d *leaseDanger) { d.ended("s") }, "died_with_session", 1},
		"a session ends that was being closed": {func(d *leaseDanger) {
			hear(d, history.Event{Stage: history.Forwarded, Op: contract.OpCloseSession, Session: "s"})
			d.ended("s")
		}, "died_with_session", 0},
		"a session ends whose closing had failed": {func(d *leaseDanger) {
			hear(d, history.Event{Stage: history.Forwarded, Op: contract.OpCloseSession, Session: "s"})
			hear(d, history.Event{Stage: history.Answered, Type: contract.Fail, Op: contract.OpCloseSession, Session: "s"})
			d.ended("s")
		}, "died_with_session", 1},
	} {
		d := newLeaseDanger()
		c.story(&d)
		if got := d.counts(map[string]int64{})[c.want]; got != c.n {
			t.Errorf("%s: %s is %d, want %d", name, c.want, got, c.n)
		}
	}
}

func TestALockRunIsJudgedByWhatAppliesWhereNoMoneyMoves(t *testing.T) {
	var ids []string
	for _, backend := range []string{"pg", "etcd"} {
		for _, inv := range NewJudge(verdict.Settings{Workload: "lock", Backend: backend}).Conclude(nil) {
			ids = append(ids, inv.ID)
		}
	}
	if got := strings.Join(ids, " "); got != "INV-04 INV-06 LIVE-01 DUR-01 INV-04 INV-06 LIVE-01 DUR-01" {
		t.Errorf("judged by %s", got)
	}
}

func TestSessionsThatWereClosedLongAgoAreForgotten(t *testing.T) {
	d := newLeaseDanger()
	for n := range 3 * maxClosing {
		session := fmt.Sprint("session-", n)
		d.hear(&history.Event{W: history.Wiretap, Stage: history.Forwarded, Op: contract.OpCloseSession, Session: session})
		d.ended(session)
		if n%2 == 0 {
			d.hear(&history.Event{W: history.Wiretap, Stage: history.Answered, Type: contract.Fail, Op: contract.OpCloseSession, Session: session})
		}
	}
	if d.deaths != 0 || len(d.closing) > maxClosing || len(d.asked) != len(d.closing) {
		t.Errorf("%d sessions died; of %d and %d it is known that they are to be closed, want at most %d", d.deaths, len(d.closing), len(d.asked), maxClosing)
	}
	if d.ended("session-1"); d.deaths != 1 {
		t.Error("the first of them is still known")
	}
}
