package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
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
	"fenceproof/system/rail/proxy"
	"fenceproof/system/rail/stub"
	"fenceproof/system/service"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
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

// system is the five services, real and in this process, but for the executors.
type system struct {
	*testing.T
	lock, payments, proxy string // URLs
	journal               string
	account               string
}

func newSystem(t *testing.T, o stub.Options) *system {
	t.Helper()
	s := &system{T: t, journal: filepath.Join(t.TempDir(), "journal")}
	// What an earlier test left open would be this one's work.
	s.exec(`UPDATE payout SET state = 'ABANDONED', claimed_by = 'test', claim_token = 1 WHERE state NOT IN ('POSTED', 'FAILED', 'ABANDONED')`)
	s.lock = s.startLockServer("127.0.0.1:0")
	store, err := payment.OpenStore(t.Context(), paydbURL)
	s.check(err)
	s.serve(&s.payments, payment.NewAPI(store, service.NewFencing(true, quiet), quiet, prometheus.NewRegistry()).Handler(), store.Close)
	journal, err := stub.OpenJournal(s.journal)
	s.check(err)
	var rail string
	s.serve(&rail, stub.New(o, journal, quiet).Handler(), func() { _ = journal.Close() })
	attempts, err := proxy.OpenStore(t.Context(), paydbURL, 20*time.Second)
	s.check(err)
	p := proxy.New(proxy.Options{Store: attempts, RailURL: rail, Timeout: 20 * time.Second, Fencing: service.NewFencing(true, quiet), Log: quiet,
		Registerer: prometheus.NewRegistry()})
	s.serve(&s.proxy, p.Handler(), p.Close)
	s.account = s.newAccount()
	return s
}

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

// startLockServer serves lockdb at address and returns its URL.
func (s *system) startLockServer(address string) string {
	s.Helper()
	store, err := pgstore.Open(lockdbURL, quiet)
	s.check(err)
	locks := lockserver.New(lockserver.Options{Store: store, Backend: "pg", DefaultTTL: time.Second, SessionTTL: time.Second, MaxWaiters: 10,
		Log: quiet, Registerer: prometheus.NewRegistry()})
	l, err := net.Listen("tcp", address)
	s.check(err)
	server := &http.Server{Handler: locks.Handler()}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = server.Serve(l) })
	work.Go(func() { _ = locks.Run(ctx) })
	s.Cleanup(func() {
		cancel()
		_ = server.Close()
		work.Wait()
		store.Close()
	})
	return "http://" + l.Addr().String()
}

const opening = 1_000_000

func (s *system) newAccount() string {
	id := uuid.NewString()
	s.exec(`INSERT INTO account (account_id, currency, balance_minor) VALUES ($1, 'EUR', $2)`, id, opening)
	return id
}

func (s *system) newPayout(account string, amount int64) string {
	return s.newPayoutWithID(uuid.NewString(), account, amount)
}

// newPayoutWithID is newPayout for a test in which the id decides: rail-stub draws a payout's fate from its seed and the id.
func (s *system) newPayoutWithID(id, account string, amount int64) string {
	s.exec(`INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key) VALUES ($1, $2, $3, 'EUR', $4)`,
		id, account, amount, "payout-"+id)
	return id
}

func (s *system) exec(sql string, args ...any) {
	s.Helper()
	_, err := db.Exec(context.Background(), sql, args...)
	s.check(err)
}

func (s *system) state(payout string) (state string) {
	s.Helper()
	s.check(db.QueryRow(context.Background(), `SELECT state FROM payout WHERE payout_id = $1`, payout).Scan(&state))
	return state
}

func (s *system) balance(account string) (minor int64) {
	s.Helper()
	s.check(db.QueryRow(context.Background(), `SELECT balance_minor FROM account WHERE account_id = $1`, account).Scan(&minor))
	return minor
}

// transfers counts the journal's lines of a payout.
func (s *system) transfers(payout string) int {
	s.Helper()
	text, err := os.ReadFile(s.journal)
	s.check(err)
	n := 0
	for line := range bytes.Lines(text) {
		var t stub.Transfer
		s.check(json.Unmarshal(line, &t))
		if t.ClientRef == payout {
			n++
		}
	}
	return n
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

func (e *events) count(part string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Count(e.text.String(), part)
}

// executorOptions are those of the tests' executors.
func (s *system) executorOptions(owner string, log *events) Options {
	return Options{OwnerID: owner, PaymentResourceURL: s.payments, RailProxyURL: s.proxy, Concurrency: 4, StepTimeout: 20 * time.Second,
		Poll: 20 * time.Millisecond, Log: slog.New(slog.NewJSONHandler(log, nil)), Registerer: prometheus.NewRegistry()}
}

// locks is the SDK's Acquire for an owner, with leases of ttl.
func (s *system) locks(owner string, ttl time.Duration) Acquire {
	c, err := lockclient.New(lockclient.Options{BaseURL: s.lock, OwnerID: owner, SessionTTL: ttl, Margin: 0.3, Log: quiet, Registerer: prometheus.NewRegistry()})
	s.check(err)
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx) // a lock server that is gone by now ends the session by its TTL
	})
	return func(ctx context.Context, key string) (Lease, error) {
		l, err := c.Acquire(ctx, key, ttl, 0)
		if err != nil {
			return nil, err
		}
		return l, nil
	}
}

// start runs an executor until the test ends or cancel is called; wait waits until it has ended.
func (s *system) start(o Options) (cancel, wait func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	e := New(o)
	go func() {
		defer close(done)
		if err := e.Run(ctx); !errors.Is(err, context.Canceled) {
			s.Errorf("run: %v", err)
		}
	}()
	wait = func() { <-done }
	s.Cleanup(func() { cancel(); wait() })
	return cancel, wait
}

// startExecutor starts a healthy executor, with leases and timeouts that a slow machine does not use up.
func (s *system) startExecutor(owner string) *events {
	log := &events{}
	o := s.executorOptions(owner, log)
	o.Acquire = s.locks(owner, 60*time.Second)
	s.start(o)
	return log
}

// eventually waits until holds does; only the condition ends the wait well.
func (s *system) eventually(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	s.Fatalf("it never happened: %s", what)
}
