package linear

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// Stories of locks that are none of ours: what their clients are told, and what they are not.
func TestTheAnswersOfSomebodyElsesLockAreJudgedAlone(t *testing.T) {
	for name, c := range map[string]struct {
		tell func(*world)
		want string // "" for a story that can have happened
	}{
		"refused by the holder, and perhaps by a grant that never came": {func(w *world) {
			w.granted(10, 20, "p0", 0, 0)
			w.released(25, 35, "p0", 0)
			w.contended(27, 40, "p1")
			w.untold(28, 0, "p2", contract.OpAcquire, 0)
			w.granted(50, 60, "p3", 0, 0)
		}, ""},
		"a grant that nobody was told of is revoked": {func(w *world) {
			w.untold(10, 0, "ann", contract.OpAcquire, 0)
			w.revoked(30, 40, `{"revokedToken":3,"newTokenFloor":5}`)
			w.granted(50, 60, "bob", 5, 0)
		}, ""},
		"and one below its floor is granted": {func(w *world) {
			w.untold(10, 0, "ann", contract.OpAcquire, 0)
			w.revoked(30, 40, `{"revokedToken":3,"newTokenFloor":5}`)
			w.granted(50, 60, "bob", 4, 0)
		}, "bob was granted key accounts/7 with token 4, although a revoke had raised its floor to 5"},
		"a grant that nobody was told of stands in the way of a revoke": {func(w *world) {
			w.untold(10, 0, "ann", contract.OpAcquire, 0)
			w.call(30, 40, "operator", history.Event{Op: contract.OpRevoke, Status: 409, Code: contract.FencedOut, Highest: 3})
		}, ""},
		"its holder learns its token otherwise": {func(w *world) {
			w.granted(1, 2, "bob", 2, 0)
			w.released(3, 4, "bob", 2)
			w.untold(10, 0, "ann", contract.OpAcquire, 0)
			w.renewed(20, 25, "ann", 3)
			w.released(30, 40, "ann", 3)
			w.granted(50, 60, "bob", 4, 0)
		}, ""},
		"gives it back, and once more": {func(w *world) {
			w.untold(10, 0, "ann", contract.OpAcquire, 0)
			w.released(30, 40, "ann", 3)
			w.released(50, 60, "ann", 3)
		}, "ann released key accounts/7 with token 3, although nobody had been granted it"},
		"and another is granted the same token then": {func(w *world) {
			w.untold(10, 0, "ann", contract.OpAcquire, 0)
			w.released(30, 40, "ann", 3)
			w.granted(50, 60, "bob", 3, 0)
		}, "ann released key accounts/7 with token 3, although nobody had been granted it"},
		"a revoke that nobody had asked a grant for": {func(w *world) {
			w.revoked(30, 40, `{"revokedToken":3,"newTokenFloor":5}`)
		}, "the grant of key accounts/7 under token 3 was revoked, although nobody had been granted it"},
		"revoked without a token": {func(w *world) {
			w.granted(10, 20, "ann", 0, 0)
			w.revoked(30, 40, `{"revokedToken":0,"newTokenFloor":0}`)
			w.granted(50, 60, "bob", 0, 0)
		}, ""},
		"revoked before the next two": {func(w *world) {
			w.granted(10, 20, "ann", 0, 0)
			w.revoked(30, 40, `{}`)
			w.granted(50, 60, "bob", 0, 0)
			w.granted(70, 80, "cid", 0, 0)
		}, "cid was granted key accounts/7, although bob held it"},
		"revoked while it was asked for, perhaps before": {func(w *world) {
			w.granted(10, 20, "ann", 0, 0)
			w.revoked(12, 18, `{}`)
			w.contended(50, 60, "bob")
		}, ""},
		"and perhaps after": {func(w *world) {
			w.granted(10, 20, "ann", 0, 0)
			w.revoked(12, 18, `{}`)
			w.granted(50, 60, "bob", 0, 0)
		}, ""},
		"but not before and after": {func(w *world) {
			w.granted(10, 20, "ann", 0, 0)
			w.revoked(12, 18, `{}`)
			w.contended(30, 40, "bob")
			w.granted(50, 60, "bob", 0, 0)
		}, "bob was granted key accounts/7, although ann held it"},
		"Hazelcast's holder is told that it has lost its lock, and names no fence": {func(w *world) {
			w.granted(10, 20, "p0", 1, 0)
			w.granted(30, 40, "p1", 2, 0)
			w.lost(50, 60, "p0", contract.OpRelease, 0)
		}, ""},
		"and of the one before it": {func(w *world) {
			w.granted(10, 20, "p0", 1, 0)
			w.released(22, 24, "p0", 0)
			w.granted(26, 28, "p0", 2, 0)
			w.released(30, 32, "p0", 0)
			w.granted(34, 40, "p1", 3, 0)
			w.granted(44, 48, "p2", 4, 0)
			w.lost(50, 60, "p0", contract.OpRelease, 0)
		}, "p2 was granted key accounts/7 with token 4, although p1 held it with token 3"},
		"a renewal that names no fence keeps the lease": {func(w *world) {
			w.leased(0, 5, "p0", 1, 2000)
			w.renewed(1500, 1510, "p0", 0)
			w.granted(2500, 2510, "p1", 2, 0)
		}, "p1 was granted key accounts/7 with token 2, although p0 held it with token 1"},
		"refused by one's own grant": {func(w *world) {
			w.granted(10, 20, "p0", 0, 0)
			w.refused(30, 40, "p0", contract.OpAcquire, 0, 409, LockHeld)
		}, ""},
		"refused by nobody's": {func(w *world) {
			w.granted(10, 20, "p0", 0, 0)
			w.released(22, 24, "p0", 0)
			w.refused(30, 40, "p0", contract.OpAcquire, 0, 409, LockHeld)
		}, "p0 was refused key accounts/7 as held by another, although its latest grant had been released"},
		"granted twice to its holder": {func(w *world) {
			w.granted(10, 20, "ann", 1, 0)
			w.granted(30, 40, "ann", 2, 0)
		}, "ann was granted key accounts/7 with token 2, although ann held it with token 1"},
		"lost by somebody else than whoever has it": {func(w *world) {
			w.by(Anybody, func() { w.untold(10, 0, "p5", contract.OpAcquire, 0) })
			w.contended(30, 40, "p1")
			w.lost(50, 60, "p0", contract.OpRelease, 0)
		}, ""},
		"given back by nobody knows whom": {func(w *world) {
			w.granted(10, 20, "c1", 0, 0)
			w.by(Anybody, func() { w.released(30, 40, "p5", 0) })
			w.granted(50, 60, "c2", 0, 0)
		}, ""},
		"lost by nobody knows whom, after a holder's call had no answer": {func(w *world) {
			w.granted(10, 20, "c1", 0, 0)
			w.untold(22, 0, "c1", contract.OpRenew, 0)
			w.granted(30, 40, "c2", 0, 0)
			w.by(Anybody, func() { w.lost(50, 60, "p5", contract.OpRelease, 0) })
		}, ""},
		"lost by nobody knows whom": {func(w *world) {
			w.granted(10, 20, "c1", 0, 0)
			w.granted(30, 40, "c2", 0, 0)
			w.by(Anybody, func() { w.lost(50, 60, "p5", contract.OpRelease, 0) })
		}, "c2 was granted key accounts/7, although c1 held it"},
		"lost by nobody knows whom, after a holder's call had one": {func(w *world) {
			w.granted(10, 20, "c1", 0, 0)
			w.renewed(22, 24, "c1", 0)
			w.granted(30, 40, "c2", 0, 0)
			w.by(Anybody, func() { w.lost(50, 60, "p5", contract.OpRelease, 0) })
		}, "c2 was granted key accounts/7, although c1 held it"},
		"a release of which nobody knows comes late": {func(w *world) {
			w.granted(10, 20, "c1", 0, 0)
			w.untold(22, 0, "c1", contract.OpRelease, 0)
			w.released(24, 26, "c1", 0)
			w.granted(30, 40, "c1", 0, 0)
			w.granted(50, 60, "c2", 0, 0)
		}, ""},
		"and only once": {func(w *world) {
			w.granted(10, 20, "c1", 0, 0)
			w.untold(22, 0, "c1", contract.OpRelease, 0)
			w.released(24, 26, "c1", 0)
			w.granted(30, 40, "c1", 0, 0)
			w.granted(50, 60, "c2", 0, 0)
			w.granted(70, 80, "c1", 0, 0)
		}, "c1 was granted key accounts/7, although c2 held it"},
		"one of two has lost it to a late release, and the first is granted it next": {func(w *world) {
			w.twoReleases()
			w.granted(70, 80, "x", 0, 0)
			w.granted(90, 100, "z", 0, 0)
		}, ""},
		"or the second": {func(w *world) {
			w.twoReleases()
			w.granted(70, 80, "y", 0, 0)
			w.granted(90, 100, "z", 0, 0)
		}, ""},
		"but not both": {func(w *world) {
			w.twoReleases()
			w.granted(70, 80, "x", 0, 0)
			w.granted(90, 100, "y", 0, 0)
			w.granted(110, 120, "z", 0, 0)
		}, "z was granted key accounts/7, although y held it"},
		"a lease that runs out as the next is granted": {func(w *world) {
			w.leased(0, 5, "ann", 1, 1000)
			w.granted(900, 1000, "bob", 2, 0)
		}, ""},
		"a renewal that may be of the next grant": {func(w *world) {
			w.leased(0, 5, "ann", 0, 1000)
			w.leased(900, 1500, "ann", 0, 1000)
			w.renewed(1100, 1110, "ann", 0)
		}, ""},
		"refused before anybody had asked": {func(w *world) {
			w.contended(10, 20, "p1")
			w.untold(30, 0, "p2", contract.OpAcquire, 0)
		}, "p1 was refused key accounts/7 as held by another, although nobody had been granted it"},
		"a session of which nobody knows how long it lasts": {func(w *world) {
			w.ask(1, 5, "ann", contract.OpOpenSession, 201, "")
			w.granted(10, 20, "ann", 0, 0)
			w.granted(30, 40, "bob", 0, 0)
		}, "bob was granted key accounts/7, although ann held it"},
		"and that is kept alive": {func(w *world) {
			w.ask(1, 5, "ann", contract.OpHeartbeat, 200, "")
			w.granted(10, 20, "ann", 0, 0)
			w.granted(30, 40, "bob", 0, 0)
		}, "bob was granted key accounts/7, although ann held it"},
		"and that is closed": {func(w *world) {
			w.ask(1, 5, "ann", contract.OpOpenSession, 201, "")
			w.granted(10, 20, "ann", 0, 0)
			w.ask(22, 0, "ann", contract.OpCloseSession, 204, "")
			w.granted(30, 40, "bob", 0, 0)
		}, ""},
		"a lease for ever": {func(w *world) {
			w.leased(10, 20, "ann", 1, 10_000_000_000_000)
			w.granted(30, 40, "bob", 2, 0)
		}, "bob was granted key accounts/7 with token 2, although ann held it with token 1"},
		"a lease for longer than that, and a session": {func(w *world) {
			w.ask(1, 5, "ann", contract.OpOpenSession, 201, fmt.Sprintf(`{"ttlMillis":%d}`, math.MaxInt64))
			w.leased(10, 20, "ann", 1, math.MaxInt64)
			w.granted(30, 40, "bob", 2, 0)
		}, "bob was granted key accounts/7 with token 2, although ann held it with token 1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.tell(w)
			f := judge(t, heard(w), Budget{Time: time.Minute})[key]
			if f.Sentence != c.want && (c.want == "" || !strings.HasPrefix(f.Sentence, c.want)) || f.Open != "" {
				t.Errorf("found %q, left open %q, want %q", f.Sentence, f.Open, c.want)
			}
		})
	}
}

// revoked is an operator's success.
func (w *world) revoked(from, to int64, res string) {
	w.call(from, to, "operator", history.Event{Op: contract.OpRevoke, Status: 200, Res: res})
}

// twoReleases has two releases without an answer, of which one at least ended a grant of one of two, and the other grant given
// back by nobody knows whom.
func (w *world) twoReleases() {
	w.untold(5, 0, "x", contract.OpRelease, 0)
	w.untold(6, 0, "y", contract.OpRelease, 0)
	w.granted(10, 40, "x", 0, 0)
	w.granted(12, 42, "y", 0, 0)
	w.by(Anybody, func() { w.released(50, 60, "p9", 0) })
}

// by gives the calls that tell makes to another session.
func (w *world) by(session string, tell func()) {
	from := len(w.events)
	tell()
	for i := range w.events[from:] {
		w.events[from+i].Session = session
	}
}

// A recorder's clock may be as coarse as it pleases, and even stand still: the order is that of the numbers.
func TestTheOrderIsThatOfTheHistoryWhateverItsClockSays(t *testing.T) {
	w := newWorld()
	w.granted(1, 2, "p0", 0, 0)
	w.granted(3, 4, "p1", 0, 0)
	w.released(5, 6, "p0", 0)
	w.released(7, 8, "p1", 0)
	events := heard(w)
	for i := range events {
		events[i].T = 0
	}
	if f := judge(t, events, Budget{Time: time.Minute})[key]; f.Sentence != "p1 was granted key accounts/7, although p0 held it" {
		t.Errorf("%+v", f)
	}
}

// Whether a holder may be granted what it has is for the lock to say, and so for its history.
func TestAHolderIsGrantedItsKeyAgainWhereTheLockIsReentrant(t *testing.T) {
	w := newWorld()
	w.granted(10, 20, "ann", 1, 0)
	w.granted(30, 40, "ann", 2, 0)
	w.released(50, 60, "ann", 2)
	w.granted(70, 80, "bob", 3, 0)
	if f := judgeLock(t, heard(w), Budget{Time: time.Minute}, true)[key]; f.Sentence != "" || f.Open != "" {
		t.Errorf("%+v", f)
	}
}

// One number for two calls, or none, would have one's answer taken for the other's.
func TestAnAnswerToAnotherCallIsRefused(t *testing.T) {
	story := func() *world {
		w := newWorld()
		w.granted(10, 40, "ann", 0, 0)
		w.released(20, 50, "bob", 0)
		return w
	}
	for want, change := range map[string]func([]history.Event){
		"forwards call 1, which event 1 has forwarded and nobody has answered":                        func(e []history.Event) { e[1].Call, e[3].Call = 1, 1 },
		`answers call 2, release of bob on key "accounts/7", with acquire of ann on key "accounts/7"`: func(e []history.Event) { e[2].Call, e[3].Call = 2, 1 },
		`answers call 1, acquire of ann on key "accounts/7", with acquire of ann on key "b"`:          func(e []history.Event) { e[2].Key = "b" },
		`its type is ok, fail or info, and not ""`:                                                    func(e []history.Event) { e[2].Type = "" },
	} {
		w := story()
		events := heard(w)
		change(events)
		s, err := newSpool()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.close() }()
		x := newExtract(s, true)
		for i := range events {
			if err = x.observe(&events[i]); err != nil {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// The lease that a call asks for which is never forwarded is forgotten, so that there is room for others.
func TestCallsThatNeverArriveTakeNobodysLeaseAway(t *testing.T) {
	s, err := newSpool()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	x := newExtract(s, true)
	for i := range int64(maxAsked + 10) {
		ask := history.Event{I: 2*i + 1, W: history.Wiretap, Op: contract.OpAcquire, Call: i + 1, Key: key, Type: contract.Invoke, Stage: history.Received, Req: `{"ttlMillis":5}`}
		answer := ask
		answer.I, answer.Stage, answer.Type, answer.Req = 2*i+2, history.Answered, contract.Fail, ""
		for _, e := range []history.Event{ask, answer} {
			if err := x.observe(&e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(x.asked) > 0 {
		t.Errorf("%d leases are remembered", len(x.asked))
	}
}

// A key's process is told of the sessions that asked for that key, however many there are besides.
func TestAKeyIsToldOfItsOwnSessions(t *testing.T) {
	w := newWorld()
	for _, who := range []string{"ann", "bob"} {
		w.ask(1, 5, who, contract.OpOpenSession, 201, `{"ttlMillis":50}`)
		w.on("key of "+who).granted(10, 20, who, 0, 0)
	}
	s, err := newSpool()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	x := newExtract(s, true)
	for _, e := range heard(w) {
		if err := x.observe(&e); err != nil {
			t.Fatal(err)
		}
	}
	f := x.frameOf("key of ann")
	if ann := f.Sessions["session-ann"]; len(f.Sessions) != 1 || ann.TTL != 50 || len(x.frame.Sessions) != 2 {
		t.Errorf("%v of %v", f.Sessions, x.frame.Sessions)
	}
}
