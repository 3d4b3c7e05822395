package invariant

import (
	"testing"
	"time"
)

// Alice's key had been granted with a token that the store no longer knows of. Nobody serves her payout p2 and bob's q1.
func TestALatePayoutIsExplainedByTokensThatAreBelowTheFencesAndByNothingElse(t *testing.T) {
	again := func(l live, token int64) { // somebody is granted it, and the next finds it free
		l.reissue(1, "executor-2", "alice", token)
		delete(l.grants, "alice")
	}
	for _, c := range []struct {
		name          string
		story         func(l live, high int64) // the faults are over, and high has been answered
		found, across int64
	}{
		{"no store was put back", func(l live, _ int64) {
			l.heal()
			l.pass(20 * time.Second)
		}, 2, 0},
		{"a store was put back, and nobody's token is too low", func(l live, high int64) {
			l.putBack(1)
			l.heal()
			again(l, high+1)
			l.pass(20 * time.Second)
		}, 2, 0},
		{"tokens had come past the fences when all was healed", func(l live, high int64) {
			l.putBack(1)
			again(l, high-2)
			again(l, high+1)
			l.heal()
			again(l, high+2)
			l.pass(20 * time.Second)
		}, 2, 0},
		{"tokens were still below the fences", func(l live, high int64) {
			l.putBack(1)
			l.heal()
			again(l, high-2)
			l.pass(20 * time.Second)
		}, 2, 2},
		{"they were when the time was up already", func(l live, high int64) {
			l.putBack(1)
			l.heal()
			l.pass(15 * time.Second)
			again(l, high-2)
			l.pass(5 * time.Second)
		}, 2, 0},
		{"they went down within the store's life", func(l live, high int64) {
			l.putBack(1)
			again(l, high+4)
			l.heal()
			again(l, high+3)
			l.pass(20 * time.Second)
		}, 2, 0},
		{"a dead holder's key is no matter of fences", func(l live, high int64) {
			l.putBack(1)
			l.heal()
			l.reissue(1, "executor-2", "alice", high-2)
			l.pass(3100 * time.Millisecond)
			l.refused("executor-1")
			l.pass(20 * time.Second)
		}, 3, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := drive()
			l.events = l.events[:len(l.events)-1] // the drain has not begun
			c.story(l, l.taken("alice"))
			l.phase("collect")
			got := l.progress()
			if got.Found != c.found || got.Across != c.across {
				t.Errorf("%d found, %d of them across, want %d and %d: %s", got.Found, got.Across, c.found, c.across, got.Reason)
			}
			for _, v := range got.Violations {
				if v.Across && v.Payout == "" {
					t.Errorf("%q is explained by a store that has forgotten", v.Sentence)
				}
			}
		})
	}
}

func (l live) heal() { l.phase("drain") }

// taken lets somebody take the account's key and give it back, and gives the token.
func (l live) taken(account string) int64 {
	token := l.acquire("executor-1", account)
	l.release(account)
	return token
}
