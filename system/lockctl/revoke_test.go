package lockctl_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestARevokeFreesTheKeyAndIsKeptWithWhoAndWhy(t *testing.T) {
	s := newSystem(t)
	token := s.hold("k", "executor-2")
	s.want(s.ctl(deed("revoke", "k")...), 0, fmt.Sprintf("token %d of k", token), "AUDIT", "executor-2 can write until the next holder claims")
	if s.held("k").Held {
		t.Error("it is held still")
	}
	if got := s.value(server.URL("lockapp", s.lockdb), "SELECT concat_ws(' ', lock_key, prev_owner, prev_token, operator, reason) FROM lock_revocation"); got != fmt.Sprintf("k executor-2 %d olga it hangs since noon", token) {
		t.Errorf("kept: %s", got)
	}
	if next := s.hold("k", "executor-1"); next <= token+1 {
		t.Errorf("the next token is %d", next)
	}
}

func TestNothingIsRevokedThatIsNotHeldOrBearsAnotherToken(t *testing.T) {
	s := newSystem(t)
	s.want(s.ctl(deed("revoke", "k")...), 1, "nobody holds k")
	token := s.hold("k", "executor-2")
	s.want(s.ctl(deed("revoke", "k", "--expect", fmt.Sprint(token+1))...), 1, fmt.Sprintf("k carries token %d, not %d: nothing was changed", token, token+1))
	if !s.held("k").Held {
		t.Error("it was revoked")
	}
	s.want(s.ctl(deed("revoke", "k", "--json", "--expect", fmt.Sprint(token))...), 0, fmt.Sprintf(`"revokedToken": %d,`, token), `"revocationId": "`)
}

func TestATokenThatIsExpectedIsComparedWithEveryBit(t *testing.T) {
	s := newSystem(t)
	for _, token := range []int64{1<<53 + 1, math.MaxInt64 - 1} { // one more is the revoke's floor, the last there is
		s.exec(server.URL("lockapp", s.lockdb), fmt.Sprint("ALTER SEQUENCE fencing_token_seq RESTART WITH ", token))
		s.hold("k", "executor-2")
		s.want(s.ctl(deed("revoke", "k", "--expect", fmt.Sprint(token-1))...), 1, fmt.Sprintf("k carries token %d, not %d", token, token-1))
		s.want(s.ctl(deed("revoke", "k", "--expect", fmt.Sprint(token), "--json")...), 0, fmt.Sprintf(`"revokedToken": %d,`, token), fmt.Sprintf(`"newTokenFloor": %d,`, token+1))
	}
}

// The key is free and the next holder works; but until it claims, the old one still writes. Only the claim shuts it out.
func TestTheHolderOfARevokedGrantWritesUntilItsSuccessorClaims(t *testing.T) {
	s := newSystem(t)
	account, payouts := s.account(0, "PENDING")
	key, payout := "payout:"+account, payouts[0]
	old := s.hold(key, "executor-2")
	if code := s.claim(payout, "executor-2", old, "PENDING"); code != "" {
		t.Fatal(code)
	}
	s.want(s.ctl(deed("revoke", key)...), 0)
	next := s.hold(key, "executor-1")
	if code := s.protected("submitted", payout, "executor-2", old, struct{}{}); code != "" {
		t.Errorf("before the next claim the old holder was refused: %s", code)
	}
	if code := s.claim(payout, "executor-1", next, "RAIL_SUBMITTED"); code != "" {
		t.Fatal(code)
	}
	if code := s.protected("outcome", payout, "executor-2", old, map[string]string{"outcome": "TIMEOUT"}); code != "FENCED_OUT" {
		t.Errorf("after it the old holder was answered %q", code)
	}
}

// The operator spoke of the grant that was shown. Its successor is another matter, however short ago it came.
func TestASuccessorIsNotRevokedInThePlaceOfTheGrantThatWasShown(t *testing.T) {
	s := newSystem(t)
	first := s.hold("k", "executor-2")
	s.inFront = func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/revoke") {
				s.check(s.store.Release(s.Context(), "k", first))
				s.hold("k", "executor-1")
			}
			h.ServeHTTP(w, r)
		})
	}
	s.want(s.ctl(deed("revoke", "k")...), 1, "has changed hands meanwhile", "FENCED_OUT")
	if i := s.held("k"); !i.Held || i.Grant.OwnerID != "executor-1" {
		t.Errorf("the key is %+v", i)
	}
}

func TestARevokeWhoseAnswerDoesNotComeIsUnknownAndLookingTells(t *testing.T) {
	s := newSystem(t)
	token := s.hold("k", "executor-2")
	var lost atomic.Int32
	lost.Store(1)
	s.inFront = carriedOutAndCutOff("/revoke", &lost)
	s.want(s.ctl(deed("revoke", "k")...), 3, fmt.Sprintf("it is not known whether token %d of k was revoked. Look: lockctl inspect 'k'", token))
	s.want(s.ctl("inspect", "k"), 0, "HELD     no")
	s.want(s.ctl(deed("revoke", "k")...), 1, "nobody holds k")
}
