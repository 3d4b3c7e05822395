package invariant

import (
	"slices"
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

func TestAStoreThatIsPutBackIsToldWhichTokensItIssuedTwiceAndToWhom(t *testing.T) {
	w := bank()
	alice, bob := w.acquire("executor-1", "alice"), w.acquire("executor-2", "bob")
	w.begun("restore-unguarded")
	w.putBack(1)
	w.reissue(1, "executor-3", "alice", alice)
	w.reissue(1, "executor-4", "bob", bob)
	got := judged(w.events, nil)["INV-04"]
	want := "2 tokens from 44 to 46 were issued twice, by a lock store that was put back to an older state: " +
		"44 to executor-1 for payout:alice and again to executor-3 for payout:alice, 46 to executor-2 for payout:bob and again to executor-4 for payout:bob"
	if got.Status != verdict.Violated || len(got.Violations) == 0 || got.Violations[0].Sentence != want {
		t.Fatalf("%s: %s", got.Status, got.Reason)
	}
	if n := got.Violations[0].Reissued; n != 2 {
		t.Errorf("it is marked as of %d tokens", n)
	}
	if n := len(got.Violations[0].Events); n < 4 {
		t.Errorf("%d events prove it", n)
	}
	if got.Danger["issued_twice"] != 2 || got.Danger["regrants_across"] != 2 {
		t.Errorf("danger %v", got.Danger)
	}
}

// begun is the nemesis' word for a fault that begins an epoch.
func (w *world) begun(by contract.Op) {
	w.record(history.Event{W: history.Nemesis, Type: contract.Info, Proc: "nemesis", Op: by, Phase: "inject", Window: 1, Target: "lockdb"})
}

// An answer that waits for paydb is of the epoch in which it was given, however late it is heard.
func TestAnAnswerThatIsHeardInTheNextEpochWasGivenInItsOwn(t *testing.T) {
	w := bank()
	alice := w.acquire("executor-1", "alice")
	waits := w.send(history.Event{Op: contract.OpClaim, Proc: "executor-1", Owner: "executor-1", Payout: "unseen", Token: alice, Link: "executor-1→payment-resource"})
	waits.answer = answer{status: 503}
	w.reply(waits)
	bob := w.acquire("executor-2", "bob")
	w.putBack(1)
	w.order("unseen", "alice", 5)
	w.reissue(1, "executor-3", "alice", alice)
	w.reissue(1, "executor-4", "bob", bob)
	w.watermarks()
	if got := judged(w.events, nil)["INV-04"]; got.Danger["issued_twice"] != 2 || !strings.HasPrefix(got.Reason, "2 tokens from 44 to 46 were issued twice") {
		t.Errorf("%d tokens were issued twice: %s", got.Danger["issued_twice"], got.Reason)
	}
}

// The same where it is judged when another epoch has begun: it is the beginning of its own that explains it.
func TestALowerTokenIsExplainedByTheBeginningOfItsOwnEpoch(t *testing.T) {
	w := bank()
	w.acquire("executor-1", "alice")
	w.putBack(1)
	waits := w.send(history.Event{Op: contract.OpClaim, Proc: "executor-1", Owner: "executor-1", Payout: "unseen", Token: 44, Link: "executor-1→payment-resource"})
	waits.answer = answer{status: 503}
	w.reply(waits)
	w.reissue(1, "executor-2", "alice", 30)
	w.putBack(2)
	w.order("unseen", "alice", 5)
	w.watermarks()
	if got := judged(w.events, nil)["INV-04"]; got.Found != 1 || got.Across != 1 {
		t.Errorf("%d found, %d of them across: %s", got.Found, got.Across, got.Reason)
	}
}

// What is said of tokens issued twice explains that a key's tokens went down, and counts for nothing besides.
func TestTokensIssuedTwiceAreToldOnlyWhereThatIsWhatFell(t *testing.T) {
	begun := func(w *world, by contract.Op) {
		w.begun(by)
		w.putBack(1)
	}
	for _, c := range []struct {
		name   string
		story  func(w *world)
		found  int64
		across int64
		first  string
	}{
		{"a store that was put back", func(w *world) {
			alice := w.acquire("executor-1", "alice")
			begun(w, "restore-unguarded")
			w.reissue(1, "executor-2", "alice", alice)
		}, 1, 1, "token 44 was issued twice, by a lock store that was put back to an older state: "},
		{"a standby that lacked it", func(w *world) {
			alice := w.acquire("executor-1", "alice")
			begun(w, "failover-async")
			w.reissue(1, "executor-2", "alice", alice)
		}, 1, 1, "token 44 was issued twice, by a standby that was promoted and lacked what its primary had granted last: "},
		{"a store of which no nemesis tells what happened to it", func(w *world) {
			alice := w.acquire("executor-1", "alice")
			w.putBack(1)
			w.reissue(1, "executor-2", "alice", alice)
		}, 1, 1, "token 44 was issued twice, by a lock store that had forgotten what it granted last: "},
		{"one of which a nemesis tells what happened to it before", func(w *world) {
			w.acquire("executor-1", "alice")
			begun(w, "restore")
			w.reissue(1, "executor-2", "alice", 60)
			w.putBack(2)
			w.reissue(2, "executor-3", "alice", 60)
		}, 1, 1, "token 60 was issued twice, by a lock store that had forgotten what it granted last: "},
		{"a grant that is not in the log", func(w *world) {
			alice := w.acquire("executor-1", "alice")
			begun(w, "failover-async")
			w.reissue(1, "executor-2", "bob", alice) // no lower one than bob's
			w.answerAcquire(w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-3", Key: "payout:alice", Session: "session-executor-3"}), 60)
			w.watermarks()
		}, 1, 0, "executor-3 was answered token 60 for key payout:alice, but the lock store's log has no such grant"},
		{"tokens that went down within an epoch", func(w *world) {
			alice := w.acquire("executor-1", "alice")
			begun(w, "restore")
			w.reissue(1, "executor-2", "bob", alice)
			w.reissue(1, "executor-2", "alice", 60)
			w.reissue(1, "executor-3", "alice", 59)
		}, 2, 0, "executor-3 was granted key payout:alice with token 59 after 60 had been granted"},
		{"a token below a floor of its epoch, and below one that was forgotten", func(w *world) {
			for range 20 {
				w.acquire("executor-1", "alice")
				w.release("alice")
			}
			begun(w, "failover-async")
			w.answered(history.Event{Op: contract.OpRevoke, Proc: "operator", Key: "payout:alice"}, answer{status: 200, res: `{"revokedToken":60,"newTokenFloor":70}`})
			w.reissue(1, "executor-3", "alice", 65)
		}, 1, 0, "executor-3 was answered token 65 for key payout:alice, although a revoke had raised its floor to 70 before it asked"},
		{"a token that was asked for before the store was put back, and answered later", func(w *world) {
			late := w.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "payout:alice", Session: "session-executor-1"})
			begun(w, "restore-unguarded")
			w.answerAcquire(late, 60)
			w.reissue(1, "executor-3", "alice", 50)
		}, 1, 1, "executor-3 was answered token 50 for key payout:alice, although 60 had been answered before it asked"},
		{"tokens that went down within an epoch, behind more than are told that went down at its beginning", func(w *world) {
			for range 2 * verdict.MaxViolations {
				w.acquire("executor-1", "alice")
				w.release("alice")
			}
			begun(w, "restore-unguarded")
			for i := range int64(verdict.MaxViolations) + 4 {
				w.reissue(1, "executor-2", "alice", 50+i)
			}
			w.reissue(1, "executor-3", "alice", 49)
		}, verdict.MaxViolations + 6, verdict.MaxViolations + 4, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := bank()
			c.story(w)
			got := judged(w.events, nil)["INV-04"]
			if got.Found != c.found || got.Across != c.across || len(got.Violations) != min(int(c.found), verdict.MaxViolations) || !strings.HasPrefix(got.Reason, c.first) {
				t.Errorf("%d found, %d of them across, %d told, the first: %s", got.Found, got.Across, len(got.Violations), got.Reason)
			}
			if got.Across < got.Found && !slices.ContainsFunc(got.Violations, func(v verdict.Violation) bool { return !v.Across }) {
				t.Error("what nothing explains is not told")
			}
			if twice := got.Violations[0].Reissued > 0; c.first != "" && twice != strings.HasPrefix(c.first, "token ") {
				t.Errorf("that it tells of tokens issued twice is %v", twice)
			}
		})
	}
}

// More is issued twice than a sentence can tell.
func TestTheSentenceAboutTokensIssuedTwiceStaysOne(t *testing.T) {
	w := bank()
	var tokens []int64
	for range 30 {
		tokens = append(tokens, w.acquire("executor-1", "alice"))
		w.release("alice")
	}
	w.putBack(1)
	for _, token := range tokens {
		w.reissue(1, "executor-2", "alice", token)
	}
	got := judged(w.events, nil)["INV-04"]
	first := got.Violations[0].Sentence
	if !strings.HasPrefix(first, "30 tokens from 44 to 102 were issued twice") || !strings.HasSuffix(first, "and 25 more") || len(got.Violations) != verdict.MaxViolations {
		t.Errorf("%d kept, the first: %s", len(got.Violations), first)
	}
}
