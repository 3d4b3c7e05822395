package invariant

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// renewed lets the account's holder renew its grant, as it was when it began, and be answered at once; etcd's log says
// nothing about that.
func (w *world) renewed(account string, g *worldGrant) {
	r := w.askRenewal(account, g)
	r.answer = answer{status: 200, res: fmt.Sprintf(`{"expiresAt":%q}`, wireTime(w.clock+worldLease))}
	w.reply(r)
	g.expires = w.clock + worldLease
}

func (w *world) askRenewal(account string, g *worldGrant) *request {
	return w.send(history.Event{Op: contract.OpRenew, Proc: contract.Process(g.owner), Key: keyPrefix + account, Session: g.session, Token: g.token})
}

// heartbeat lets the session of proc beat and be answered at once; the log says nothing about that either.
func (w *world) heartbeat(proc string) {
	r := w.send(history.Event{Op: contract.OpHeartbeat, Proc: contract.Process(proc), Session: "session-" + proc})
	r.answer = answer{status: 200, res: fmt.Sprintf(`{"expiresAt":%q}`, wireTime(w.clock+worldSession))}
	w.reply(r)
}

func (w *world) pass(d time.Duration) { w.clock += int64(d) }

func TestLeasesOnEtcd(t *testing.T) {
	tellOf(t, bankOnEtcd, []wrong{
		{"a key is granted while another session holds it", func(w *world) {
			w.take("executor-1", "alice")
			w.take("executor-2", "alice")
		}, "INV-06", map[string]string{"INV-06": "executor-2 was granted key payout:alice with token 46, while executor-1 held it with token 44"}},
		{"a grant that ran out is renewed", func(w *world) {
			w.acquire("executor-1", "alice")
			g := w.grants["alice"]
			w.clock = g.expires
			w.free("alice")
			w.renewed("alice", g)
		}, "INV-06", map[string]string{"INV-06": "executor-1 renewed key payout:alice with token 44 0s after the grant had ended"}},
		{"a grant is renewed that somebody else has taken over", func(w *world) {
			w.acquire("executor-1", "alice")
			g := w.grants["alice"]
			w.acquire("executor-2", "alice")
			w.renewed("alice", g)
		}, "INV-06", nil},
		{"a grant is renewed that its holder has released", func(w *world) {
			w.acquire("executor-1", "alice")
			g := w.grants["alice"]
			w.release("alice")
			w.renewed("alice", g)
		}, "INV-06", nil},
		{"a grant is renewed whose session has ended", func(w *world) {
			w.acquire("executor-1", "alice")
			g := w.grants["alice"]
			w.endSession("executor-1", "alice")
			w.renewed("alice", g)
		}, "INV-06", nil},
		{"a grant is renewed that its session has replaced", func(w *world) {
			w.take("executor-1", "alice")
			g := w.grants["alice"]
			w.take("executor-1", "alice")
			w.renewed("alice", g)
		}, "INV-06", nil},
		{"a grant ends early", func(w *world) {
			w.acquire("executor-1", "alice")
			w.pass(900 * time.Millisecond)
			w.free("alice")
		}, "INV-06", map[string]string{"INV-06": "executor-1's grant of key payout:alice with token 44 ended 900ms after a request that gave it 1s at least"}},
		{"a grant ends although it was renewed", func(w *world) {
			w.acquire("executor-1", "alice")
			w.pass(500 * time.Millisecond)
			w.renewed("alice", w.grants["alice"])
			w.pass(700 * time.Millisecond)
			w.free("alice")
		}, "INV-06", map[string]string{"INV-06": "ended 700ms after a request that gave it 1s at least"}},
		{"a grant ends although a renewal of it succeeds, whose answer comes later", func(w *world) {
			w.acquire("executor-1", "alice")
			w.pass(500 * time.Millisecond)
			r := w.askRenewal("alice", w.grants["alice"])
			w.pass(600 * time.Millisecond)
			w.free("alice")
			w.heartbeat("executor-2")
			r.answer = answer{status: 200, res: "{}"}
			w.reply(r)
		}, "INV-06", map[string]string{"INV-06": "ended 600ms after a request that gave it 1s at least"}},
		{"a stale release frees the next holder's key", func(w *world) {
			stale := w.acquire("executor-1", "alice")
			w.clock = w.grants["alice"].expires
			w.free("alice")
			w.acquire("executor-2", "alice")
			r := w.send(history.Event{Op: contract.OpRelease, Proc: "executor-1", Key: "payout:alice", Token: stale})
			w.free("alice")
			r.answer = answer{status: 409, code: contract.LockLost}
			w.reply(r)
		}, "INV-06", map[string]string{"INV-06": "executor-2's grant of key payout:alice with token 46 ended"}},
		{"a grant is released after it ended early", func(w *world) {
			w.acquire("executor-1", "alice")
			g := w.grants["alice"]
			w.free("alice")
			r := w.send(history.Event{Op: contract.OpRelease, Proc: "executor-1", Key: "payout:alice", Token: g.token})
			r.answer = answer{status: 409, code: contract.LockLost}
			w.reply(r)
		}, "INV-06", nil},
		{"a grant is answered that had been taken back", func(w *world) {
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice"})
			w.grant(0, "executor-1", "alice", 60)
			w.free("alice")
			w.pay("executor-2", "q2")
			w.answerAcquire(r, 60)
		}, "INV-06", nil},
		{"a grant is taken back by a revoke that is not audited", func(w *world) {
			w.acquire("executor-1", "alice")
			w.free("alice")
			w.answered(history.Event{Op: contract.OpRevoke, Proc: "operator", Key: "payout:alice"}, answer{status: 409, code: contract.FencedOut})
		}, "INV-06", nil},
		{"a renewal puts the key anew", func(w *world) {
			w.take("executor-1", "alice") // and is answered, and over
			w.release("alice")
			w.take("executor-1", "alice")
			g := *w.grants["alice"]
			r := w.askRenewal("alice", &g)
			w.grant(0, "executor-1", "alice", 60)
			r.answer = answer{status: 409, code: contract.LockLost}
			w.reply(r)
		}, "INV-06", map[string]string{"INV-06": "executor-1's grant of key payout:alice with token 46 ended in a new grant to its own session, which nobody had asked for"}},
		{"a grant outlives its session", func(w *world) {
			w.acquire("executor-1", "alice")
			w.acquire("executor-1", "bob")
			w.endSession("executor-1", "bob")
		}, "INV-06", map[string]string{"INV-06": "session session-executor-1 ended, but its grant of key payout:alice with token 44 did not end in the same commit"}},
		{"a session that had ended is granted a key", func(w *world) {
			w.endSession("executor-1")
			w.acquire("executor-1", "alice")
		}, "INV-06", map[string]string{"INV-06": "executor-1 was granted key payout:alice with token 44 in session session-executor-1, which had ended"}},
		{"a session that nobody opened is granted a key", func(w *world) {
			w.sessions["session-executor-4 0"] = true
			w.acquire("executor-4", "alice")
		}, "INV-06", map[string]string{"INV-06": "in session session-executor-4, which was never opened"}},
		{"a session beats after it has ended", func(w *world) {
			w.endSession("executor-1")
			w.heartbeat("executor-1")
		}, "INV-06", map[string]string{"INV-06": "executor-1's session session-executor-1 beat"}},
	})
}

func TestAGrantOnEtcdEndsForMoreThanOneGoodReason(t *testing.T) {
	for name, story := range map[string]func(w *world){
		"its holder releases it": func(w *world) {
			w.acquire("executor-1", "alice")
			w.release("alice")
		},
		"its holder releases it and hears nothing": func(w *world) {
			token := w.acquire("executor-1", "alice")
			r := w.send(history.Event{Op: contract.OpRelease, Proc: "executor-1", Key: "payout:alice", Token: token})
			w.free("alice")
			w.loseAnswer(r)
		},
		"its session ends": func(w *world) {
			w.acquire("executor-1", "alice")
			w.endSession("executor-1", "alice")
		},
		"it is revoked": func(w *world) {
			token := w.acquire("executor-1", "alice")
			g := w.grants["alice"]
			delete(w.grants, "alice")
			w.commitLock(0, history.Change{Table: "lock_entry", Kind: history.Delete, Old: w.grantRow("alice", g)},
				history.Change{Table: "lock_revocation", Kind: history.Insert, New: row{"lock_key": "payout:alice", "prev_token": itoa(token)}})
		},
		"its lease runs out": func(w *world) {
			w.acquire("executor-1", "alice")
			w.clock = w.grants["alice"].expires
			w.free("alice")
		},
		"its lease runs out long after the last renewal that nobody heard of": func(w *world) {
			w.acquire("executor-1", "alice")
			w.pass(900 * time.Millisecond)
			r := w.askRenewal("alice", w.grants["alice"])
			w.loseAnswer(r) // it may have come too late
			w.pass(200 * time.Millisecond)
			w.free("alice")
		},
		"its lease runs out while its renewal is under way": func(w *world) {
			w.acquire("executor-1", "alice")
			w.pass(900 * time.Millisecond)
			g := w.grants["alice"]
			r := w.askRenewal("alice", g)
			w.pass(200 * time.Millisecond)
			w.free("alice")
			r.answer = answer{status: 409, code: contract.LockLost}
			w.reply(r)
		},
		"it is renewed, and its end is recorded before the answer": func(w *world) {
			w.acquire("executor-1", "alice")
			w.pass(time.Second / 2)
			r := w.askRenewal("alice", w.grants["alice"])
			w.pass(time.Duration(worldLease) + time.Second/10)
			w.free("alice") // the answer had been given, and hung in the relay
			r.answer = answer{status: 200, res: "{}"}
			w.reply(r)
		},
		"nobody was told of it": func(w *world) {
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice"})
			w.grant(0, "executor-1", "alice", 60)
			w.free("alice")
			w.loseAnswer(r)
		},
		"whoever was granted it was told late": func(w *world) {
			r := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice"})
			w.grant(0, "executor-1", "alice", 60)
			w.pass(time.Duration(worldLease))
			w.free("alice")
			w.heartbeat("executor-2")
			w.answerAcquire(r, 60)
		},
		"its own session enters again": func(w *world) {
			w.take("executor-1", "alice")
			w.take("executor-1", "alice")
		},
		"an earlier acquire of its session, whose client had given up, is carried out late": func(w *world) {
			late := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1"})
			w.loseAnswer(late)
			w.take("executor-1", "alice")
			w.grant(0, "executor-1", "alice", 60)
		},
		"another acquire of its session is under way": func(w *world) {
			first := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1"})
			second := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1"})
			w.grant(0, "executor-1", "alice", 60)
			w.answerAcquire(first, 60)
			w.grant(0, "executor-1", "alice", 62)
			w.answerAcquire(second, 62)
		},
		"more acquires of the key were sent than are remembered": func(w *world) {
			w.take("executor-1", "alice")
			for range maxAsks {
				w.answered(history.Event{Op: contract.OpAcquire, Proc: "executor-2", Key: "payout:alice", Session: "session-executor-2"}, answer{status: 409, code: contract.LockContended})
			}
			w.grant(0, "executor-1", "alice", 60)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := bankOnEtcd()
			story(w)
			w.watermarks()
			sound(t, "INV-06", w.events, 0)
		})
	}
}

func TestAHealthyHistoryOnEtcdPassesWithItsDangerCounted(t *testing.T) {
	got := judged(healthyOn(bankOnEtcd()).events, nil)
	for _, id := range append([]string{"INV-01", "INV-02", "INV-03", "INV-04", "INV-05"}, restIDs...) {
		if inv := got[id]; inv.Status != verdict.Pass || inv.Checked == 0 || inv.Unresolved != 0 {
			t.Errorf("%s is %s (%s), checked %d, unresolved %d; want a pass with nothing left open", id, inv.Status, inv.Reason, inv.Checked, inv.Unresolved)
		}
	}
	if d := got["INV-06"].Danger; d["lapsed"] == 0 || d["takeovers"] == 0 || d["grants"] == 0 {
		t.Errorf("INV-06 met %v", d)
	}
}

// A revision that the witness missed shows: what changes then is not what was last seen.
func TestARevisionThatTheLogLacksIsAGapAndNoViolation(t *testing.T) {
	w := healthyOn(bankOnEtcd())
	missed := 0
	for n, e := range w.events {
		if e.W != history.LockDB || e.Op != history.OpCommit || e.Changes[0].Table != "lock_entry" || e.Changes[0].Kind != history.Delete {
			continue
		}
		rest := append(append([]history.Event{}, w.events[:n]...), w.events[n+1:]...)
		got := judged(rest, nil)["INV-06"]
		if got.Found > 0 {
			t.Errorf("without event %d: %s", n, got.Reason)
		}
		if got.Status == verdict.Inconclusive {
			missed++
		}
	}
	if missed < 3 {
		t.Errorf("only %d missing revisions were missed", missed)
	}
}

func TestNoScheduleOnEtcdRaisesAnAlarmInWhateverOrderItsWitnessesAreHeard(t *testing.T) {
	met := map[string]int64{}
	for seed := range uint64(seeds / 2) {
		s := onEtcdSchedule(seed)
		s.run(400, true)
		want := judged(s.events, nil)
		for id, inv := range want {
			if inv.Found != 0 {
				t.Fatalf("seed %d: %s: %s", seed, id, inv.Reason)
			}
			for counter, n := range inv.Danger {
				met[counter] += n
			}
		}
		if got := judged(interleave(rand.New(rand.NewPCG(seed, 2)), s.events), nil); gist(got) != gist(want) {
			t.Fatalf("seed %d: in the order in which things happened:\n%sotherwise:\n%s", seed, gist(want), gist(got))
		}
	}
	for _, what := range []string{"grants", "lapsed", "takeovers", "regrants", "superseded"} {
		if met[what] == 0 {
			t.Errorf("no schedule met %s", what)
		}
	}
}

func onEtcdSchedule(seed uint64) *schedule {
	s := newSchedule(seed)
	s.etcd = true
	return s
}

// Grants that are renewed, released, lapse and end with their sessions, rightly or wrongly, are judged alike whichever
// witness is heard first.
func TestWhatIsFoundOfLeasesOnEtcdDoesNotDependOnTheOrderOfArrival(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := bankOnEtcd()
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		var open []*request
		var old []*worldGrant
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			w.pass(time.Duration(rng.IntN(500)) * time.Millisecond)
			g := w.grants["alice"]
			switch n := rng.IntN(10); {
			case g == nil:
				w.acquire(one(rng, []string{"executor-1", "executor-2"}), "alice")
				old = append(old, w.grants["alice"])
			case n == 0:
				w.take(one(rng, []string{"executor-1", "executor-2"}), "alice")
				old = append(old, w.grants["alice"])
			case n == 1:
				w.release("alice")
			case n == 2:
				w.free("alice")
			case n == 3: // too late, mostly
				of := one(rng, old)
				w.answered(history.Event{Op: contract.OpRelease, Proc: contract.Process(of.owner), Key: "payout:alice", Token: of.token}, answer{status: 409, code: contract.LockLost})
			case n < 7:
				open = append(open, w.askRenewal("alice", one(rng, old)))
			case len(open) > 0:
				r := open[0]
				open = open[1:]
				r.answer = one(rng, []answer{{status: 200, res: "{}"}, {status: 409, code: contract.LockLost}, {}})
				w.reply(r)
			}
		}
		for _, r := range open {
			w.loseAnswer(r)
		}
		w.watermarks()
		of := func(events []history.Event) string {
			v := judged(events, nil)["INV-06"]
			return fmt.Sprint(v.Found, v.Unresolved, v.Danger["lapsed"], v.Danger["takeovers"])
		}
		if want, got := of(w.events), of(interleave(rng, w.events)); got != want {
			t.Fatalf("in the order in which things happened %s, otherwise %s", want, got)
		}
	})
}
