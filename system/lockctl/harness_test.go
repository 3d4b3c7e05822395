package lockctl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/deploy/postgres"
	"fenceproof/deploy/postgres/postgrestest"
	"fenceproof/migrations"
	"fenceproof/system/lock"
	"fenceproof/system/lock/lockserver"
	"fenceproof/system/lock/pgstore"
	"fenceproof/system/lockctl"
	"fenceproof/system/migrate"
	"fenceproof/system/payment"
	"fenceproof/system/service"
	"fenceproof/system/wire"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

var (
	quiet     = slog.New(slog.DiscardHandler)
	server    *postgres.Instance
	databases atomic.Int32
)

func TestMain(m *testing.M) {
	status := postgrestest.Run(m, func(i *postgres.Instance) {
		server = i
		template("lockdb", "lockapp", migrations.LockDB)
		template("paydb", "payapp", migrations.PayDB)
	})
	if err := goleak.Find(); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// system is what lockctl talks to: a lock-server and a payment-resource, real and in this process, on databases of the
// test's own.
type system struct {
	*testing.T
	lockdb, paydb         string // names
	lock, admin, payments string // URLs
	inFront               func(http.Handler) http.Handler
	extra                 []string // further environment
	store                 lock.Store
	stopLock              func() // ends lock-server and its connections
}

func newSystem(t *testing.T) *system {
	t.Helper()
	n := databases.Add(1)
	s := &system{T: t, lockdb: fmt.Sprint("lockdb", n), paydb: fmt.Sprint("paydb", n)}
	s.copyDatabase("lockdb", s.lockdb, "lockapp")
	s.copyDatabase("paydb", s.paydb, "payapp")
	s.startLockServer()
	store, err := payment.OpenStore(t.Context(), server.URL("payapp", s.paydb))
	s.check(err)
	s.payments = s.serve(payment.NewAPI(store, service.NewFencing(true, quiet), quiet, prometheus.NewRegistry()).Handler(), store.Close)
	return s
}

func (s *system) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// template makes a migrated database, of which every test gets copies.
func template(name, owner string, all fs.FS) {
	ctx := context.Background()
	history, err := fs.Sub(all, name)
	if err == nil {
		err = server.CreateDatabase(ctx, name, owner)
	}
	if err == nil {
		err = migrate.Up(ctx, server.URL(owner, name), history, quiet)
	}
	if err != nil {
		panic(err)
	}
}

func (s *system) copyDatabase(from, to, owner string) {
	s.Helper()
	s.exec(server.SuperURL("postgres"), fmt.Sprintf(`CREATE DATABASE %q TEMPLATE %q OWNER %q`, to, from, owner))
}

// serve serves h, behind what the test puts in front of it.
func (s *system) serve(h http.Handler, end func()) string {
	v := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.inFront != nil {
			s.inFront(h).ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	}))
	s.Cleanup(func() { v.Close(); end() })
	return v.URL
}

// startLockServer starts one on lockdb as it is now.
func (s *system) startLockServer() {
	s.Helper()
	store, err := pgstore.Open(server.URL("lockapp", s.lockdb), quiet)
	s.check(err)
	s.serveLock(store, "pg")
}

func (s *system) serveLock(store lock.Store, backend string) {
	s.Helper()
	l := lockserver.New(lockserver.Options{Store: store, Backend: backend, DefaultTTL: 30 * time.Second, SessionTTL: 30 * time.Second, MaxWaiters: 10,
		Log: quiet, Registerer: prometheus.NewRegistry()})
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = l.Run(ctx) })
	var once sync.Once
	s.store = store
	s.stopLock = func() { once.Do(func() { cancel(); work.Wait(); store.Close() }) }
	s.lock = s.serve(l.Handler(), s.stopLock)
	private := chi.NewRouter()
	l.Routes(private)
	s.admin = s.serve(private, func() {})
}

// said is what a run of lockctl has left.
type said struct {
	status   int
	out, err string
}

// ctl runs lockctl; nobody sits at a terminal.
func (s *system) ctl(args ...string) said {
	s.Helper()
	var out, err bytes.Buffer
	status := lockctl.Run(s.Context(), args, s.environ(), lockctl.Streams{In: strings.NewReader(""), Out: &out, Err: &err})
	return said{status, out.String(), err.String()}
}

func (s *system) environ() []string {
	return append([]string{"LOCK_CTL_SERVERURL=" + s.lock, "LOCK_CTL_ADMINURL=" + s.admin, "LOCK_CTL_PAYMENTRESOURCEURL=" + s.payments,
		"LOCK_DATASOURCE_URL=" + server.URL("lockapp", s.lockdb), "PAYMENTS_DATASOURCE_URL=" + server.URL("payapp", s.paydb)}, s.extra...)
}

// want fails the test unless the run ended with status and said all of parts.
func (s *system) want(r said, status int, parts ...string) said {
	s.Helper()
	for _, p := range parts {
		if !strings.Contains(r.out+r.err, p) {
			s.Fatalf("status %d, want %q in it\n%s%s", r.status, p, r.out, r.err)
		}
	}
	if r.status != status {
		s.Fatalf("status %d, want %d\n%s%s", r.status, status, r.out, r.err)
	}
	return r
}

// because is what every deed of these tests is done with.
var because = []string{"--operator", "olga", "--reason", "it hangs since noon", "--yes"}

func deed(args ...string) []string { return append(args, because...) }

func (s *system) session(owner string) string {
	s.Helper()
	x, err := s.store.OpenSession(s.Context(), owner, time.Minute)
	s.check(err)
	return x.ID
}

func (s *system) acquire(key, owner, session string) int64 {
	s.Helper()
	a, err := s.store.TryAcquire(s.Context(), key, owner, session, time.Minute)
	s.check(err)
	return a.FencingToken
}

// hold has owner hold key in a session of its own.
func (s *system) hold(key, owner string) int64 {
	s.Helper()
	return s.acquire(key, owner, s.session(owner))
}

func (s *system) held(key string) lock.Inspection {
	s.Helper()
	i, err := s.store.Inspect(s.Context(), key)
	s.check(err)
	return i
}

// eventually polls a condition until it holds.
func (s *system) eventually(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	s.Errorf("%s: not within 20 s", what)
}

// account makes an account, and payouts of 100 in the states that are named; token is who claimed them.
func (s *system) account(token int64, states ...string) (account string, payouts []string) {
	s.Helper()
	account = uuid.NewString()
	s.pay(`INSERT INTO account (account_id, currency, balance_minor) VALUES ($1, 'EUR', 100000)`, account)
	for _, state := range states {
		id := uuid.NewString()
		var by, under any
		if state != "PENDING" {
			by, under = "executor-1", token
		}
		s.pay(`INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key, state, claimed_by, claim_token)
			VALUES ($1, $2, 100, 'EUR', $3, $4, $5, $6)`, id, account, "payout-"+id, state, by, under)
		payouts = append(payouts, id)
	}
	return account, payouts
}

func (s *system) pay(sql string, args ...any) {
	s.Helper()
	s.exec(server.URL("payapp", s.paydb), sql, args...)
}

func (s *system) exec(url, sql string, args ...any) {
	s.Helper()
	c, err := pgx.Connect(s.Context(), url)
	s.check(err)
	defer c.Close(context.Background())
	_, err = c.Exec(s.Context(), sql, args...)
	s.check(err)
}

func (s *system) value(url, sql string, args ...any) (text string) {
	s.Helper()
	c, err := pgx.Connect(s.Context(), url)
	s.check(err)
	defer c.Close(context.Background())
	s.check(c.QueryRow(s.Context(), sql, args...).Scan(&text))
	return text
}

// payout is the payout's state, and who resolved it how.
func (s *system) payout(id string) string {
	s.Helper()
	return s.value(server.URL("payapp", s.paydb), `SELECT concat_ws(' ', state, claimed_by, r.operator, r.reason, r.token)
		FROM payout LEFT JOIN payout_resolution r USING (payout_id) WHERE payout_id = $1`, id)
}

// protected is a call on a payout under a token; the code of a refusal, "" for none.
func (s *system) protected(verb, payout, owner string, token int64, body any) wire.Code {
	s.Helper()
	c := wire.NewClient(s.payments, 1)
	defer c.Close()
	err := c.Do(s.Context(), wire.Call{Method: "POST", Path: "/v1/payouts/" + payout + "/" + verb, Owner: owner, Token: token,
		Idempotency: "payout-" + payout, Body: body}, nil)
	var e *wire.Error
	if err != nil && !errors.As(err, &e) {
		s.Fatal(err)
	}
	return wire.CodeOf(err)
}

func (s *system) claim(payout, owner string, token int64, state string) wire.Code {
	s.Helper()
	return s.protected("claim", payout, owner, token, map[string]string{"expectedState": state})
}

// carriedOutAndCutOff is what is in front of a server whose answers to path get lost, as often as left says.
func carriedOutAndCutOff(suffix string, left *atomic.Int32) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, suffix) || left.Add(-1) < 0 {
				h.ServeHTTP(w, r)
				return
			}
			h.ServeHTTP(httptest.NewRecorder(), r)
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			_ = conn.Close()
		})
	}
}
