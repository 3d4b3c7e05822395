package reconciler

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/system/executor"
	"fenceproof/system/lock/lockclient"
	"fenceproof/system/payment/paymentclient"
	"fenceproof/system/rail/proxy"
	"fenceproof/system/rail/stub"
	"fenceproof/system/service"
	"fenceproof/system/wire"

	"github.com/prometheus/client_golang/prometheus"
)

// startExecutor starts an executor, with the proxy that it submits to, until the test ends.
func (s *system) startExecutor() {
	attempts, err := proxy.OpenStore(s.Context(), paydbURL, 20*time.Second)
	s.check(err)
	p := proxy.New(proxy.Options{Store: attempts, RailURL: s.rail, Timeout: 20 * time.Second, Fencing: service.NewFencing(true, quiet), Log: quiet, Registerer: prometheus.NewRegistry()})
	var proxyURL string
	s.serve(&proxyURL, p.Handler(), p.Close)
	locks := s.locks("executor-1")
	e := executor.New(executor.Options{OwnerID: "executor-1", PaymentResourceURL: s.payments, RailProxyURL: proxyURL, Concurrency: 2,
		StepTimeout: 20 * time.Second, Poll: 10 * time.Millisecond, Log: quiet, Registerer: prometheus.NewRegistry(),
		Acquire: func(ctx context.Context, key string) (executor.Lease, error) {
			l, err := locks.Acquire(ctx, key, time.Minute, 0)
			if err != nil {
				return nil, err
			}
			return l, nil
		}})
	s.background(e.Run)
}

// background runs a loop until the test ends or stop is called, which waits for its end.
func (s *system) background(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		if err := run(ctx); !errors.Is(err, context.Canceled) {
			s.Errorf("run: %v", err)
		}
	})
	stop = func() { cancel(); work.Wait() }
	s.Cleanup(stop)
	return stop
}

func TestPayoutsWhoseReplyWasLostArePostedOnceTheRailShowsThem(t *testing.T) {
	s := newSystem(t, stub.Options{DuplicateAckRate: 0.5, LookupLag: 50 * time.Millisecond, Seed: 3})
	var payouts []paymentclient.Payout
	for range 12 {
		payouts = append(payouts, s.newPayout(100, "PENDING"))
	}
	s.startExecutor()
	s.background(s.reconciler(time.Hour, nil).Run)
	for _, p := range payouts {
		s.eventually("every payout is posted", func() bool { return s.state(p) == "POSTED" })
	}
	resolved := 0
	for _, p := range payouts {
		if n := s.transfers(p); n != 1 {
			t.Errorf("payout %s moved money %d times", p.PayoutID, n)
		}
		if outcome, _, _ := s.evidence(p); outcome == "ACKED" {
			resolved++
		}
	}
	if resolved == 0 || resolved == len(payouts) {
		t.Errorf("%d of %d payouts were resolved; the seed must bring both", resolved, len(payouts))
	}
	var balance int64
	s.check(db.QueryRow(t.Context(), `SELECT balance_minor FROM account WHERE account_id = $1`, s.account).Scan(&balance))
	if balance != opening-1200 {
		t.Errorf("balance %d", balance)
	}
}

func TestAbsenceIsEvidenceOnlyAfterTheWindow(t *testing.T) {
	s := newSystem(t, stub.Options{})
	p := s.ambiguous(100)
	r := s.reconciler(time.Hour, nil)
	s.run(r)
	s.run(r)
	s.want(p, "RAIL_AMBIGUOUS", "")
	r.pass(p)
	after := time.Now()
	s.run(r)
	s.want(p, "FAILED", "ABSENT")
	_, _, sentence := s.evidence(p)
	at, err := time.Parse(time.RFC3339Nano, regexp.MustCompile(`\S+Z`).FindString(sentence))
	if err != nil || at.Before(after.Add(-time.Millisecond)) {
		t.Errorf("the evidence is %q and must be a look-up after %s: %v", sentence, after, err)
	}
	if len(r.seen) != 1 || s.log.count("payout_resolved") != 1 {
		t.Errorf("log:\n%s", s.log)
	}
	s.run(r)
	if len(r.seen) != 0 {
		t.Error("a payout that is over is still kept")
	}
}

func TestAfterARestartTheWindowBeginsAnew(t *testing.T) {
	s := newSystem(t, stub.Options{})
	p := s.ambiguous(100)
	old := s.reconciler(time.Hour, nil)
	s.run(old)
	old.pass(p) // its next round would say ABSENT; it dies before
	again := s.reconciler(time.Hour, nil)
	s.run(again)
	s.want(p, "RAIL_AMBIGUOUS", "")
	again.pass(p)
	s.run(again)
	s.want(p, "FAILED", "ABSENT")
}

func TestATransferThatTheLookUpShowsLateIsFoundAndNotCalledAbsent(t *testing.T) {
	for name, o := range map[string]stub.Options{"because it was late": {}, "because the look-up lags": {LookupLag: 200 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, o)
			p := s.ambiguous(100)
			var reference string
			if o.LookupLag > 0 {
				reference = s.move(p.PayoutID, 100)
			}
			r := s.reconciler(time.Hour, nil)
			s.run(r)
			if reference == "" {
				s.want(p, "RAIL_AMBIGUOUS", "")
				reference = s.move(p.PayoutID, 100)
			}
			s.eventually("the look-up shows it", func() bool { s.run(r); return s.state(p) != "RAIL_AMBIGUOUS" })
			s.want(p, "RAIL_ACKED", "ACKED")
			if _, got, _ := s.evidence(p); got != reference {
				t.Errorf("resolved with reference %q, the rail's is %q", got, reference)
			}
		})
	}
}

func TestALookUpThatWasSentInTheWindowIsNoEvidenceHoweverLateItsAnswer(t *testing.T) {
	s := newSystem(t, stub.Options{})
	p := s.ambiguous(100)
	const window = 1500 * time.Millisecond
	first := time.Now()
	s.serve(&s.rail, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for time.Since(first) <= window {
			time.Sleep(10 * time.Millisecond)
		}
		_, _ = w.Write([]byte(`{"transfers":[]}`))
	}), func() {})
	r := s.reconciler(window, nil)
	r.seen[p.PayoutID] = &sighting{first: first}
	if end, err := r.look(t.Context(), p, r.seen[p.PayoutID]); end != resultWaiting || err != nil {
		t.Errorf("the first look ends %s, %v", end, err)
	}
	s.want(p, "RAIL_AMBIGUOUS", "")
	if end, err := r.look(t.Context(), p, r.seen[p.PayoutID]); end != resultAbsent || err != nil {
		t.Errorf("a look after the window ends %s, %v", end, err)
	}
}

func TestWhatDoesNotFitIsAnErrorAndSaidOnce(t *testing.T) {
	s := newSystem(t, stub.Options{})
	twice, wrong := s.ambiguous(100), s.ambiguous(100)
	first := s.move(twice.PayoutID, 100)
	s.move(twice.PayoutID, 100)
	s.move(wrong.PayoutID, 99)
	r := s.reconciler(time.Hour, nil)
	s.run(r)
	r.pass(wrong)
	s.run(r)
	s.run(r)
	s.want(twice, "RAIL_ACKED", "ACKED") // its money has moved
	if _, got, _ := s.evidence(twice); got != first {
		t.Errorf("resolved with reference %q, the first transfer's is %q", got, first)
	}
	s.want(wrong, "RAIL_AMBIGUOUS", "") // nobody here knows what that money is
	if n := s.log.count("transfer_mismatch"); n != 2 || s.log.count(`"level":"ERROR"`) != 2 {
		t.Errorf("%d alarms:\n%s", n, s.log)
	}
}

func TestAnAnswerThatListsNoTransfersOfThePayoutIsNoEvidence(t *testing.T) {
	for name, answer := range map[string]string{
		"an empty object":        `{}`,
		"no list":                `{"transfers":null}`,
		"another system's page":  `<html>rail</html>`,
		"nothing":                ``,
		"another payout's money": `{"transfers":[{"clientRef":"another","amountMinor":100,"currency":"EUR","railReference":"r"}]}`,
		"no reference":           `{"transfers":[{"clientRef":"$","amountMinor":100,"currency":"EUR"}]}`,
		"an error":               "500",
		"a redirect":             "302",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, stub.Options{})
			p := s.ambiguous(100)
			s.serve(&s.rail, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch answer {
				case "500":
					w.WriteHeader(http.StatusInternalServerError)
				case "302":
					http.Redirect(w, r, "/elsewhere", http.StatusFound)
				default:
					_, _ = w.Write([]byte(strings.ReplaceAll(answer, "$", p.PayoutID)))
				}
			}), func() {})
			r := s.reconciler(0, nil) // whatever counts as an answer, counts as absence at once
			if err := r.round(t.Context()); err == nil || !strings.Contains(err.Error(), p.PayoutID) {
				t.Errorf("the round's error is %v", err)
			}
			s.want(p, "RAIL_AMBIGUOUS", "")
		})
	}
}

// takeOver is an executor that gets the account's lock while the reconciler believes that it holds it, claims a payout
// there, and gives the lock back.
func (s *system) takeOver(locks *lockclient.Client, payments string, p paymentclient.Payout) {
	key := paymentclient.LockKey(s.account)
	s.check(s.client.Do(s.Context(), wire.Call{Method: "POST", Path: "/v1/locks/" + key + "/revoke",
		Body: map[string]any{"operator": "test", "reason": "as if its lease had run out"}}, nil))
	lease, err := locks.Acquire(s.Context(), key, time.Minute, 0)
	s.check(err)
	c := wire.NewClient(payments, 1)
	defer c.Close()
	s.check(c.Do(s.Context(), paymentclient.Protected("claim", p.PayoutID, "executor-1", lease.Token(), map[string]any{"expectedState": "PENDING"}), nil))
	s.check(lease.Release(s.Context()))
}

func TestAReconcilerThatLostItsLockIsFencedOutAndComesBackLater(t *testing.T) {
	s := newSystem(t, stub.Options{})
	p, pending := s.ambiguous(100), s.newPayout(7, "PENDING")
	reference := s.move(p.PayoutID, 100)
	newer, payments := s.locks("executor-1"), s.payments
	var once sync.Once
	s.onResolve(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { s.takeOver(newer, payments, pending) })
		s.api.ServeHTTP(w, r)
	})
	r := s.reconciler(time.Hour, nil)
	s.run(r)
	s.want(p, "RAIL_AMBIGUOUS", "")
	if s.log.count(`"result":"fenced"`) != 1 {
		t.Errorf("log:\n%s", s.log)
	}
	s.run(r)
	s.want(p, "RAIL_ACKED", "ACKED")
	if _, got, _ := s.evidence(p); got != reference {
		t.Errorf("reference %q, the rail's is %q", got, reference)
	}
}

func TestAnAccountThatAnotherHolderHasIsLeftToALaterRound(t *testing.T) {
	s := newSystem(t, stub.Options{})
	p := s.ambiguous(100)
	s.move(p.PayoutID, 100)
	holder, err := s.locks("executor-1").Acquire(t.Context(), paymentclient.LockKey(s.account), time.Minute, 0)
	s.check(err)
	r := s.reconciler(time.Hour, func(o *Options) { o.LeaseTTL, o.StepTimeout = 2*time.Second, time.Second })
	s.run(r)
	s.want(p, "RAIL_AMBIGUOUS", "")
	s.check(holder.Release(t.Context()))
	s.run(r)
	s.want(p, "RAIL_ACKED", "ACKED")
}

func TestAResolutionThatTheLeaseDoesNotCoverIsNotBegun(t *testing.T) {
	s := newSystem(t, stub.Options{})
	p := s.ambiguous(100)
	s.move(p.PayoutID, 100)
	s.onResolve(func(w http.ResponseWriter, r *http.Request) { t.Error("it resolves"); s.api.ServeHTTP(w, r) })
	s.run(s.reconciler(time.Hour, func(o *Options) { o.LeaseTTL, o.StepTimeout = time.Second, time.Second })) // 0.7 s are usable
	s.want(p, "RAIL_AMBIGUOUS", "")
	if s.log.count(`"result":"stopped"`) != 1 {
		t.Errorf("log:\n%s", s.log)
	}
}

func TestAResolutionWhoseAnswerIsLostIsFoundDoneInTheNextRound(t *testing.T) {
	s := newSystem(t, stub.Options{})
	p := s.ambiguous(100)
	s.move(p.PayoutID, 100)
	s.onResolve(func(_ http.ResponseWriter, r *http.Request) {
		s.api.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
	r := s.reconciler(time.Hour, nil)
	s.run(r)
	s.want(p, "RAIL_ACKED", "ACKED")
	if s.log.count(`"result":"unknown"`) != 1 {
		t.Errorf("log:\n%s", s.log)
	}
	s.run(r)
	s.want(p, "RAIL_ACKED", "ACKED")
}

func TestAPayoutThatSomebodyElseResolvedMeanwhileStaysAsItIs(t *testing.T) {
	s := newSystem(t, stub.Options{})
	p := s.ambiguous(100)
	s.onResolve(func(w http.ResponseWriter, r *http.Request) {
		s.exec(`UPDATE payout SET state = 'ABANDONED' WHERE payout_id = $1`, p.PayoutID)
		s.api.ServeHTTP(w, r)
	})
	r := s.reconciler(time.Hour, nil)
	s.run(r)
	r.pass(p)
	s.run(r)
	s.want(p, "ABANDONED", "")
	if s.log.count(`"result":"refused"`) != 1 {
		t.Errorf("log:\n%s", s.log)
	}
}

func TestAResolutionInFlightIsFinishedWhenTheProcessStops(t *testing.T) {
	s := newSystem(t, stub.Options{})
	p := s.ambiguous(100)
	s.move(p.PayoutID, 100)
	arrived, release := make(chan struct{}), make(chan struct{})
	s.onResolve(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-release
		s.api.ServeHTTP(w, r)
	})
	stop := s.background(s.reconciler(time.Hour, nil).Run)
	<-arrived
	go close(release)
	stop()
	s.want(p, "RAIL_ACKED", "ACKED")
	if s.log.count("payout_resolved") != 1 || s.held() != "" {
		t.Errorf("held by %q:\n%s", s.held(), s.log)
	}
}

func TestMoreThanAPageOfAmbiguousPayoutsIsReadWhole(t *testing.T) {
	s := newSystem(t, stub.Options{})
	s.exec(`INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key, state, claimed_by, claim_token)
		SELECT gen_random_uuid(), $1::uuid, 1, 'EUR', 'payout-' || n || ($1::uuid)::text, 'RAIL_AMBIGUOUS', 'executor-9', 1 FROM generate_series(1, $2) AS n`, s.account, pageSize+1)
	all, err := s.reconciler(time.Hour, nil).list(t.Context())
	s.check(err)
	if len(all) != pageSize+1 {
		t.Errorf("%d payouts are listed", len(all))
	}
}

func TestItIsNotReadyWhileAServerDoesNotAnswer(t *testing.T) {
	for name, down := range map[string]func(*Options){
		"payment-resource": func(o *Options) { o.PaymentResourceURL = "http://127.0.0.1:1" },
		"the rail":         func(o *Options) { o.RailURL = "http://127.0.0.1:1" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, stub.Options{})
			s.ambiguous(100)
			r := s.reconciler(time.Hour, down)
			s.background(r.Run)
			s.eventually("it says that it is not ready", func() bool { return r.Ready(t.Context()) != nil && s.log.count("round_failed") > 0 })
		})
	}
}

func TestNoMetricLabelHoldsAKeyAnIDOrAToken(t *testing.T) {
	s := newSystem(t, stub.Options{})
	p := s.ambiguous(100)
	s.move(p.PayoutID, 100)
	r := s.reconciler(time.Hour, nil)
	s.run(r)
	families, err := r.options.Registerer.(*prometheus.Registry).Gather()
	s.check(err)
	word := regexp.MustCompile(`^[a-z]+$`)
	acked := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !word.MatchString(l.GetValue()) {
					t.Errorf("%s has label %s=%q", f.GetName(), l.GetName(), l.GetValue())
				}
				if l.GetValue() == string(resultAcked) {
					acked = m.GetCounter().GetValue()
				}
			}
		}
	}
	if acked != 1 {
		t.Errorf("%v resolutions are counted", acked)
	}
}
