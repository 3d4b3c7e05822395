package invariant

import (
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// clientSettings: a lease of 1 s lasts 0.7 s by its holder's own reckoning, and 50 ms + 250 ms of grace come on top.
var clientSettings = verdict.Settings{Services: map[string]string{"LOCK_DEFAULT_TTL": "1s", "LOCK_SESSION_TTL": "1s", "EXECUTOR_PREPARE": "50ms"}}

// lease opens executor-1's session and takes alice's key, both for a second, and gives the token.
func (l live) lease() int64 {
	s := l.send(history.Event{Op: contract.OpOpenSession, Proc: "executor-1", Session: "session-executor-1"})
	l.answerAt(s, 201)
	return l.acquire("executor-1", "alice")
}

func (l live) answerAt(r *request, status int) {
	r.answer = answer{status: status}
	l.reply(r)
}

func (l live) heartbeat(status int) {
	l.answerAt(l.send(history.Event{Op: contract.OpHeartbeat, Proc: "executor-1", Session: "session-executor-1"}), status)
}

func (l live) renewal(token int64, status int) {
	l.answerAt(l.send(history.Event{Op: contract.OpRenew, Proc: "executor-1", Key: "payout:alice", Token: token}), status)
}

// giveUp answers a request whose client has gone.
func (l live) giveUp(r *request) {
	r.answer = answer{status: 409, code: contract.LockLost}
	l.reply(r)
	last := &l.events[len(l.events)-1]
	last.Stage, last.Type = history.Lost, contract.Info
}

// claim is a protected request.
func (l live) claim(token int64) { l.do("executor-1", contract.OpClaim, "p2", token) }

func (l live) fault(target, phase string) {
	l.record(history.Event{W: history.Nemesis, Type: contract.Info, Proc: "nemesis", Op: "fault", Window: 1, Phase: phase, Target: target})
}

func TestDeadlines(t *testing.T) {
	late := 1100 * time.Millisecond
	for _, c := range []struct {
		name       string
		story      func(l live)
		words      string // "" for no violation
		unresolved int64
		excused    int64
	}{
		{"a request within the deadline and its grace", func(l live) {
			token := l.lease()
			l.pass(990 * time.Millisecond)
			l.claim(token)
		}, "", 0, 0},
		{"a request past its grant's deadline", func(l live) {
			token := l.lease()
			l.pass(600 * time.Millisecond)
			l.heartbeat(200)
			l.pass(500 * time.Millisecond)
			l.claim(token)
		}, "executor-1 sent its claim of payout p2 with token 42 400ms after its grant's deadline", 0, 0},
		{"a request past its session's deadline", func(l live) {
			token := l.lease()
			l.pass(600 * time.Millisecond)
			l.renewal(token, 200)
			l.pass(500 * time.Millisecond)
			l.claim(token)
		}, "400ms after its session's deadline", 0, 0},
		{"grant and session were renewed", func(l live) {
			token := l.lease()
			for range 5 {
				l.pass(500 * time.Millisecond)
				l.renewal(token, 200)
				l.heartbeat(200)
			}
			l.pass(900 * time.Millisecond)
			l.claim(token)
		}, "", 0, 0},
		{"a deadline is counted from the answer to a renewal that was long in coming", func(l live) {
			token := l.lease()
			r := l.send(history.Event{Op: contract.OpRenew, Proc: "executor-1", Key: "payout:alice", Token: token})
			l.pass(650 * time.Millisecond)
			l.answerAt(r, 200)
			l.heartbeat(200)
			l.pass(500 * time.Millisecond)
			l.claim(token)
		}, "after its grant's deadline", 0, 0},
		{"a renewal that failed extends nothing", func(l live) {
			token := l.lease()
			l.pass(600 * time.Millisecond)
			l.renewal(token, 503)
			l.heartbeat(200)
			l.pass(500 * time.Millisecond)
			l.claim(token)
		}, "its grant's deadline, and neither had it been stopped", 0, 0},
		{"a heartbeat that failed extends nothing", func(l live) {
			token := l.lease()
			l.pass(600 * time.Millisecond)
			l.renewal(token, 200)
			l.heartbeat(503)
			l.pass(500 * time.Millisecond)
			l.claim(token)
		}, "its session's deadline, and neither had it been stopped", 0, 0},
		{"the process was stopped in between", func(l live) {
			token := l.lease()
			l.fault("executor-1", "inject")
			l.pass(late)
			l.fault("executor-1", "heal")
			l.fault("executor-1", "healed")
			l.claim(token)
		}, "", 0, 1},
		{"another process was stopped in between", func(l live) {
			token := l.lease()
			l.fault("executor-2", "inject")
			l.pass(late)
			l.claim(token)
		}, "deadline", 0, 0},
		{"an operator took its key in between, which stops nobody", func(l live) {
			token := l.lease()
			l.record(history.Event{W: history.Nemesis, Type: contract.Info, Proc: "nemesis", Op: contract.OpRevoke, Window: 1, Phase: "inject", Target: "executor-1"})
			l.pass(late)
			l.record(history.Event{W: history.Nemesis, Type: contract.Info, Proc: "nemesis", Op: contract.OpRevoke, Window: 1, Phase: "healed", Target: "executor-1"})
			l.claim(token)
		}, "deadline", 0, 0},
		{"it was stopped before it took the lease", func(l live) {
			l.fault("executor-1", "inject")
			l.pass(time.Second)
			l.fault("executor-1", "healed")
			token := l.lease()
			l.pass(late)
			l.claim(token)
		}, "deadline", 0, 0},
		{"its link had a fault in between", func(l live) {
			token := l.lease()
			l.fault("executor-1→payment-resource", "inject")
			l.pass(late)
			l.claim(token)
		}, "", 0, 1},
		{"the harness stood still", func(l live) {
			token := l.lease()
			l.pass(600 * time.Millisecond)
			l.clock += int64(700 * time.Millisecond)
			l.claim(token)
		}, "", 1, 0},
		{"a request that the harness repeats is not the client's", func(l live) {
			token := l.lease()
			l.claim(token)
			l.pass(late)
			l.send(history.Event{Op: contract.OpClaim, Proc: "executor-1", Payout: "p2", Token: token, DupOf: 7})
		}, "", 0, 0},
		{"a late request that its client had given up", func(l live) {
			token := l.lease()
			l.pass(late)
			l.giveUp(l.send(history.Event{Op: contract.OpClaim, Proc: "executor-1", Payout: "p2", Token: token}))
		}, "", 1, 0},
		{"a late request that was never answered", func(l live) {
			token := l.lease()
			l.pass(late)
			l.loseAnswer(l.send(history.Event{Op: contract.OpClaim, Proc: "executor-1", Payout: "p2", Token: token}))
		}, "", 1, 0},
		{"a renewal that its client had given up before the release", func(l live) {
			token := l.lease()
			l.release("alice")
			l.pass(300 * time.Millisecond)
			l.giveUp(l.send(history.Event{Op: contract.OpRenew, Proc: "executor-1", Key: "payout:alice", Token: token}))
		}, "", 1, 0},
		{"a token of somebody else's grant", func(l live) {
			l.lease()
			l.claim(41)
		}, "", 1, 0},
		{"a renewal after the release was answered", func(l live) {
			token := l.lease()
			l.release("alice")
			l.pass(300 * time.Millisecond)
			l.renewal(token, 409)
		}, "executor-1 renewed key payout:alice with token 42", 0, 0},
		{"a renewal that was on its way when the release was answered", func(l live) {
			token := l.lease()
			l.release("alice")
			l.pass(200 * time.Millisecond)
			l.renewal(token, 409)
		}, "", 0, 0},
		{"a renewal after a release of which nobody heard", func(l live) {
			token := l.lease()
			l.loseAnswer(l.send(history.Event{Op: contract.OpRelease, Proc: "executor-1", Key: "payout:alice", Token: token}))
			l.renewal(token, 409)
		}, "", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := drive()
			l.nextToken = 42
			l.pass(200 * time.Millisecond)
			for i := range l.events { // what went before had no leases
				if l.events[i].W == history.Wiretap {
					l.events[i].DupOf = 1
				}
			}
			c.story(l)
			j := NewJudge(clientSettings)
			for i := range l.events {
				j.Observe(&l.events[i])
			}
			f := j.folds[9].(*deadlines)
			v := f.Verdict()
			if (v.Found > 0) != (c.words != "") || v.Unresolved != c.unresolved || v.Danger["excused"] != c.excused {
				t.Fatalf("%d found, %d unresolved, %d excused; want %q, %d, %d: %+v", v.Found, v.Unresolved, v.Danger["excused"], c.words, c.unresolved, c.excused, v.Violations)
			}
			for _, x := range v.Violations {
				if !strings.Contains(x.Sentence, c.words) {
					t.Errorf("it says %q, want %q", x.Sentence, c.words)
				}
				if n := len(x.Events); n < 3 || n > maxEvidence {
					t.Errorf("%q is proved by %d events", x.Sentence, n)
				}
			}
		})
	}
}
