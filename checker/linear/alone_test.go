package linear

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// heard is what the clients of a lock were told, and nothing else: no log of the lock's store, and nobody's clock.
func heard(w *world) []history.Event {
	out := slices.DeleteFunc(w.history(), func(e history.Event) bool { return e.W == history.LockDB || e.Proc == "clock" })
	for i := range out {
		out[i].I = int64(i + 1)
	}
	return out
}

// leased acquires with a lease that the request names.
func (w *world) leased(from, to int64, proc string, token, ttl int64) {
	w.calls++
	ask := history.Event{W: history.Wiretap, Op: contract.OpAcquire, Call: w.calls, Proc: contract.Process(proc), Key: w.key, Type: contract.Invoke,
		Stage: history.Received, T: from * 1e6, Req: fmt.Sprintf(`{"ttlMillis":%d}`, ttl)}
	w.events = append(w.events, ask)
	w.calls--
	w.call(from, to, proc, history.Event{Op: contract.OpAcquire, Status: 200, Granted: token})
}

// ask is a call about a session.
func (w *world) ask(from, to int64, proc string, op contract.Op, status int, res string) {
	w.call(from, to, proc, history.Event{Op: op, Session: "session-" + proc, Status: status, Res: res})
}

// untold is a call that nobody answered.
func (w *world) untold(from, to int64, proc string, op contract.Op, token int64) {
	w.call(from, to, proc, history.Event{Op: op, Token: token})
}

func TestTheAnswersOfALockWithoutALogAreJudgedAlone(t *testing.T) {
	for name, c := range map[string]struct {
		tell func(*world)
		want string // "" for a story that can have happened
	}{
		"one after the other": {func(w *world) {
			w.granted(10, 20, "ann", 1, 15)
			w.released(30, 40, "ann", 1)
			w.granted(50, 60, "bob", 2, 55)
		}, ""},
		"two at once": {func(w *world) {
			w.granted(10, 20, "ann", 1, 15)
			w.granted(30, 40, "bob", 2, 35)
		}, "bob was granted key accounts/7 with token 2, although ann held it with token 1"},
		"two at once and no tokens": {func(w *world) {
			w.granted(10, 20, "ann", 0, 15)
			w.granted(30, 40, "bob", 0, 35)
		}, "bob was granted key accounts/7, although ann held it"},
		"tokens in the wrong order": {func(w *world) {
			w.granted(10, 20, "ann", 2, 15)
			w.released(30, 40, "ann", 2)
			w.granted(50, 60, "bob", 1, 55)
		}, "bob was granted key accounts/7 with token 1 after token 2 had been granted"},
		"a release whose lease was gone is a release": {func(w *world) {
			w.granted(10, 20, "ann", 0, 15)
			w.granted(30, 40, "bob", 0, 35)
			w.lost(50, 60, "ann", contract.OpRelease, 0)
		}, ""},
		"a release of what was given back says nothing of the time before": {func(w *world) {
			w.granted(10, 20, "ann", 0, 15)
			w.granted(30, 40, "bob", 0, 35)
			w.released(45, 48, "ann", 0)
			w.lost(50, 60, "ann", contract.OpRelease, 0)
		}, "bob was granted key accounts/7, although ann held it"},
		"nobody knows whether it was given back": {func(w *world) {
			w.granted(10, 20, "ann", 1, 15)
			w.untold(25, 28, "ann", contract.OpRelease, 1)
			w.granted(30, 40, "bob", 2, 35)
		}, ""},
		"and it was asked for after the next grant": {func(w *world) {
			w.granted(10, 20, "ann", 1, 15)
			w.granted(30, 40, "bob", 2, 35)
			w.untold(45, 0, "ann", contract.OpRelease, 1)
		}, "bob was granted key accounts/7 with token 2, although ann held it with token 1"},
		"the lease has run out": {func(w *world) {
			w.leased(10, 20, "ann", 1, 1000)
			w.granted(1010, 1020, "bob", 2, 1015)
		}, ""},
		"the lease cannot have run out yet": {func(w *world) {
			w.leased(10, 20, "ann", 1, 1000)
			w.granted(900, 1005, "bob", 2, 1000)
		}, "bob was granted key accounts/7 with token 2, although ann held it with token 1"},
		"a renewal keeps it": {func(w *world) {
			w.leased(10, 20, "ann", 1, 1000)
			w.renewed(800, 810, "ann", 1)
			w.granted(1100, 1120, "bob", 2, 1110)
		}, "bob was granted key accounts/7 with token 2, although ann held it with token 1"},
		"its session was closed": {func(w *world) {
			w.ask(1, 5, "ann", contract.OpOpenSession, 201, `{"ttlMillis":5000}`)
			w.leased(10, 20, "ann", 1, 5000)
			w.ask(30, 40, "ann", contract.OpCloseSession, 204, "")
			w.granted(50, 60, "bob", 2, 55)
		}, ""},
		"its session lives": {func(w *world) {
			w.ask(1, 5, "ann", contract.OpOpenSession, 201, `{"ttlMillis":100}`)
			w.leased(10, 20, "ann", 1, 5000)
			w.ask(95, 98, "ann", contract.OpHeartbeat, 200, `{}`)
			w.granted(120, 160, "bob", 2, 150)
		}, "bob was granted key accounts/7 with token 2, although ann held it with token 1"},
		"nobody kept its session alive": {func(w *world) {
			w.ask(1, 5, "ann", contract.OpOpenSession, 201, `{"ttlMillis":100}`)
			w.leased(10, 20, "ann", 1, 5000)
			w.granted(120, 160, "bob", 2, 150)
		}, ""},
		"refused because of a grant that nobody was told of": {func(w *world) {
			w.untold(10, 20, "ann", contract.OpAcquire, 0)
			w.contended(30, 40, "bob")
		}, ""},
		"refused although nobody can have had it": {func(w *world) {
			w.granted(1, 2, "ann", 1, 1)
			w.released(3, 4, "ann", 1)
			w.contended(30, 40, "bob")
		}, "bob was refused key accounts/7 as held by another, although its latest grant, under token 1, had been released"},
		"a grant that nobody was told of keeps nobody out for ever": {func(w *world) {
			w.untold(10, 20, "ann", contract.OpAcquire, 0)
			w.granted(30, 40, "bob", 7, 35)
		}, ""},
		"given back by whoever knows its holder": {func(w *world) {
			w.call(10, 20, "p1", history.Event{Op: contract.OpAcquire})
			w.events[len(w.events)-2].Session, w.events[len(w.events)-1].Session = Anybody, Anybody
			w.released(30, 40, "ann", 0)
			w.granted(50, 60, "bob", 0, 55)
		}, ""},
		"given back by somebody who never had it": {func(w *world) {
			w.granted(10, 20, "ann", 0, 15)
			w.released(30, 40, "bob", 0)
		}, "bob released key accounts/7, although ann held it"},
		"revoked": {func(w *world) {
			w.granted(10, 20, "ann", 1, 15)
			w.call(30, 40, "operator", history.Event{Op: contract.OpRevoke, Status: 200, Res: `{"revokedToken":1,"newTokenFloor":5}`})
			w.granted(50, 60, "bob", 5, 55)
		}, ""},
		"granted below the floor of a revoke": {func(w *world) {
			w.granted(10, 20, "ann", 1, 15)
			w.call(30, 40, "operator", history.Event{Op: contract.OpRevoke, Status: 200, Res: `{"revokedToken":1,"newTokenFloor":5}`})
			w.granted(50, 60, "bob", 4, 55)
		}, "bob was granted key accounts/7 with token 4, although a revoke had raised its floor to 5"},
		"revoked under a token that nobody was told of": {func(w *world) {
			w.untold(10, 20, "ann", contract.OpAcquire, 0)
			w.contended(22, 28, "bob")
			w.call(30, 40, "operator", history.Event{Op: contract.OpRevoke, Status: 200, Res: `{"revokedToken":3,"newTokenFloor":5}`})
			w.granted(50, 60, "bob", 5, 55)
		}, ""},
		"perhaps revoked": {func(w *world) {
			w.granted(10, 20, "ann", 1, 15)
			w.untold(22, 28, "operator", contract.OpRevoke, 0)
			w.granted(50, 60, "bob", 5, 55)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.tell(w)
			f := judge(t, heard(w), Budget{Time: time.Minute})[key]
			if f.Sentence != c.want || f.Open != "" {
				t.Errorf("found %q, left open %q, want %q", f.Sentence, f.Open, c.want)
			}
		})
	}
}

// A revoke is looked for only where it takes a revoke to explain the grant: at a holder that nobody was told of.
func TestARevokeThatNamesNoTokenEndsWhateverStands(t *testing.T) {
	w := newWorld()
	w.untold(10, 20, "ann", contract.OpAcquire, 0)
	w.contended(22, 28, "bob")
	w.untold(30, 40, "operator", contract.OpRevoke, 0)
	w.granted(50, 60, "bob", 5, 55)
	if f := judge(t, heard(w), Budget{Time: time.Minute})[key]; f.Sentence != "" || f.Open != "" {
		t.Errorf("%+v", f)
	}
}

// A busy lock of which every tenth call has no answer is decided, and soon.
func TestManyCallsWithoutAnAnswerAreDecidedAlone(t *testing.T) {
	w := newWorld()
	for i := range int64(400) {
		at := 100 * i
		w.leased(at, at+10, "ann", 2*i+1, 5000)
		w.contended(at+12, at+18, "bob")
		if i%10 == 0 {
			w.untold(at+20, at+90, "cid", contract.OpAcquire, 0)
			w.untold(at+30, at+38, "ann", contract.OpRelease, 2*i+1)
		}
		w.released(at+40, at+50, "ann", 2*i+1)
	}
	f := judge(t, heard(w), Budget{Time: 20 * time.Second})[key]
	if f.Sentence != "" || f.Open != "" || f.Counts.Operations != 1200 || f.Counts.Ambiguous != 80 {
		t.Errorf("%+v", f)
	}
	w.granted(40_000, 40_010, "ann", 900, 0)
	w.granted(40_020, 40_030, "bob", 901, 0)
	if f := judge(t, heard(w), Budget{Time: 20 * time.Second})[key]; !strings.HasPrefix(f.Sentence, "bob was granted") {
		t.Errorf("%+v", f)
	}
}

// Where nobody promised a log there is none to miss; where nobody recorded the answers there is nothing to judge, and a log is not
// read without knowing when its clock was moved. A history of somebody else's lock lacks every witness but the wiretap.
func TestALogThatNobodyRecordedIsNoGapAndAnswersThatNobodyRecordedAreNoPass(t *testing.T) {
	w := newWorld()
	w.granted(10, 20, "ann", 1, 15)
	w.granted(30, 40, "bob", 2, 35)
	but := func(kept ...history.Witness) []history.Witness {
		return slices.DeleteFunc(slices.Clone(history.Witnesses()), func(w history.Witness) bool { return slices.Contains(kept, w) })
	}
	dir := storeOf(t, heard(w), history.Wiretap)
	for _, c := range []struct {
		unrecorded []history.Witness
		want       verdict.Status
	}{
		{[]history.Witness{history.LockDB}, verdict.Violated},
		{but(history.Wiretap), verdict.Violated},
		{but(history.LockDB, history.Nemesis), verdict.NotExercised},
		{but(history.Wiretap, history.LockDB), verdict.NotExercised},
		{but(), verdict.NotExercised},
	} {
		inv, err := Judge(context.Background(), dir, settings, nil, Options{Unrecorded: c.unrecorded})
		if err != nil || inv.Status != c.want {
			t.Errorf("without %v it is %s: %s (%v)", c.unrecorded, inv.Status, inv.Reason, err)
		}
	}
}

// One number in one event must not decide how much memory a judge takes.
func TestAHistoryOfMoreEpochsThanThereCanBeIsRefused(t *testing.T) {
	for _, epoch := range []int{-1, maxEpochs, 1 << 62} {
		w := newWorld()
		w.puts(10, "ann", 1)
		w.events[0].Epoch = epoch
		_, err := Judge(context.Background(), store(t, w.history()), settings, nil, Options{})
		if err == nil || !strings.Contains(err.Error(), "epochs are counted from 0, and there are less than 1000") {
			t.Errorf("epoch %d: %v", epoch, err)
		}
	}
}
