package payment_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/deploy/postgres"
	"fenceproof/deploy/postgres/postgrestest"
	"fenceproof/migrations"
	"fenceproof/system/migrate"
	"fenceproof/system/payment"
	"fenceproof/system/service"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	server   *postgres.Instance
	paydbURL string
	db       *pgxpool.Pool // the tests' own look at paydb, and the workload's way to put payouts in
)

func TestMain(m *testing.M) {
	os.Exit(postgrestest.Run(m, func(i *postgres.Instance) {
		server = i
		paydbURL = newDatabase("paydb")
		var err error
		db, err = pgxPool(paydbURL)
		must(err)
	}))
}

func pgxPool(url string) (*pgxpool.Pool, error) { return pgxpool.New(context.Background(), url) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// newDatabase makes a database with paydb's schema and returns its URL for payapp.
func newDatabase(name string) string {
	ctx := context.Background()
	must(server.CreateDatabase(ctx, name, "payapp"))
	history, err := fs.Sub(migrations.PayDB, "paydb")
	must(err)
	url := server.URL("payapp", name)
	must(migrate.Up(ctx, url, history, slog.New(slog.DiscardHandler)))
	return url
}

// bench is one payment-resource behind a real listener.
type bench struct {
	testing.TB
	url string
	db  *pgxpool.Pool // the test's own look at the same paydb
	log *logged
	reg *prometheus.Registry
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOn(t, paydbURL, true)
}

// newUnfencedBench trusts the lock: fencing is off.
func newUnfencedBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOn(t, paydbURL, false)
}

func newBenchOn(t testing.TB, url string, fencing bool) *bench {
	t.Helper()
	store, err := payment.OpenStore(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	log := &logged{}
	b := &bench{TB: t, db: db, log: log, reg: prometheus.NewRegistry()}
	l := slog.New(slog.NewJSONHandler(log, nil))
	srv := httptest.NewServer(payment.NewAPI(store, service.NewFencing(fencing, l), l, b.reg).Handler())
	t.Cleanup(srv.Close)
	b.url = srv.URL
	return b
}

// in is the same bench for a subtest.
func (b *bench) in(t *testing.T) *bench {
	c := *b
	c.TB = t
	return &c
}

// logged collects the service's log.
type logged struct {
	mu    sync.Mutex
	lines []map[string]any
}

func (l *logged) Write(p []byte) (int, error) {
	var line map[string]any
	d := json.NewDecoder(bytes.NewReader(p))
	d.UseNumber() // tokens keep every bit
	if err := d.Decode(&line); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return len(p), nil
}

// events are the logged events of this name about this payout.
func (l *logged) events(name, payoutID string) []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []map[string]any
	for _, line := range l.lines {
		if line["event"] == name && line["payoutId"] == payoutID {
			out = append(out, line)
		}
	}
	return out
}

// answer is what came back, with numbers as they were written.
type answer struct {
	status int
	code   string
	raw    string
	body   map[string]any
}

// at walks into the body: a.at("details", "highestToken").
func (a answer) at(path ...string) string {
	var v any = a.body
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return ""
		}
		v = m[p]
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// request is one request; zero values mean what a well-meaning executor would send.
type request struct {
	payout, verb, body string
	token              int64
	owner              string
}

func (b *bench) send(r request) answer {
	b.Helper()
	return b.raw("POST", "/v1/payouts/"+r.payout+"/"+r.verb, headers(r), r.body)
}

func (b *bench) get(path string) answer {
	b.Helper()
	return b.raw("GET", path, nil, "")
}

func (b *bench) raw(method, path string, h http.Header, body string) answer {
	b.Helper()
	a, err := exchange(b.url, method, path, h, body)
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// exchange may be called from any goroutine.
func exchange(url, method, path string, h http.Header, body string) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for k, v := range h {
		req.Header[k] = v
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: res.StatusCode, raw: string(raw)}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&a.body); err != nil {
		return a, fmt.Errorf("%s %s: answer %d is no JSON object: %q", method, path, a.status, raw)
	}
	a.code, _ = a.body["code"].(string)
	return a, nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// The bodies of an executor's way through a payout.
const (
	claimPending = `{"expectedState":"PENDING"}`
	acked        = `{"outcome":"ACKED","railReference":"rail-1"}`
	timeout      = `{"outcome":"TIMEOUT"}`
	postBody     = `{"railReference":"rail-1","submissionId":"0b9cd5c1-3b0e-4d43-8f2c-2a4c2f6f8a11","railOutcome":"ACKED"}`
)

func claim(p string, token int64, expected string) request {
	return request{payout: p, verb: "claim", token: token, body: fmt.Sprintf(`{"expectedState":%q}`, expected)}
}
func submitted(p string, token int64) request {
	return request{payout: p, verb: "submitted", token: token, body: `{}`}
}
func outcome(p string, token int64, body string) request {
	return request{payout: p, verb: "outcome", token: token, body: body}
}
func post(p string, token int64) request {
	return request{payout: p, verb: "post", token: token, body: postBody}
}

// want fails unless a has the status and, where code is given, the code.
func (b *bench) want(a answer, status int, code string) answer {
	b.Helper()
	if a.status != status || a.code != code {
		b.Fatalf("answered %d %s, want %d %s: %s", a.status, a.code, status, code, a.raw)
	}
	return a
}

// account puts an account in, as an outside workload does.
func (b *bench) account(opening, fence int64) string {
	b.Helper()
	id := uuid.NewString()
	b.exec(`INSERT INTO account (account_id, currency, balance_minor, fence) VALUES ($1, 'EUR', $2, $3)`, id, opening, fence)
	return id
}

// payout puts a payout in; claimToken 0 leaves it unclaimed.
func (b *bench) payout(account string, amount int64, state string, claimToken int64) string {
	b.Helper()
	id := uuid.NewString()
	var owner, token any
	if claimToken > 0 {
		owner, token = "executor-9", claimToken
	}
	b.exec(`INSERT INTO payout (payout_id, account_id, amount_minor, currency, state, claimed_by, claim_token, idempotency_key)
		VALUES ($1, $2, $3, 'EUR', $4, $5, $6, $7)`, id, account, amount, state, owner, token, "payout-"+id)
	return id
}

// legs puts the two entries of a posted payout in.
func (b *bench) legs(account, payoutID string, amount, token int64) {
	b.Helper()
	clearing := payment.ClearingAccount(uuid.MustParse(account), "EUR").String()
	b.exec(`INSERT INTO account (account_id, currency) VALUES ($1, 'EUR') ON CONFLICT DO NOTHING`, clearing)
	b.exec(`INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence)
		VALUES (gen_random_uuid(), $1, $2, 'DEBIT', $4, $5), (gen_random_uuid(), $1, $3, 'CREDIT', $4, $5)`,
		payoutID, account, clearing, amount, token)
}

func (b *bench) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.db.Exec(context.Background(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

// row reads one row of one text column for comparison: what paydb holds, not what an answer says.
func (b *bench) row(sql string, args ...any) string {
	b.Helper()
	var s string
	if err := b.db.QueryRow(context.Background(), sql, args...).Scan(&s); err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
	return s
}

// books is everything that a request about this payout may change, as one text.
func (b *bench) books(payoutID string) string {
	b.Helper()
	return b.row(`
		SELECT concat_ws(' | ', a.balance_minor, a.fence, p.state, p.claimed_by, p.claim_token, p.attempt_count, p.updated_at,
		       (SELECT string_agg(e.direction || e.amount_minor || '@' || e.fence, ',' ORDER BY e.entry_id) FROM ledger_entry e WHERE e.payout_id = p.payout_id),
		       (SELECT count(*) FROM payout_response r WHERE r.payout_id = p.payout_id),
		       (SELECT string_agg(s.outcome, ',') FROM payout_resolution s WHERE s.payout_id = p.payout_id))
		  FROM payout p JOIN account a USING (account_id) WHERE payout_id = $1`, payoutID)
}
