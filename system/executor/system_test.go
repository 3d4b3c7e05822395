package executor

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"fenceproof/system/rail/stub"
	"fenceproof/system/wire"

	"github.com/google/uuid"
	"go.uber.org/goleak"
)

var over = []string{"POSTED", "FAILED", "RAIL_AMBIGUOUS", "ABANDONED"}

func (s *system) allOver(payouts []string) func() bool {
	return func() bool {
		return !slices.ContainsFunc(payouts, func(p string) bool { return !slices.Contains(over, s.state(p)) })
	}
}

func noLeak(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
}

func TestTwoExecutorsPayEveryPayoutOnce(t *testing.T) {
	noLeak(t)
	s := newSystem(t, stub.Options{Latency: 2 * time.Millisecond})
	due := map[string]int64{}
	var payouts []string
	for range 4 {
		account := s.newAccount()
		for i := range 10 {
			amount := int64(100 + i)
			payouts = append(payouts, s.newPayout(account, amount))
			due[account] += amount
		}
	}
	s.startExecutor("executor-1")
	s.startExecutor("executor-2")
	s.eventually("every payout is over", s.allOver(payouts))
	for _, p := range payouts {
		if s.state(p) != "POSTED" || s.transfers(p) != 1 {
			t.Errorf("payout %s: %s with %d transfers, want POSTED with one", p, s.state(p), s.transfers(p))
		}
	}
	for account, sum := range due {
		if got := s.balance(account); got != opening-sum {
			t.Errorf("account %s has %d, want %d", account, got, opening-sum)
		}
	}
}

// fates gives the ids of the payouts whose fates a test's seed is to decide. A repetition goes on where the run before it ended.
var fates = rand.NewChaCha8([32]byte{11})

func TestDeclinesAndLostRepliesEndAsWhatTheyAre(t *testing.T) {
	noLeak(t)
	s := newSystem(t, stub.Options{FailureRate: 0.3, DuplicateAckRate: 0.3, Seed: 11})
	var payouts []string
	for range 48 {
		id, err := uuid.NewRandomFromReader(fates)
		s.check(err)
		payouts = append(payouts, s.newPayoutWithID(id.String(), s.account, 100))
	}
	s.startExecutor("executor-1")
	s.eventually("every payout is over", s.allOver(payouts))
	moved := map[string]int{"POSTED": 1, "FAILED": 0, "RAIL_AMBIGUOUS": 1}
	seen := map[string]int64{}
	for _, p := range payouts {
		state := s.state(p)
		seen[state]++
		if s.transfers(p) != moved[state] {
			t.Errorf("payout %s is %s with %d transfers", p, state, s.transfers(p))
		}
	}
	if len(seen) != 3 {
		t.Errorf("the seed brings %v and must bring all three", seen)
	}
	if got := s.balance(s.account); got != opening-100*seen["POSTED"] {
		t.Errorf("balance %d after %d posts of 100", got, seen["POSTED"])
	}
}

// leftBehind brings a payout to where a holder that died under token left it.
func (s *system) leftBehind(payout, state, record string, token int64) {
	s.exec(`UPDATE payout SET state = $2, claimed_by = 'executor-9', claim_token = $3 WHERE payout_id = $1`, payout, state, token)
	s.exec(`UPDATE account SET fence = $2 WHERE account_id = $1`, s.account, token-1)
	if record == "" {
		return
	}
	var outcome, reference any
	if record != "open" {
		outcome = record
	}
	if record == "ACKED" {
		reference = "rail-before"
	}
	s.exec(`INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, rail_reference, resolved_at)
		VALUES ($1, $2, $3, $4, $5::text, $6, CASE WHEN $5::text IS NOT NULL THEN now() END)`, uuid.NewString(), payout, "payout-"+payout, token, outcome, reference)
}

func TestATakeOverFinishesWhatADeadHolderLeftBehind(t *testing.T) {
	noLeak(t)
	s := newSystem(t, stub.Options{})
	type left struct {
		state, record, want string
		transfers           int // made by the one who takes over
		payout              string
	}
	cases := []*left{
		{state: "CLAIMED", want: "POSTED", transfers: 1},
		{state: "RAIL_SUBMITTED", want: "POSTED", transfers: 1},
		{state: "RAIL_SUBMITTED", record: "FENCED", want: "POSTED", transfers: 1},
		{state: "RAIL_SUBMITTED", record: "ACKED", want: "POSTED"},
		{state: "RAIL_SUBMITTED", record: "REJECTED", want: "FAILED"},
		{state: "RAIL_SUBMITTED", record: "TIMEOUT", want: "RAIL_AMBIGUOUS"},
		{state: "RAIL_SUBMITTED", record: "open", want: "RAIL_AMBIGUOUS"},
		{state: "RAIL_ACKED", record: "ACKED", want: "POSTED"},
	}
	next, payouts := map[string]string{}, []string{}
	for _, c := range cases {
		s.account = s.newAccount()
		next[s.account] = s.newPayout(s.account, 7) // pending, and older than what is in flight
		c.payout = s.newPayout(s.account, 100)
		s.leftBehind(c.payout, c.state, c.record, 1)
		payouts = append(payouts, c.payout, next[s.account])
	}
	s.startExecutor("executor-1")
	s.eventually("every payout is over", s.allOver(payouts))
	for _, c := range cases {
		if got, n := s.state(c.payout), s.transfers(c.payout); got != c.want || n != c.transfers {
			t.Errorf("%s with record %q became %s with %d transfers, want %s with %d", c.state, c.record, got, n, c.want, c.transfers)
		}
	}
	for account, p := range next {
		if s.state(p) != "POSTED" || s.transfers(p) != 1 {
			t.Errorf("the next payout of account %s is %s with %d transfers", account, s.state(p), s.transfers(p))
		}
	}
}

func TestWithoutTheLockServiceNothingIsDone(t *testing.T) {
	noLeak(t)
	s := newSystem(t, stub.Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.check(err)
	address := l.Addr().String()
	_ = l.Close()
	s.lock = "http://" + address
	payout := s.newPayout(s.account, 100)
	log := s.startExecutor("executor-1")
	s.eventually("the executor asks for the lock in vain", func() bool { return log.count("lock_unavailable") >= 5 })
	if s.state(payout) != "PENDING" || s.transfers(payout) != 0 {
		t.Fatalf("without a lock the payout became %s with %d transfers", s.state(payout), s.transfers(payout))
	}
	s.startLockServer(address)
	s.eventually("the payout is paid once there is a lock", func() bool { return s.state(payout) == "POSTED" })
}

func TestAStepThatTheLeaseDoesNotCoverIsNotBegun(t *testing.T) {
	noLeak(t)
	s := newSystem(t, stub.Options{})
	payout := s.newPayout(s.account, 100)
	log := &events{}
	o := s.executorOptions("executor-1", log)
	o.Acquire = s.locks("executor-1", time.Second)
	o.Prepare, o.StepTimeout = 300*time.Millisecond, 500*time.Millisecond // together more than 0.7 s
	s.start(o)
	s.eventually("the executor gives up", func() bool { return log.count(`"event":"payout_stopped"`) >= 2 })
	if s.state(payout) != "PENDING" || log.count("does not cover the step") < 2 {
		t.Errorf("payout %s, log:\n%s", s.state(payout), log.text.String())
	}
}

// deluded is a holder that never renews and believes whatever time it is that it holds the lock: what a process is that
// was stopped past its lease.
type deluded struct{ Lease }

func (deluded) CheckStillHeld(time.Duration) error { return nil }

func TestAHolderThatIsWrongAboutItsLeaseIsStoppedByTheFences(t *testing.T) {
	noLeak(t)
	s := newSystem(t, stub.Options{})
	log := &events{}
	o := s.executorOptions("executor-9", log)
	o.Concurrency, o.Prepare = 1, 1500*time.Millisecond
	o.Acquire = s.withoutRenewal("executor-9", time.Second)
	s.start(o)
	var payouts []string
	for range 3 {
		payouts = append(payouts, s.newPayout(s.account, 100))
	}
	s.eventually("the deluded executor has a grant", func() bool { return s.granted("executor-9") })
	s.startExecutor("executor-1")
	s.eventually("every payout is over", s.allOver(payouts))
	s.eventually("the deluded executor was refused", func() bool { return log.count(`"result":"fenced"`) >= 1 })
	for _, p := range payouts {
		if s.state(p) != "POSTED" || s.transfers(p) != 1 {
			t.Errorf("payout %s: %s with %d transfers", p, s.state(p), s.transfers(p))
		}
	}
	if got := s.balance(s.account); got != opening-300 {
		t.Errorf("balance %d", got)
	}
}

// withoutRenewal acquires over HTTP and lets the grant run out.
func (s *system) withoutRenewal(owner string, ttl time.Duration) Acquire {
	c := wire.NewClient(s.lock, 2)
	s.Cleanup(c.Close)
	var session struct {
		SessionID string `json:"sessionId"`
	}
	s.check(c.Do(s.Context(), wire.Call{Method: "POST", Path: "/v1/sessions", Owner: owner,
		Body: map[string]any{"ownerId": owner, "ttlMillis": 60000}}, &session))
	return func(ctx context.Context, key string) (Lease, error) {
		var g struct {
			FencingToken int64 `json:"fencingToken"`
		}
		err := c.Do(ctx, wire.Call{Method: "POST", Path: "/v1/locks/" + key + "/acquire", Owner: owner,
			Body: map[string]any{"sessionId": session.SessionID, "ttlMillis": ttl.Milliseconds(), "waitMillis": 0}}, &g)
		if err != nil {
			return nil, err
		}
		return deluded{grant(g.FencingToken)}, nil
	}
}

// grant is a token and nothing that could be given back.
type grant int64

func (g grant) Token() int64                       { return int64(g) }
func (g grant) CheckStillHeld(time.Duration) error { return nil }
func (g grant) Release(context.Context) error      { return nil }

func (s *system) granted(owner string) bool {
	var held struct {
		Held    bool   `json:"held"`
		OwnerID string `json:"ownerId"`
	}
	c := wire.NewClient(s.lock, 1)
	defer c.Close()
	s.check(c.Do(s.Context(), wire.Call{Method: "GET", Path: "/v1/locks/payout:" + s.account}, &held))
	return held.Held && held.OwnerID == owner
}

func TestAProtectedCallInFlightIsFinishedWhenTheProcessStops(t *testing.T) {
	noLeak(t)
	s := newSystem(t, stub.Options{})
	arrived, release := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-release
		_, _ = fmt.Fprintf(w, `{"submissionId":"%s","outcome":"ACKED","railReference":"rail-1"}`, uuid.NewString())
	}))
	t.Cleanup(slow.Close)
	payout := s.newPayout(s.account, 100)
	log := &events{}
	o := s.executorOptions("executor-1", log)
	o.Acquire, o.RailProxyURL = s.locks("executor-1", 60*time.Second), slow.URL
	cancel, wait := s.start(o)
	<-arrived
	cancel()
	close(release)
	wait()
	if log.count(`"outcome":"ACKED"`) != 1 {
		t.Errorf("the call in flight did not get its answer:\n%s", log.text.String())
	}
	if s.state(payout) != "RAIL_SUBMITTED" || s.granted("executor-1") {
		t.Errorf("payout %s, lock still held: %v; want nothing begun after the call, and the lock given back", s.state(payout), s.granted("executor-1"))
	}
}
