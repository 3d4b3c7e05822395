package invariant

import (
	"fmt"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// answered sends a request to proc's server and lets it be answered, whatever is committed.
func (w *world) answered(e history.Event, a answer) {
	r := w.send(e)
	r.answer = a
	w.reply(r)
}

func TestDurable(t *testing.T) {
	key := history.Event{Op: contract.OpRelease, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1", Token: 44}
	of := func(op contract.Op) history.Event { e := key; e.Op = op; return e }
	tell(t, []wrong{
		{"a grant is answered and not in the log", func(w *world) {
			r := w.send(of(contract.OpAcquire))
			w.answerAcquire(r, 44)
		}, "INV-04 DUR-01", map[string]string{"DUR-01": "executor-1 was answered 200 to its acquire of key payout:alice with token 44, but the effect was not in the lockdb log by then"}},
		{"a release is answered and not in the log", func(w *world) {
			w.acquire("executor-1", "alice")
			w.answered(of(contract.OpRelease), answer{status: 204})
		}, "DUR-01", nil},
		{"a session is answered and not in the log", func(w *world) {
			w.answered(history.Event{Op: contract.OpOpenSession, Proc: "executor-1", Session: "another"}, answer{status: 201})
		}, "DUR-01", map[string]string{"DUR-01": "its open_session of session another"}},
		{"the end of a session is answered and not in the log", func(w *world) {
			w.answered(of(contract.OpCloseSession), answer{status: 204})
		}, "DUR-01", nil},
		{"a revoke is answered and not in the log", func(w *world) {
			w.acquire("executor-1", "alice")
			w.answered(of(contract.OpRevoke), answer{status: 200, res: `{"revokedToken":44,"newTokenFloor":45}`})
		}, "DUR-01", nil},
		{"a claim is answered and not in the log", func(w *world) {
			t1 := w.acquire("executor-1", "alice")
			r := w.ask("executor-1", contract.OpClaim, "p2", t1)
			r.answer = answer{status: 200, res: "{}"}
			w.reply(r)
		}, "DUR-01", map[string]string{"DUR-01": "executor-1 was answered 200 to its claim of payout p2 with token 44, but the effect was not in the paydb log by then"}},
		{"a claim is committed after it was answered", func(w *world) {
			t1 := w.acquire("executor-1", "alice")
			r := w.ask("executor-1", contract.OpClaim, "p2", t1)
			early := *r
			early.answer = answer{status: 200, res: "{}"}
			w.reply(&early)
			w.watermarks()
			w.execute(r)
		}, "DUR-01", map[string]string{"DUR-01": "but the effect was not in the paydb log by then"}},
		{"an acknowledgement is answered before it is on record", func(w *world) {
			t1 := w.acquire("executor-1", "alice")
			w.do("executor-1", contract.OpClaim, "p2", t1)
			w.do("executor-1", contract.OpSubmitted, "p2", t1)
			r := w.ask("executor-1", contract.OpSubmit, "p2", t1)
			w.submitIntent(r)
			r.answer = answer{status: 200, outcome: contract.OutcomeAcked}
			w.reply(r)
		}, "DUR-01", map[string]string{"DUR-01": "its submit of payout p2 with token 44"}},
		{"a duplicate raises no mark", func(w *world) {
			r := w.ask("executor-1", contract.OpSubmit, "p1", w.acquire("executor-1", "alice"))
			r.answer = answer{status: 409, code: contract.DuplicateSubmission}
			w.reply(r)
		}, "DUR-01", nil},
		{"a refusal of the rail is not on record", func(w *world) {
			r := w.ask("executor-1", contract.OpSubmit, "p1", 12)
			r.answer = w.fenced(r, 40, "rail")
			w.reply(r)
		}, "DUR-01", nil},
		{"the rail answers for money that it did not move", func(w *world) {
			w.answered(history.Event{Op: contract.OpTransfer, Proc: contract.RailProxy, Payout: "p2"}, answer{status: 200, res: `{"railReference":"rail-99"}`})
			w.record(history.Event{W: history.Journal, Op: history.OpWatermark, Covers: w.clock})
		}, "DUR-01", map[string]string{"DUR-01": "rail-proxy was answered 200 to its transfer"}},
		{"a replay is answered otherwise", func(w *world) {
			t1 := w.acquire("executor-1", "alice")
			w.do("executor-1", contract.OpClaim, "p2", t1)
			r := w.ask("executor-1", contract.OpClaim, "p2", t1)
			r.answer = answer{status: 200, res: `{"state":"RAIL_SUBMITTED"}`}
			w.reply(r)
		}, "DUR-01", map[string]string{"DUR-01": "executor-1's claim of payout p2 with token 44 was answered 200, and its replay 200 with another body"}},
	})
}

// etcd keeps a lease alive without a change in its log, so there nobody can say that it was not kept alive.
func TestDurableExtensions(t *testing.T) {
	expires := func(at int64) string { return fmt.Sprintf(`{"expiresAt":%q}`, wireTime(at)) }
	of := func(op contract.Op) history.Event {
		return history.Event{Op: op, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1", Token: 44}
	}
	stories := []wrong{
		{"a renewal is answered and not in the log", func(w *world) {
			w.acquire("executor-1", "alice")
			w.answered(of(contract.OpRenew), answer{status: 200, res: expires(w.clock + worldLease)})
		}, "DUR-01", map[string]string{"DUR-01": "its renew of key payout:alice with token 44"}},
		{"a renewal is answered with a later expiry than that in the log", func(w *world) {
			w.acquire("executor-1", "alice")
			w.renew("alice")
			w.answered(of(contract.OpRenew), answer{status: 200, res: expires(w.grants["alice"].expires + worldLease)})
		}, "DUR-01", nil},
		{"a heartbeat is answered and not in the log", func(w *world) {
			w.acquire("executor-1", "alice")
			w.answered(of(contract.OpHeartbeat), answer{status: 200, res: expires(w.clock + worldSession)})
		}, "DUR-01", nil},
	}
	tellOf(t, bank, stories)
	for _, c := range stories {
		t.Run("on etcd "+c.name, func(t *testing.T) {
			w := bankOnEtcd()
			c.story(w)
			w.watermarks()
			sound(t, "DUR-01", w.events, 0)
		})
	}
}

func wireTime(at int64) string {
	s := stamp(at)
	return s[:10] + "T" + s[11:len(s)-3] + "Z"
}

// The commit was recorded behind a watermark that covers the answer: it came after the answer, whichever arrives first.
func TestAnEffectBehindTheWatermarkOfItsAnswerCameTooLate(t *testing.T) {
	w := bank()
	t1 := w.acquire("executor-1", "alice")
	r := w.ask("executor-1", contract.OpClaim, "p2", t1)
	early := *r
	early.answer = answer{status: 200, res: "{}"}
	n := len(w.events)
	w.reply(&early)
	answer := append([]history.Event{}, w.events[n:]...)
	w.events = w.events[:n]
	w.watermarks()
	w.execute(r)
	events := append(append([]history.Event{}, w.events...), answer...)
	got := judged(events, nil)
	if v := fallen(got); v != "DUR-01" {
		t.Fatalf("violated: %q, want DUR-01", v)
	}
	proven(t, wrong{falls: "DUR-01", words: map[string]string{"DUR-01": "executor-1 was answered 200 to its claim before the effect was committed"}}, got)
}

func TestWhatWasAnsweredAndIsInTheLogIsDurable(t *testing.T) {
	w := bank()
	t1 := w.acquire("executor-1", "alice")
	e := history.Event{Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1", Token: t1}
	renew := e
	renew.Op = contract.OpRenew
	r := w.send(renew)
	w.renew("alice")
	r.answer = answer{status: 200, res: fmt.Sprintf(`{"expiresAt":%q}`, wireTime(w.grants["alice"].expires))}
	w.reply(r)
	beat := e
	beat.Op = contract.OpHeartbeat
	r = w.send(beat)
	end := w.beat("executor-1", w.clock+worldSession)
	r.answer = answer{status: 200, res: fmt.Sprintf(`{"expiresAt":%q}`, wireTime(end))}
	w.reply(r)
	w.order("p9", "bob", 10)
	move := w.send(history.Event{Op: contract.OpTransfer, Proc: contract.RailProxy, Payout: "p9"})
	w.move("p9", 10)
	move.answer = answer{status: 200, res: fmt.Sprintf(`{"railReference":"rail-%d"}`, w.money)}
	w.reply(move)
	w.do("executor-1", contract.OpSubmit, "p1", t1) // a duplicate
	w.do("executor-1", contract.OpSubmit, "p1", 12) // refused
	w.do("executor-1", contract.OpClaim, "p2", t1)
	w.do("executor-1", contract.OpClaim, "p2", t1) // a replay
	lost := w.ask("executor-1", contract.OpSubmitted, "p2", t1)
	w.execute(lost)
	w.loseAnswer(lost)
	w.do("executor-1", contract.OpSubmitted, "p2", t1) // the replay is the first answer
	close := e
	close.Op = contract.OpCloseSession
	r = w.send(close)
	w.endSession("executor-1", "alice")
	r.answer = answer{status: 204}
	w.reply(r)
	w.watermarks()
	sound(t, "DUR-01", w.events, 0)
}

// With the rail's fence off a second submission is forwarded, and the index keeps it off the record.
func TestASecondSubmissionThatTheIndexKeptOutIsAside(t *testing.T) {
	w := bank()
	w.railOff = true
	w.do("executor-1", contract.OpSubmit, "p2", stall(w, contract.OpSubmit))
	w.watermarks()
	if got := w.judgement(); fallen(got) != "INV-02 INV-05" {
		t.Errorf("violated: %q, want INV-02 INV-05", fallen(got))
	}
	if got := judged(w.events, nil); fallen(got) != "INV-02 INV-05 DUR-01" {
		t.Errorf("violated where the fence is said to be on: %q, want INV-02 INV-05 DUR-01", fallen(got))
	}
}

// A copy of a submission that was answered: with the fence on it finds the attempt on record, whatever became of it.
func TestACopyOfASubmissionThatIsNotOnRecordIsExcusedWhereTheRailsFenceIsOffAlone(t *testing.T) {
	for fencing, want := range map[string]string{"rail-off": "INV-02", "off": "INV-02", "on": "INV-02 DUR-01", "payment-off": "INV-02 DUR-01"} {
		w := bank()
		r := until(w, contract.OpSubmit)
		w.railOff = true
		w.complete(w.again(r))
		w.watermarks()
		if got := fallen(judgedUnder(fencing, w.events, nil)); got != want {
			t.Errorf("fencing %s: violated %q, want %q", fencing, got, want)
		}
	}
}

// More effects than are remembered were never answered; an answer to one that may be among them proves nothing.
func TestAnAnswerOlderThanTheRememberedEffectsIsLeftOpen(t *testing.T) {
	w := bank()
	old := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice"})
	for token := range int64(2 * maxEffects) {
		w.grant(0, fmt.Sprintf("executor-%d", token%6+1), "alice", 100+token)
	}
	w.watermarks()
	w.answerAcquire(old, 100)
	got := judged(w.events, nil)["DUR-01"]
	if got.Found != 0 || got.Unresolved != 1 {
		t.Errorf("%d found and %d unresolved, want 0 and 1: %s", got.Found, got.Unresolved, got.Reason)
	}
}
