package linear

import (
	"fmt"
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

func TestWhatALockMayDo(t *testing.T) {
	for name, tell := range map[string]func(w *world){
		"the key goes from hand to hand": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.releases(30, 40, "ann", 1)
			w.acquires(50, 60, "bob", 2)
			w.releases(70, 80, "bob", 2)
		},
		"a waiter is granted what another gives back": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.granted(15, 60, "bob", 2, 50)
			w.releases(40, 48, "ann", 1)
			w.puts(50, "bob", 2)
		},
		"a waiter was refused because somebody held the key at some time": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.contended(5, 500, "bob")
			w.releases(30, 40, "ann", 1)
		},
		"the answers to a release and to the next acquire overtake each other": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.released(30, 90, "ann", 1)
			w.removes(35)
			w.acquires(40, 50, "bob", 2)
		},
		"the same session enters again, and its old token is stale": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.acquires(30, 40, "ann", 2)
			w.lost(50, 60, "ann", contract.OpRelease, 1)
			w.renews(70, 80, "ann", 2)
		},
		"a request that is repeated enters again for its session, and nobody holds that grant": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.repeats(func() { w.acquires(30, 40, "ann", 2) })
			w.lost(50, 60, "ann", contract.OpRelease, 1)
			w.contended(100, 110, "bob")
			w.acquires(1100, 1110, "bob", 3)
		},
		"a release that is repeated finds its grant gone and leaves the next one alone": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.releases(30, 40, "ann", 1)
			w.acquires(50, 60, "bob", 2)
			w.repeats(func() { w.lost(70, 80, "ann", contract.OpRelease, 1) })
			w.contended(90, 100, "ann")
			w.releases(110, 120, "bob", 2)
		},
		"a renewal that is repeated extends the lease once more": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.renews(100, 110, "ann", 1)
			w.repeats(func() { w.renews(900, 910, "ann", 1) })
			w.contended(1500, 1510, "bob")
			w.acquires(2000, 2010, "bob", 2)
		},
		"an answer to a copy is lost, and its grant is there": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.releases(30, 40, "ann", 1)
			w.repeats(func() { w.call(50, 0, "ann", history.Event{Op: contract.OpAcquire}) })
			w.puts(60, "ann", 2)
			w.contended(70, 80, "bob")
		},
		"a lease runs out and is taken over before its row is gone": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.contended(500, 510, "bob")
			w.acquires(1100, 1110, "bob", 2)
			w.lost(1120, 1130, "ann", contract.OpRenew, 1)
			w.lost(1140, 1150, "ann", contract.OpRelease, 1)
		},
		"a lease runs out and is removed": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.lost(1100, 1110, "ann", contract.OpRenew, 1)
			w.removes(1200)
			w.lost(1300, 1310, "ann", contract.OpRelease, 1)
		},
		"a lease that has run out is given back before it is removed": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.lost(1100, 1110, "ann", contract.OpRenew, 1)
			w.releases(1200, 1210, "ann", 1)
		},
		"a renewed lease lasts": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.renews(900, 910, "ann", 1)
			w.contended(1500, 1510, "bob")
			w.acquires(2000, 2010, "bob", 2)
		},
		"a session ends and takes its grant along": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.endsSession(100, "ann")
			w.acquires(110, 120, "bob", 2)
			w.refused(130, 140, "ann", contract.OpRenew, 1, 410, contract.SessionExpired)
		},
		"an operator revokes": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.revokes(100, 110, 1, 5)
			w.lost(120, 130, "ann", contract.OpRelease, 1)
			w.refused(140, 150, "operator", contract.OpRevoke, 0, 404, contract.NotFound)
			w.acquires(160, 170, "bob", 5)
		},
		"an operator expected another token": func(w *world) {
			w.acquires(10, 20, "ann", 3)
			w.call(30, 40, "operator", history.Event{Op: contract.OpRevoke, Status: 409, Code: contract.FencedOut, Highest: 3})
			w.renews(50, 60, "ann", 3)
		},
		"a grant that died while its request waited is taken back and refused": func(w *world) {
			w.contended(10, 1500, "ann")
			w.puts(20, "ann", 1)
			w.removes(1400)
		},
		"a grant whose client went away is taken back": func(w *world) {
			w.call(10, 0, "ann", history.Event{Op: contract.OpAcquire})
			w.puts(20, "ann", 1)
			w.removes(50)
			w.acquires(60, 70, "bob", 2)
		},
		"the backend did not answer, and did nothing": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.refused(30, 40, "ann", contract.OpRelease, 1, 503, contract.NotLeader)
			w.contended(50, 60, "bob")
		},
		"the backend did not answer, and did it later": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.refused(30, 40, "ann", contract.OpRelease, 1, 503, contract.NotLeader)
			w.contended(50, 60, "bob")
			w.removes(70)
			w.acquires(80, 90, "bob", 2)
		},
		"nobody heard of a revoke": func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.call(30, 0, "operator", history.Event{Op: contract.OpRevoke})
			w.removes(50, w.revocation(1, 9))
			w.acquires(60, 70, "bob", 9)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			tell(w)
			fine(t, w)
		})
	}
}

func TestWhatALockMustNotDo(t *testing.T) {
	for name, story := range map[string]struct {
		tell func(w *world)
		want string
	}{
		"two hold the key": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.acquires(30, 40, "bob", 2)
		}, "bob was granted key accounts/7 with token 2, although ann held it with token 1"},
		"a token goes back": {func(w *world) {
			w.acquires(10, 20, "ann", 42)
			w.releases(30, 40, "ann", 42)
			w.acquires(50, 60, "bob", 41)
		}, "bob was granted key accounts/7 with token 41 after token 42 had been granted"},
		"a token comes twice": {func(w *world) {
			w.acquires(10, 20, "ann", 42)
			w.releases(30, 40, "ann", 42)
			w.acquires(50, 60, "bob", 42)
		}, "bob was granted key accounts/7 with token 42 after token 42 had been granted"},
		"a token is below the floor of a revoke": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.revokes(30, 40, 1, 9)
			w.acquires(50, 60, "bob", 8)
		}, "bob was granted key accounts/7 with token 8, although a revoke had raised its floor to 9"},
		"a stale release frees the key of its next holder": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.acquires(1100, 1110, "bob", 2)
			w.lost(1120, 1130, "ann", contract.OpRelease, 1)
			w.removes(1125)
			w.acquires(1140, 1150, "cas", 3)
		}, "cas was granted key accounts/7 with token 3, although bob held it with token 2"},
		"a lapsed lease is renewed": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.renewed(1100, 1110, "ann", 1)
		}, "ann renewed key accounts/7 with token 1, although the lease of its latest grant, under token 1, had expired"},
		"a lease that was taken over is renewed": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.acquires(1100, 1110, "bob", 2)
			w.renewed(1120, 1130, "ann", 1)
		}, "ann renewed key accounts/7 with token 1, although bob held it with token 2"},
		"a token that was never held is released": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.released(30, 40, "bob", 7)
		}, "bob released key accounts/7 with token 7, although ann held it with token 1"},
		"a grant is released twice": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.releases(30, 40, "ann", 1)
			w.released(50, 60, "ann", 1)
		}, "ann released key accounts/7 with token 1, although its latest grant, under token 1, had been released"},
		"a holder is told that it lost the key": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.lost(30, 40, "ann", contract.OpRenew, 1)
			w.renews(50, 60, "ann", 1)
		}, "ann was answered that key accounts/7 is lost under token 1, although ann held it with token 1"},
		"a free key is refused": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.releases(30, 40, "ann", 1)
			w.contended(50, 60, "bob")
		}, "bob was refused key accounts/7 as held by another, although its latest grant, under token 1, had been released"},
		"a dead session still holds the key": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.endsSession(100, "ann")
			w.contended(1200, 1210, "bob")
		}, "bob was refused key accounts/7 as held by another, although its latest grant, under token 1, had ended with its session"},
		"a lease that has run out is still in the way": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.contended(1100, 1110, "bob")
		}, "bob was refused key accounts/7 as held by another, although the lease of its latest grant, under token 1, had expired"},
		"the holder's own session is refused": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.contended(30, 40, "ann")
		}, "ann was refused key accounts/7 as held by another, although ann held it with token 1"},
		"a lease is taken over before it has run out": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.renews(900, 910, "ann", 1)
			w.acquires(1100, 1110, "bob", 2)
		}, "bob was granted key accounts/7 with token 2, although ann held it with token 1"},
		"a holder is not there to be revoked": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.refused(30, 40, "operator", contract.OpRevoke, 0, 404, contract.NotFound)
		}, "a revoke was answered that nobody holds key accounts/7, although ann held it with token 1"},
		"a key is revoked that nobody holds": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.releases(30, 40, "ann", 1)
			w.call(50, 60, "operator", history.Event{Op: contract.OpRevoke, Status: 200, Res: `{"revokedToken":1,"newTokenFloor":2}`})
		}, "the grant of key accounts/7 under token 1 was revoked, although its latest grant, under token 1, had been released"},
		"a release without an answer had no effect, and yet the key is granted": {func(w *world) {
			w.acquires(10, 20, "ann", 1)
			w.refused(30, 40, "ann", contract.OpRelease, 1, 503, contract.NotLeader)
			w.granted(50, 60, "bob", 2, 55)
		}, "bob was granted key accounts/7 with token 2, although ann held it with token 1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			story.tell(w)
			f := find(t, w)
			if f.Sentence != story.want {
				t.Fatalf("got %q (open %q), want %q", f.Sentence, f.Open, story.want)
			}
			if len(f.Refs) < minRefs || len(f.Refs) > maxRefs {
				t.Errorf("%d events prove it", len(f.Refs))
			}
		})
	}
}

// Ten operations whose outcome nobody knows are more than a search can bear that has to try each of them both ways.
func TestAmbiguousOperationsAreSettledByTheLogAndNotByTheSearch(t *testing.T) {
	for _, n := range []int64{10, 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld()
			for i := range n {
				at := i * 50
				proc := fmt.Sprintf("client-%d", i%7)
				// All are under way until the end: nobody ever heard how they ended.
				w.call(5, 0, proc, history.Event{Op: contract.OpAcquire})
				w.call(6, 0, proc, history.Event{Op: contract.OpRelease, Token: i + 1})
				w.call(7, 0, "client-8", history.Event{Op: contract.OpRelease, Token: i + 2000})
				w.puts(at+10, proc, i+1)
				w.contended(at+12, at+18, "client-9")
				w.removes(at + 30)
			}
			f := fine(t, w)
			if f.Counts.Ambiguous != 3*n || f.Counts.Unheard != 2*n {
				t.Fatalf("%+v", f.Counts)
			}
		})
	}
}

func TestAnEpochBeginsWithWhatItsStoreHolds(t *testing.T) {
	w := newWorld()
	w.acquires(10, 20, "ann", 40)
	w.releases(30, 40, "ann", 40)
	w.rows[w.key] = nil
	w.puts(1000, "bob", 7) // restored: bob holds an older grant, and tokens go on from there
	w.contended(1010, 1020, "ann")
	w.releases(1030, 1040, "bob", 7)
	w.lost(1050, 1060, "ann", contract.OpRelease, 40)
	w.acquires(1070, 1080, "ann", 8)
	events := w.history()
	if f := judge(t, events, DefaultBudget)[key]; f.Sentence == "" {
		t.Fatal("in one epoch tokens must not go back")
	}
	for i := range events {
		if events[i].T >= 1000e6 {
			events[i].Epoch = 1
		}
	}
	if f := judge(t, events, DefaultBudget)[key]; f.Sentence != "" || f.Open != "" {
		t.Fatalf("%+v", f)
	}
}

// A store that was put back may hold nothing, and so no commit tells that its epoch has begun before the first call has had
// its effect. The witness's first watermark does.
func TestAnEpochBeginsWithTheFirstThingThatItsWitnessRecords(t *testing.T) {
	w := newWorld()
	w.acquires(10, 20, "ann", 40)
	w.releases(30, 40, "ann", 40)
	w.events = append(w.events, history.Event{W: history.LockDB, Type: contract.Info, Op: history.OpWatermark, T: 1000e6, Covers: 999e6})
	w.acquires(1010, 1030, "bob", 8)
	w.releases(1040, 1050, "bob", 8)
	events := w.history()
	for i := range events {
		if events[i].T >= 1000e6 && events[i].W == history.LockDB {
			events[i].Epoch = 1
		}
	}
	if f := judge(t, events, DefaultBudget)[key]; f.Sentence != "" || f.Open != "" || f.Counts.Unresolved != 0 {
		t.Fatalf("%+v", f)
	}
}

// A synchronous standby takes over. What its primary had committed and nobody was answered is in the primary's log alone, and
// what asked for it is answered by the standby, which holds the older state: each epoch is right by itself.
func TestWhatAPrimaryCommittedAndAStandbyUndidIsRightInBothEpochs(t *testing.T) {
	w := newWorld()
	w.acquires(10, 20, "ann", 40)
	w.refused(30, 1010, "ann", contract.OpRelease, 40, 503, contract.NotLeader) // and it was carried out
	w.removes(35)
	w.refused(40, 1020, "bob", contract.OpAcquire, 0, 503, contract.NotLeader) // so was this
	w.puts(45, "bob", 42)
	w.rows[w.key] = nil
	w.puts(1000, "ann", 40) // the snapshot
	w.releases(1030, 1040, "ann", 40)
	w.acquires(1050, 1060, "bob", 43)
	events := w.history()
	for i := range events {
		if events[i].T >= 1000e6 && events[i].W == history.LockDB {
			events[i].Epoch = 1
		}
	}
	if f := judge(t, events, DefaultBudget)[key]; f.Sentence != "" || f.Open != "" || f.Counts.Unresolved != 2 {
		t.Fatalf("%+v", f)
	}
}

// The other way round: a release that was sent to the primary is carried out by the standby.
func TestARequestThatIsCarriedOutInTheNextEpochExplainsWhatIsThere(t *testing.T) {
	w := newWorld()
	w.acquires(10, 20, "ann", 40)
	w.released(30, 1020, "ann", 40)
	w.rows[w.key] = nil
	w.puts(1000, "ann", 40)
	w.removes(1010)
	w.acquires(1030, 1040, "bob", 41)
	events := w.history()
	for i := range events {
		if events[i].T >= 1000e6 && events[i].W == history.LockDB {
			events[i].Epoch = 1
		}
	}
	if f := judge(t, events, DefaultBudget)[key]; f.Sentence != "" || f.Open != "" {
		t.Fatalf("%+v", f)
	}
}

func TestAKeyIsLeftOutWhenTheStoresClockWasPutBackOverItsGrant(t *testing.T) {
	w := newWorld()
	w.acquires(10, 20, "ann", 1)
	w.on("accounts/8").acquires(2000, 2010, "ann", 2)
	w.call(700, 710, "clock", history.Event{Op: contract.OpHeartbeat, Status: 200, Res: `{"serverTime":"2026-01-02T03:00:00.300Z"}`})
	found := judge(t, w.history(), DefaultBudget)
	if !found[key].Twice || found["accounts/8"].Twice {
		t.Fatalf("%+v", found)
	}
}

func TestAPageShowsNoMarkupOfTheEvidence(t *testing.T) {
	if got := harmless(`<img src=x onerror="1">`); strings.ContainsAny(got, `<>"=`) {
		t.Fatal(got)
	}
}
