package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fenceproof/deploy/postgres/postgrestest"

	"github.com/jackc/pgx/v5"
)

const payoutID = "0b9cd5c1-3b0e-4d43-8f2c-2a4c2f6f8a11"

// binary is payment-resource as it is shipped.
func binary(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "payment-resource")
	if b, err := exec.Command("go", "build", "-o", out, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, b)
	}
	return out
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// process is the binary, running, and what it logged so far.
type process struct {
	*testing.T
	cmd        *exec.Cmd
	api, admin string
	mu         sync.Mutex
	log        []string
	read       chan struct{} // closed when the log has ended
}

func start(t *testing.T, bin string, env []string) *process {
	t.Helper()
	p := &process{T: t, api: freeAddress(t), admin: freeAddress(t), read: make(chan struct{})}
	p.cmd = exec.Command(bin)
	p.cmd.Env = append(env, "PAYMENT_RESOURCE_LISTEN="+p.api, "PAYMENT_RESOURCE_ADMINLISTEN="+p.admin)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // the tests stop it; this is for those that fail
	go func() {
		defer close(p.read)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.mu.Lock()
			p.log = append(p.log, s.Text())
			p.mu.Unlock()
		}
	}()
	p.until("ready", func() bool { status, _ := p.try("GET", "http://"+p.admin+"/readyz", "", nil); return status == 200 })
	return p
}

func (p *process) until(what string, ok func() bool) {
	p.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	p.Fatalf("never %s", what)
}

func (p *process) try(method, url, body string, h map[string]string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	for k, v := range h {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(b)
}

func (p *process) want(status int, method, url, body string, h map[string]string) string {
	p.Helper()
	got, answer := p.try(method, url, body, h)
	if got != status {
		p.Fatalf("%s %s answered %d %s, want %d", method, url, got, answer, status)
	}
	return answer
}

func (p *process) command(status int, verb, token, body string) {
	p.Helper()
	p.want(status, "POST", "http://"+p.api+"/v1/payouts/"+payoutID+"/"+verb, body,
		map[string]string{"X-Owner-Id": "executor-1", "X-Fencing-Token": token, "X-Idempotency-Key": "payout-" + payoutID})
}

func (p *process) logged(event string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.log {
		var l struct{ Event, Service string }
		if json.Unmarshal([]byte(line), &l) == nil && l.Event == event && l.Service == "payment-resource" {
			n++
		}
	}
	return n
}

func TestTheProcessMigratesServesFlipsItsSwitchAndStopsCleanly(t *testing.T) {
	ctx := t.Context()
	pg := postgrestest.Start(t)
	if err := pg.CreateDatabase(ctx, "paydb", "payapp"); err != nil {
		t.Fatal(err)
	}
	url := pg.URL("payapp", "paydb")
	bin, env := binary(t), []string{"PAYMENTS_DATASOURCE_URL=" + url}
	for range 2 { // the second time there is nothing to do
		c := exec.Command(bin, "migrate")
		c.Env = env
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("migrate: %v\n%s", err, out)
		}
	}
	seed(t, url)
	p := start(t, bin, env)
	p.want(200, "GET", "http://"+p.admin+"/healthz", "", nil)
	post := `{"railReference":"r","submissionId":"` + payoutID + `","railOutcome":"ACKED"}`
	p.command(409, "post", "41", post)
	if answer := p.want(200, "PUT", "http://"+p.admin+"/fencing", `{"enabled":false}`, nil); answer != `{"enabled":false}` {
		t.Errorf("the switch answered %s", answer)
	}
	p.command(200, "post", "41", post)
	p.want(200, "PUT", "http://"+p.admin+"/fencing", `{"enabled":true}`, nil)
	p.command(409, "claim", "40", `{"expectedState":"PENDING"}`)
	metrics := p.want(200, "GET", "http://"+p.admin+"/metrics", "", nil)
	for _, want := range []string{`lock_fenced_out_total{resource="account"} 2`, "payout_backlog_age_seconds 0"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s:\n%s", want, metrics)
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.read
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("it stopped with %v", err)
	}
	for event, want := range map[string]int{"fenced_out": 2, "fencing_disabled": 1, "payout_posted": 1} {
		if n := p.logged(event); n != want {
			t.Errorf("%s logged %d times, want %d", event, n, want)
		}
	}
}

// seed puts in a payout that token 43 has claimed and nobody has posted.
func seed(t *testing.T, url string) {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, sql := range []string{
		`INSERT INTO account (account_id, currency, balance_minor, fence) VALUES ('` + payoutID + `', 'EUR', 1000, 42)`,
		`INSERT INTO payout (payout_id, account_id, amount_minor, currency, state, claimed_by, claim_token, idempotency_key)
			VALUES ('` + payoutID + `', '` + payoutID + `', 250, 'EUR', 'RAIL_ACKED', 'executor-2', 43, 'payout-` + payoutID + `')`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
}
