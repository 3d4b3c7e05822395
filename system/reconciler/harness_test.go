package reconciler

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/deploy/postgres"
	"fenceproof/deploy/postgres/postgrestest"
	"fenceproof/migrations"
	"fenceproof/system/lock/lockclient"
	"fenceproof/system/lock/lockserver"
	"fenceproof/system/lock/pgstore"
	"fenceproof/system/migrate"
	"fenceproof/system/payment"
	"fenceproof/system/payment/paymentclient"
	"fenceproof/system/rail/stub"
	"fenceproof/system/service"
	"fenceproof/system/wire"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

var (
	quiet               = slog.New(slog.DiscardHandler)
	lockdbURL, paydbURL string
	db                  *pgxpool.Pool // the tests' own look at paydb
)

func TestMain(m *testing.M) {
	os.Exit(postgrestest.Run(m, func(i *postgres.Instance) {
		lockdbURL = database(i, "lockdb", "lockapp", migrations.LockDB)
		paydbURL = database(i, "paydb", "payapp", migrations.PayDB)
		var err error
		db, err = pgxpool.New(context.Background(), paydbURL)
		must(err)
	}))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func database(i *postgres.Instance, name, owner string, all fs.FS) string {
	must(i.CreateDatabase(context.Background(), name, owner))
	history, err := fs.Sub(all, name)
	must(err)
	must(migrate.Up(context.Background(), i.URL(owner, name), history, quiet))
	return i.URL(owner, name)
}

// system is the services that a reconciler calls, real and in this process.
type system struct {
	*testing.T
	lock, payments, rail string       // URLs
	api                  http.Handler // payment-resource's
	journal              string
	account              string
	log                  *events // of the reconcilers
	client               *wire.Client
}

// newSystem starts the services. What an earlier test left open would be this one's work, so it is ended.
func newSystem(t *testing.T, o stub.Options) *system {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
	s := &system{T: t, journal: filepath.Join(t.TempDir(), "journal"), log: &events{}}
	s.exec(`UPDATE payout SET state = 'ABANDONED', claimed_by = 'test', claim_token = 1 WHERE state NOT IN ('POSTED', 'FAILED', 'ABANDONED')`)
	s.startLockServer()
	store, err := payment.OpenStore(t.Context(), paydbURL)
	s.check(err)
	s.api = payment.NewAPI(store, service.NewFencing(true, quiet), quiet, prometheus.NewRegistry()).Handler()
	s.serve(&s.payments, s.api, store.Close)
	journal, err := stub.OpenJournal(s.journal)
	s.check(err)
	s.serve(&s.rail, stub.New(o, journal, quiet).Handler(), func() { _ = journal.Close() })
	s.client = wire.NewClient(s.lock, 1)
	t.Cleanup(s.client.Close)
	s.account = uuid.NewString()
	s.exec(`INSERT INTO account (account_id, currency, balance_minor) VALUES ($1, 'EUR', $2)`, s.account, opening)
	return s
}

const opening = 1_000_000

func (s *system) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *system) serve(url *string, h http.Handler, end func()) {
	server := httptest.NewServer(h)
	*url = server.URL
	s.Cleanup(func() { server.Close(); end() })
}

func (s *system) startLockServer() {
	store, err := pgstore.Open(lockdbURL, quiet)
	s.check(err)
	locks := lockserver.New(lockserver.Options{Store: store, Backend: "pg", DefaultTTL: time.Second, SessionTTL: time.Second, MaxWaiters: 10,
		Log: quiet, Registerer: prometheus.NewRegistry()})
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = locks.Run(ctx) })
	s.serve(&s.lock, locks.Handler(), func() { cancel(); work.Wait(); store.Close() })
}

func (s *system) exec(sql string, args ...any) {
	s.Helper()
	_, err := db.Exec(context.Background(), sql, args...)
	s.check(err)
}

// newPayout inserts a payout in a state that a holder under token 1 has left it in.
func (s *system) newPayout(amount int64, state string) paymentclient.Payout {
	s.Helper()
	id := uuid.NewString()
	s.exec(`INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key, state, claimed_by, claim_token)
		VALUES ($1, $2, $3, 'EUR', $4, $5, CASE WHEN $5 <> 'PENDING' THEN 'executor-9' END, CASE WHEN $5 <> 'PENDING' THEN 1 END)`,
		id, s.account, amount, paymentclient.IdempotencyKey(id), state)
	return paymentclient.Payout{PayoutID: id, AccountID: s.account, AmountMinor: amount, Currency: "EUR"}
}

// ambiguous inserts a payout of which nobody knows whether its money has moved: its one attempt got no answer.
func (s *system) ambiguous(amount int64) paymentclient.Payout {
	s.Helper()
	p := s.newPayout(amount, "RAIL_AMBIGUOUS")
	s.exec(`INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at)
		VALUES ($1, $2, $3, 1, 'TIMEOUT', now())`, uuid.NewString(), p.PayoutID, paymentclient.IdempotencyKey(p.PayoutID))
	return p
}

// move has the rail move money, and returns its reference.
func (s *system) move(payoutID string, amount int64) string {
	s.Helper()
	c := wire.NewClient(s.rail, 1)
	defer c.Close()
	var out struct {
		RailReference string `json:"railReference"`
	}
	s.check(c.Do(s.Context(), wire.Call{Method: "POST", Path: "/submit",
		Body: map[string]any{"clientRef": payoutID, "amountMinor": amount, "currency": "EUR"}}, &out))
	return out.RailReference
}

func (s *system) state(p paymentclient.Payout) (state string) {
	s.Helper()
	s.check(db.QueryRow(context.Background(), `SELECT state FROM payout WHERE payout_id = $1`, p.PayoutID).Scan(&state))
	return state
}

// evidence is the payout's row of payout_resolution: outcome, rail reference and the sentence, "" where there is none.
func (s *system) evidence(p paymentclient.Payout) (outcome, reference, sentence string) {
	s.Helper()
	s.check(db.QueryRow(context.Background(), `SELECT coalesce(max(outcome), ''), coalesce(max(rail_reference), ''), coalesce(max(evidence), '')
		FROM payout_resolution WHERE payout_id = $1`, p.PayoutID).Scan(&outcome, &reference, &sentence))
	return outcome, reference, sentence
}

// transfers counts the journal's lines of a payout.
func (s *system) transfers(p paymentclient.Payout) (n int) {
	s.Helper()
	text, err := os.ReadFile(s.journal)
	s.check(err)
	for line := range bytes.Lines(text) {
		var t stub.Transfer
		s.check(json.Unmarshal(line, &t))
		if t.ClientRef == p.PayoutID {
			n++
		}
	}
	return n
}

// held tells who holds the account's lock, "" for nobody.
func (s *system) held() string {
	s.Helper()
	var out struct {
		Held    bool   `json:"held"`
		OwnerID string `json:"ownerId"`
	}
	s.check(s.client.Do(context.Background(), wire.Call{Method: "GET", Path: "/v1/locks/" + paymentclient.LockKey(s.account)}, &out))
	if !out.Held {
		return ""
	}
	return out.OwnerID
}

// locks is a lock client of an owner.
func (s *system) locks(owner string) *lockclient.Client {
	c, err := lockclient.New(lockclient.Options{BaseURL: s.lock, OwnerID: owner, SessionTTL: time.Minute, Margin: 0.3, Log: quiet, Registerer: prometheus.NewRegistry()})
	s.check(err)
	s.Cleanup(c.Farewell)
	return c
}

// reconciler is one whose rounds the test drives itself. Leases and timeouts are those of a machine that may be slow.
func (s *system) reconciler(window time.Duration, change func(*Options)) *Reconciler {
	s.Helper()
	o := Options{OwnerID: "reconciler", Locks: s.locks("reconciler"), LeaseTTL: time.Minute, PaymentResourceURL: s.payments, RailURL: s.rail,
		Interval: 5 * time.Millisecond, Window: window, StepTimeout: 20 * time.Second, Log: slog.New(slog.NewJSONHandler(s.log, nil)), Registerer: prometheus.NewRegistry()}
	if change != nil {
		change(&o)
	}
	r := New(o)
	s.Cleanup(func() { r.payments.Close(); r.rail.Close() })
	return r
}

// run does one round, in which every server answers.
func (s *system) run(r *Reconciler) {
	s.Helper()
	s.check(r.round(s.Context()))
	if owner := s.held(); owner == r.options.OwnerID {
		s.Fatal("the round is over and the reconciler still holds the lock")
	}
}

// want fails unless the payout is in the state, and its evidence is of that outcome.
func (s *system) want(p paymentclient.Payout, state, outcome string) {
	s.Helper()
	got, _, sentence := s.evidence(p)
	if s.state(p) != state || got != outcome {
		s.Fatalf("payout is %s by evidence %q (%s), want %s by %q; the reconciler says\n%s", s.state(p), got, sentence, state, outcome, s.log)
	}
}

// pass lets the window go by for a payout, in the reconciler's eyes.
func (r *Reconciler) pass(p paymentclient.Payout) {
	s := r.seen[p.PayoutID]
	s.first = s.first.Add(-r.options.Window - time.Nanosecond)
}

// onResolve puts do in the way of P8. It may pass the request on to payment-resource, s.api.
func (s *system) onResolve(do http.HandlerFunc) {
	s.serve(&s.payments, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/resolve") {
			do(w, r)
			return
		}
		s.api.ServeHTTP(w, r)
	}), func() {})
}

// events is a log whose lines can be counted.
type events struct {
	mu   sync.Mutex
	text strings.Builder
}

func (e *events) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.Write(b)
}

func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.String()
}

func (e *events) count(part string) int { return strings.Count(e.String(), part) }

// eventually waits until holds does; only the condition ends the wait well.
func (s *system) eventually(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	s.Fatalf("it never happened: %s; the reconciler says\n%s", what, s.log)
}
