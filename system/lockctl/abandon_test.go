package lockctl_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestAPayoutIsAbandonedUnderAGrantThatIsGivenBack(t *testing.T) {
	for _, state := range []string{"PENDING", "RAIL_AMBIGUOUS"} {
		t.Run(state, func(t *testing.T) {
			s := newSystem(t)
			account, payouts := s.account(1, state)
			s.hold("elsewhere", "executor-1") // the payout's earlier token, which the one to come is above
			r := s.want(s.ctl(deed("abandon", payouts[0], "--json")...), 0, fmt.Sprintf(`"from": %q,`, state), `"state": "ABANDONED",`)
			got := s.payout(payouts[0])
			token := got[strings.LastIndex(got, " ")+1:]
			if want := "ABANDONED lockctl olga it hangs since noon " + token; got != want || !strings.Contains(r.out, `"fencingToken": `+token) {
				t.Errorf("stored %s, said\n%s", got, r.out)
			}
			if s.held("payout:" + account).Held {
				t.Error("the lock was not given back")
			}
			s.want(s.ctl("sessions", "--owner", "lockctl"), 0, "HELD\n")
			s.want(s.ctl(deed("abandon", payouts[0])...), 1, "is ABANDONED already, by olga under token "+token)
		})
	}
}

func TestAPayoutInAnyOtherStateIsNotAbandonedAndItsLockNotTaken(t *testing.T) {
	s := newSystem(t)
	session := s.session("executor-1")
	before := s.acquire("elsewhere", "executor-1", session)
	for _, state := range []string{"CLAIMED", "RAIL_SUBMITTED", "RAIL_ACKED", "POSTED", "FAILED"} {
		_, payouts := s.account(1, state)
		s.want(s.ctl(deed("abandon", payouts[0])...), 1, "is "+state+": only one that is PENDING or RAIL_AMBIGUOUS can be abandoned")
		if got := s.payout(payouts[0]); got != state+" executor-1" {
			t.Errorf("%s became %s", state, got)
		}
	}
	s.want(s.ctl(deed("abandon", "0d5f9c1e-6c55-4a8e-9a3e-0c1b8d9d7f10")...), 1, "NOT_FOUND")
	if next := s.acquire("elsewhere", "executor-1", session); next != before+2 { // a re-entry draws two, and one of them is lost
		t.Errorf("%d tokens were drawn in between", next-before-2)
	}
}

func TestWhoHoldsTheAccountIsNamedAndThePayoutLeftAlone(t *testing.T) {
	s := newSystem(t)
	account, payouts := s.account(0, "PENDING")
	s.hold("payout:"+account, "executor-2")
	s.want(s.ctl(deed("abandon", payouts[0], "--wait", "0s")...), 1, "executor-2 holds payout:"+account+" until 20", "lockctl inspect 'payout:")
	if got := s.payout(payouts[0]); got != "PENDING" {
		t.Errorf("the payout is %s", got)
	}
	s.want(s.ctl("sessions", "--owner", "lockctl"), 0, "HELD\n")
}

// The holder lets go while the command waits for it, and not before.
func TestTheCommandWaitsForTheAccountsLock(t *testing.T) {
	s := newSystem(t)
	account, payouts := s.account(0, "PENDING")
	key := "payout:" + account
	token := s.hold(key, "executor-2")
	var waiting sync.WaitGroup
	defer waiting.Wait()
	s.inFront = func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/acquire") {
				waiting.Go(func() {
					s.eventually("the command waits", func() bool { return strings.HasSuffix(s.ctl("inspect", key).out, "WAITING   1\n") })
					if err := s.store.Release(s.Context(), key, token); err != nil {
						s.Error(err)
					}
				})
			}
			h.ServeHTTP(w, r)
		})
	}
	s.want(s.ctl(deed("abandon", payouts[0])...), 0, "ABANDONED, was PENDING")
}

// Between the look and the grant an executor was faster. The decision is payment-resource's.
func TestAPayoutThatWasClaimedMeanwhileIsNotAbandoned(t *testing.T) {
	s := newSystem(t)
	account, payouts := s.account(0, "PENDING")
	var once atomic.Bool
	s.inFront = func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/acquire") && once.CompareAndSwap(false, true) {
				token := s.hold("payout:"+account, "executor-2")
				if code := s.claim(payouts[0], "executor-2", token, "PENDING"); code != "" {
					s.Error(code)
				}
				s.check(s.store.Release(s.Context(), "payout:"+account, token))
			}
			h.ServeHTTP(w, r)
		})
	}
	s.want(s.ctl(deed("abandon", payouts[0])...), 1, "was not abandoned: PAYOUT_NOT_CLAIMABLE")
	if got := s.payout(payouts[0]); got != "CLAIMED executor-2" || s.held("payout:"+account).Held {
		t.Errorf("the payout is %s, the lock %+v", got, s.held("payout:"+account))
	}
}

func TestAnAbandonWhoseAnswersGetLostIsSentAgainUnderTheSameTokenAndDoneOnce(t *testing.T) {
	for _, c := range []struct {
		lost   int32
		status int
		says   string
	}{{2, 0, "ABANDONED, was PENDING"}, {3, 3, "it is not known whether payout"}} {
		s := newSystem(t)
		account, payouts := s.account(0, "PENDING")
		var lost atomic.Int32
		lost.Store(c.lost)
		s.inFront = carriedOutAndCutOff("/resolve", &lost)
		s.want(s.ctl(deed("abandon", payouts[0])...), c.status, c.says)
		if s.held("payout:" + account).Held {
			t.Error("the lock was not given back")
		}
		s.want(s.ctl(deed("abandon", payouts[0])...), 1, "is ABANDONED already, by olga under token")
	}
}

// The first request gets lost on its way and may still come. Whether the answer to the second one holds for the first, too,
// depends on what it says: a state may change again, a fence never goes down.
func TestARefusalOfALaterTrySaysNothingOfAnEarlierOneUnlessItIsTheFences(t *testing.T) {
	for _, c := range []struct {
		meanwhile    string
		status       int
		says, answer string
	}{
		{`UPDATE payout SET state = 'CLAIMED', claimed_by = 'executor-2', claim_token = 1 WHERE account_id = $1`, 3, "it is not known whether payout", "PAYOUT_NOT_CLAIMABLE"},
		{`UPDATE account SET fence = 1000000 WHERE account_id = $1`, 1, "was not abandoned", "FENCED_OUT"},
	} {
		s := newSystem(t)
		account, payouts := s.account(0, "PENDING")
		var once atomic.Bool
		s.inFront = func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/resolve") || !once.CompareAndSwap(false, true) {
					h.ServeHTTP(w, r)
					return
				}
				s.pay(c.meanwhile, account)
				conn, _, err := w.(http.Hijacker).Hijack()
				s.check(err)
				s.check(conn.Close())
			})
		}
		s.want(s.ctl(deed("abandon", payouts[0])...), c.status, c.says, c.answer)
	}
}
