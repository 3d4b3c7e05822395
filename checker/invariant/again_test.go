package invariant

import (
	"testing"

	"fenceproof/checker/contract"
)

// again sends r once more, as the wiretap does on purpose: its client knows nothing of it.
func (w *world) again(r *request) *request {
	e := r.Event
	e.DupOf, e.Granted = r.Call, 0
	copied := w.send(e)
	copied.reports = r.reports
	return copied
}

// until brings p2 up to op under a new grant of executor-1, and gives the request of op, answered.
func until(w *world, op contract.Op) *request {
	token := w.acquire("executor-1", "alice")
	for _, step := range []contract.Op{contract.OpClaim, contract.OpSubmitted, contract.OpSubmit, contract.OpOutcome, contract.OpPost} {
		r := w.ask("executor-1", step, "p2", token)
		w.complete(r)
		if step == op {
			return r
		}
	}
	panic("no such step")
}

var paymentWrites = []contract.Op{contract.OpClaim, contract.OpSubmitted, contract.OpOutcome, contract.OpPost}

func TestARequestThatComesTwiceHasItsEffectOnce(t *testing.T) {
	for _, op := range paymentWrites {
		t.Run(string(op), func(t *testing.T) {
			w := bank()
			w.complete(w.again(until(w, op)))
			w.watermarks()
			sound(t, "INV-05", w.events, 0)
			got := judged(w.events, nil)
			if d := got["DUR-01"].Danger["replays"]; d != 1 {
				t.Errorf("%d replays, want 1", d)
			}
			if d := got["INV-05"].Danger; d["sent_stale_payment"] != 0 || d["stale_refused_payment"] != 0 {
				t.Errorf("a replay counts as a stale write: %v", d)
			}
		})
	}
}

func TestARequestThatComesAgainBehindItsSuccessorIsAReplayAndNoStaleWrite(t *testing.T) {
	for _, op := range paymentWrites {
		t.Run(string(op), func(t *testing.T) {
			w := bank()
			r := until(w, op)
			t2 := w.acquire("executor-2", "alice")
			w.do("executor-2", contract.OpClaim, map[bool]string{true: "p3", false: "p2"}[op == contract.OpPost], t2)
			if a := w.complete(w.again(r)); a.status != 200 {
				t.Fatalf("it was answered %d", a.status)
			}
			w.watermarks()
			sound(t, "INV-01", w.events, 0)
		})
	}
}

// The copy of a submission finds its own token at the mark, and that is no danger met.
func TestASubmissionThatComesTwiceIsRefusedByItsOwnMark(t *testing.T) {
	w := bank()
	r := until(w, contract.OpSubmit)
	if a := w.complete(w.again(r)); a.code != contract.FencedOut || a.highest != r.Token {
		t.Fatalf("it was answered %d %s, highest %d", a.status, a.code, a.highest)
	}
	w.watermarks()
	sound(t, "INV-02", w.events, 0)
	if d := judged(w.events, nil)["INV-05"].Danger; d["stale_refused_rail"] != 0 || d["sent_stale_rail"] != 0 {
		t.Errorf("its own token counts as a higher one: %v", d)
	}
	t2 := w.acquire("executor-2", "alice")
	w.do("executor-2", contract.OpClaim, "p2", t2)
	w.do("executor-2", contract.OpSubmit, "p2", t2)
	w.complete(w.again(r)) // late: now it is a stale write, whoever sent it
	w.watermarks()
	sound(t, "INV-02", w.events, 0)
	if d := judged(w.events, nil)["INV-05"].Danger; d["stale_refused_rail"] != 1 {
		t.Errorf("a copy behind a higher token is as stale as any write: %v", d)
	}
}

func TestNoCopyOfARequestHasAnEffectOfItsOwn(t *testing.T) {
	tell(t, []wrong{
		{"its replay is answered with another body", func(w *world) {
			r := w.again(until(w, contract.OpClaim))
			r.answer = answer{status: 200, res: `{"attemptCount":2}`}
			w.reply(r)
		}, "DUR-01", map[string]string{"DUR-01": "and its replay 200 with another body"}},
		{"its replay is refused as stale", func(w *world) {
			r := until(w, contract.OpOutcome)
			t2 := w.acquire("executor-2", "alice")
			w.do("executor-2", contract.OpClaim, "p2", t2)
			late := w.again(r)
			late.answer = w.fenced(late, w.accounts["alice"].fence, "account")
			w.reply(late)
		}, "DUR-01", map[string]string{"DUR-01": "executor-1's outcome of payout p2 with token 44 was answered 200, and the same request once more 409 FENCED_OUT"}},
		{"a refused claim takes effect the second time", func(w *world) {
			t1 := stall(w, contract.OpClaim)
			r := w.ask("executor-1", contract.OpClaim, "p3", t1)
			w.complete(r) // FENCED_OUT
			late := w.again(r)
			w.paymentOff = true
			w.complete(late)
		}, "INV-01 INV-05", map[string]string{"INV-01": "wrote to account alice with token 44 (claim) after 46 had written"}},
		{"a submission moves money the second time", func(w *world) {
			r := until(w, contract.OpSubmit)
			w.railOff = true
			w.complete(w.again(r))
		}, "INV-02", map[string]string{"INV-02": "p2"}},
	})
}

// Only the very same request has an answer that is given again, and only one that came after it.
func TestARefusalBreaksNothingWhereItIsNoReplay(t *testing.T) {
	for name, story := range map[string]func(w *world){
		"another body under the same token": func(w *world) {
			r := until(w, contract.OpOutcome)
			r.Req = `{"outcome":"TIMEOUT"}`
			other := w.again(r)
			other.answer = answer{status: 422, code: contract.IdempotencyConflict}
			w.reply(other)
		},
		"both were under way at once": func(w *world) {
			token := w.acquire("executor-1", "alice")
			first, second := w.ask("executor-1", contract.OpClaim, "p2", token), w.ask("executor-1", contract.OpClaim, "p2", token)
			w.complete(first)
			second.answer = answer{status: 409, code: contract.PayoutNotClaimable}
			w.reply(second)
		},
		"a request that was refused the first time": func(w *world) {
			t1 := stall(w, contract.OpSubmitted)
			r := w.ask("executor-1", contract.OpSubmitted, "p2", t1)
			w.complete(r)
			w.complete(w.again(r))
		},
		"a store that does not answer": func(w *world) {
			r := w.again(until(w, contract.OpClaim))
			r.answer = answer{status: 503, code: contract.StoreUnavailable}
			w.reply(r)
		},
		"a post that finds the work of another token": func(w *world) {
			until(w, contract.OpPost)
			token := w.acquire("executor-2", "alice")
			late := w.ask("executor-2", contract.OpPost, "p2", token)
			w.complete(late) // 200 with the entries of another token: nothing is stored
			w.do("executor-3", contract.OpClaim, "p3", w.acquire("executor-3", "alice"))
			w.complete(w.again(late))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := bank()
			story(w)
			w.watermarks()
			if got := judged(w.events, nil)["DUR-01"]; got.Found != 0 {
				t.Error(got.Reason)
			}
		})
	}
}

func TestNobodyHoldsWhatACopyWasGranted(t *testing.T) {
	begin := map[string]func() *world{"pg": bank, "etcd": bankOnEtcd}
	for backend, begin := range begin {
		t.Run(backend, func(t *testing.T) {
			w := begin()
			token := w.acquire("executor-1", "alice")
			asked := w.events[len(w.events)-1]
			copied := w.again(&request{Event: asked})
			copied.Status, copied.Type = 0, contract.Invoke
			w.grant(0, "executor-1", "alice", w.nextToken)
			w.answerAcquire(copied, w.nextToken)
			w.nextToken += 2
			w.do("executor-1", contract.OpClaim, "p2", token) // its own grant is over, and nothing has shut it out yet
			lost := w.ask("executor-1", contract.OpRelease, "", token)
			lost.Key, lost.answer = asked.Key, answer{status: 409, code: contract.LockLost}
			w.reply(lost)
			t2 := w.acquire("executor-2", "alice") // once the copy's lease has run out
			w.do("executor-2", contract.OpClaim, "p2", t2)
			w.watermarks()
			sound(t, "INV-06", w.events, 0)
		})
	}
}
