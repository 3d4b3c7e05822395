package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/deploy/postgres"
	"fenceproof/deploy/postgres/postgrestest"
	"fenceproof/migrations"
	"fenceproof/system/migrate"
	"fenceproof/system/rail/proxy"
	"fenceproof/system/service"
	"fenceproof/system/wire"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

var (
	paydb    *postgres.Instance
	paydbURL string
	db       *pgxpool.Pool // the test's own look at paydb
	quiet    = slog.New(slog.DiscardHandler)
)

func TestMain(m *testing.M) {
	os.Exit(postgrestest.Run(m, func(i *postgres.Instance) {
		paydb = i
		ctx := context.Background()
		must(i.CreateDatabase(ctx, "paydb", "payapp"))
		paydbURL = i.URL("payapp", "paydb")
		history, err := fs.Sub(migrations.PayDB, "paydb")
		must(err)
		must(migrate.Up(ctx, paydbURL, history, quiet))
		db, err = pgxpool.New(ctx, paydbURL)
		must(err)
	}))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// noLeak fails t when a goroutine outlives it; the pool of the tests themselves stays.
func noLeak(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
}

// stage is one proxy in front of one rail, with an account and a payout of its own.
type stage struct {
	*testing.T
	url             string
	client          *wire.Client
	account, payout string
	proxy           *proxy.Proxy
	registry        *prometheus.Registry
	log             *strings.Builder
}

type setting struct {
	fencingOff bool
	timeout    time.Duration // 5s when 0
	paydb      string        // paydbURL when ""
}

func newStage(t *testing.T, railURL string, s setting) *stage {
	t.Helper()
	if s.timeout == 0 {
		s.timeout = 5 * time.Second
	}
	if s.paydb == "" {
		s.paydb = paydbURL
	}
	store, err := proxy.OpenStore(t.Context(), s.paydb, s.timeout)
	if err != nil {
		t.Fatal(err)
	}
	st := &stage{T: t, account: uuid.NewString(), payout: uuid.NewString(), registry: prometheus.NewRegistry(), log: &strings.Builder{}}
	log := slog.New(slog.NewJSONHandler(&locked{w: st.log}, nil))
	st.proxy = proxy.New(proxy.Options{Store: store, RailURL: railURL, Timeout: s.timeout,
		Fencing: service.NewFencing(!s.fencingOff, log), Log: log, Registerer: st.registry})
	server := httptest.NewServer(st.proxy.Handler())
	st.url, st.client = server.URL, wire.NewClient(server.URL, 4)
	t.Cleanup(func() {
		st.client.Close()
		server.Close()
		st.proxy.Close()
	})
	st.exec(`INSERT INTO account (account_id, currency, balance_minor) VALUES ($1, 'EUR', 100000)`, st.account)
	st.addPayout(st.payout)
	return st
}

// locked serialises the writers of one log.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func (s *stage) addPayout(id string) {
	s.exec(`INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key) VALUES ($1, $2, 2500, 'EUR', $3)`,
		id, s.account, "payout-"+id)
}

func (s *stage) exec(sql string, args ...any) {
	s.Helper()
	if _, err := db.Exec(context.Background(), sql, args...); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

// answer is R1's 200.
type answer struct {
	SubmissionID  string `json:"submissionId"`
	Outcome       string `json:"outcome"`
	RailReference string `json:"railReference"`
}

func (s *stage) body() map[string]any {
	return map[string]any{"payoutId": s.payout, "accountId": s.account, "amountMinor": 2500, "currency": "EUR", "beneficiaryRef": "b-1"}
}

func (s *stage) submit(token int64) (answer, error) {
	return s.submitBody(s.Context(), token, s.body())
}

func (s *stage) submitBody(ctx context.Context, token int64, body any) (answer, error) {
	var a answer
	err := s.client.Do(ctx, wire.Call{Method: http.MethodPost, Path: "/v1/rail/submissions", Owner: "executor-1", Token: token,
		Idempotency: "payout-" + s.payout, Body: body}, &a)
	return a, err
}

// row is one rail_submission.
type row struct {
	ID, Outcome, Reference string
	Token                  int64
	Resolved               bool
}

func (s *stage) rows() []row {
	s.Helper()
	r, err := db.Query(context.Background(), `SELECT submission_id::text, coalesce(outcome, ''), coalesce(rail_reference, ''),
		presented_token, resolved_at IS NOT NULL FROM rail_submission WHERE payout_id = $1 ORDER BY submitted_at, submission_id`, s.payout)
	if err != nil {
		s.Fatal(err)
	}
	rows, err := pgx.CollectRows(r, pgx.RowToStructByPos[row])
	if err != nil {
		s.Fatal(err)
	}
	return rows
}

// attempts are the rows that are not FENCED: by the attempt index at most one.
func (s *stage) attempts() []row {
	s.Helper()
	return slices.DeleteFunc(s.rows(), func(r row) bool { return r.Outcome == "FENCED" })
}

// mark is the account's high-water mark, 0 for none.
func (s *stage) mark() (m int64) {
	s.Helper()
	err := db.QueryRow(context.Background(), `SELECT coalesce(max(highest_token), 0) FROM rail_high_water WHERE account_id = $1`, s.account).Scan(&m)
	if err != nil {
		s.Fatal(err)
	}
	return m
}

func (s *stage) wantCode(err error, want wire.Code) *wire.Error {
	s.Helper()
	e, ok := err.(*wire.Error)
	if !ok || e.Code != want {
		s.Fatalf("answered %v, want %s", err, want)
	}
	return e
}

// eventually waits until holds does; only the condition ends the wait well.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("it never happened: %s", what)
}

// rail is a real TCP server in the rail's place. It notes every request it receives whole, then does what behave says
// and closes the connection, unless behave returns true.
type rail struct {
	url    string
	behave func(conn net.Conn, r transfer) (keep bool)

	mu       sync.Mutex
	received []transfer
}

type transfer struct {
	ClientRef   string `json:"clientRef"`
	AmountMinor int64  `json:"amountMinor"`
	Currency    string `json:"currency"`
}

func newRail(t *testing.T, behave func(net.Conn, transfer) bool) *rail {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rail{url: "http://" + l.Addr().String(), behave: behave}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { r.serve(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); conns.Wait() })
	return r
}

func (r *rail) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		var t transfer
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		_ = json.Unmarshal(body, &t) // whatever it is, it counts: the proxy has nothing else to send
		r.mu.Lock()
		r.received = append(r.received, t)
		r.mu.Unlock()
		if !r.behave(c, t) {
			return
		}
	}
}

func (r *rail) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.received)
}

// says answers with text as it stands.
func says(text string) func(net.Conn, transfer) bool {
	return func(c net.Conn, _ transfer) bool {
		_, _ = io.WriteString(c, text)
		return false
	}
}

const ack = `{"railReference":"rail-7","acceptedAt":"2026-01-02T03:04:05.000000006Z"}`

// acks is what a rail should say, and keeps the connection.
func acks(c net.Conn, _ transfer) bool {
	_, err := io.WriteString(c, whole("200 OK", "application/json", ack))
	return err == nil
}
