package main_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/deploy/etcd/etcdtest"
	"fenceproof/deploy/postgres/postgrestest"
	"fenceproof/system/lock"
	"fenceproof/system/lock/lockclient"
)

// binary is lock-server as it is shipped.
func binary(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "lock-server")
	if b, err := exec.Command("go", "build", "-o", out, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, b)
	}
	return out
}

// freeAddress is one that the kernel gives to no outgoing connection: the clients of a server that is down would
// otherwise take its port, or even meet themselves there.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err != nil {
			continue
		}
		defer l.Close()
		return l.Addr().String()
	}
	t.Fatal("found no free port")
	return ""
}

// process is the binary, which may be killed and started again at its address.
type process struct {
	t          *testing.T
	bin        string
	env        []string
	api, admin string
	cmd        *exec.Cmd
}

func newProcess(t *testing.T) *process {
	t.Helper()
	pg := postgrestest.Start(t)
	if err := pg.CreateDatabase(t.Context(), "lockdb", "lockapp"); err != nil {
		t.Fatal(err)
	}
	p := prepared(t, "LOCK_DATASOURCE_URL="+pg.URL("lockapp", "lockdb"))
	migrate := exec.Command(p.bin, "migrate")
	migrate.Env = p.env
	if out, err := migrate.CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v\n%s", err, out)
	}
	p.start()
	t.Cleanup(p.kill)
	return p
}

// prepared is the binary with addresses of its own and the environment env.
func prepared(t *testing.T, env ...string) *process {
	t.Helper()
	p := &process{t: t, bin: binary(t), api: freeAddress(t), admin: freeAddress(t)}
	p.env = append(env, "LOCK_SERVER_LISTEN="+p.api, "LOCK_SERVER_ADMINLISTEN="+p.admin)
	return p
}

// start starts the process and returns when it is ready.
func (p *process) start() {
	p.t.Helper()
	p.cmd = exec.Command(p.bin)
	p.cmd.Env, p.cmd.Stderr = p.env, os.Stderr
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if res, err := http.Get("http://" + p.admin + "/readyz"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
	}
	p.t.Fatal("lock-server does not become ready")
}

// kill ends the process as a loss of power would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it is dead already
	_ = p.cmd.Wait()         // killed, as it was meant
}

func (p *process) get(path string) string {
	p.t.Helper()
	_, body := p.ask(p.api, path)
	return body
}

func (p *process) ask(address, path string) (status int, body string) {
	p.t.Helper()
	res, err := http.Get("http://" + address + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// One key of the configuration makes it a lock-server on etcd; clients and metrics are the same.
func TestItServesEtcdAsItServesPostgreSQL(t *testing.T) {
	m := etcdtest.Start(t)
	p := prepared(t, "LOCK_BACKEND=etcd", "ETCD_ENDPOINTS="+m.URL())
	p.start()
	t.Cleanup(p.kill)
	c, err := lockclient.New(lockclient.Options{BaseURL: "http://" + p.api, OwnerID: "a", SessionTTL: time.Minute, Margin: 0.3,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := c.Acquire(t.Context(), "k", time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	if held := p.get("/v1/locks/k"); !strings.Contains(held, fmt.Sprintf(`"fencingToken":%d,`, lease.Token())) {
		t.Errorf("the key is %s", held)
	}
	if _, list := p.ask(p.admin, "/locks"); !strings.Contains(list, fmt.Sprintf(`"fencingToken":%d,`, lease.Token())) {
		t.Errorf("an operator sees %s", list)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, metrics := p.ask(p.admin, "/metrics"); !strings.Contains(metrics, `lock_acquire_seconds_count{backend="etcd",outcome="granted"} 1`) {
		t.Errorf("the metrics do not tell the backend:\n%s", metrics)
	}
	if err := m.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, body := p.ask(p.admin, "/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("ready while etcd is stopped: %d %s", status, body)
	}
	if err := m.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	migrate := exec.Command(p.bin, "migrate")
	migrate.Env = p.env
	if out, err := migrate.CombinedOutput(); err == nil || !strings.Contains(string(out), "etcd has no schema") {
		t.Errorf("migrate: %v\n%s", err, out)
	}
}

// critical is the section that one holder at a time may be in.
type critical struct {
	t *testing.T

	mu     sync.Mutex
	inside bool
	tokens []int64
}

func (c *critical) enter(token int64) (nth int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.tokens); c.inside || (n > 0 && c.tokens[n-1] >= token) {
		c.t.Errorf("token %d comes in; inside %t, tokens so far %v", token, c.inside, c.tokens[max(0, n-3):])
	}
	c.inside, c.tokens = true, append(c.tokens, token)
	return len(c.tokens)
}

func (c *critical) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside = false
}

// Everybody who waits is cut off twice, once while the key is held and once while it changes hands. Each asks again and is
// granted once; a grant whose answer was lost with the server is its session's, which gets the key again, and nobody else
// does meanwhile.
func TestTwoHundredWaitersAreAllGrantedAlthoughTheServerIsKilledAndRestarted(t *testing.T) {
	const waiters = 200
	p := newProcess(t)
	section := &critical{t: t}
	kill, restarted := make(chan bool), make(chan struct{})
	var all sync.WaitGroup
	for i := range waiters {
		c, err := lockclient.New(lockclient.Options{BaseURL: "http://" + p.api, OwnerID: fmt.Sprint("waiter-", i), SessionTTL: time.Minute,
			Margin: 0.3, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }() // what it held has been judged
			lease := untilGranted(t, c)
			if lease == nil {
				return
			}
			n := section.enter(lease.Token())
			if n == waiters/4 {
				kill <- true
				<-restarted
			}
			if err := lease.CheckStillHeld(0); err != nil {
				t.Error(err)
			}
			section.leave()
			if n == waiters/2 {
				kill <- false
			}
			untilReleased(t, lease)
		})
	}
	for range 2 {
		awaited := <-kill
		p.kill()
		p.start()
		if awaited {
			restarted <- struct{}{}
		}
	}
	all.Wait()
	if n := len(section.tokens); n != waiters {
		t.Errorf("%d of %d waiters were granted the key", n, waiters)
	}
	if left := p.get("/v1/locks/k"); left != `{"held":false,"waiterCount":0}` {
		t.Errorf("in the end the key is %s", left)
	}
}

// untilGranted asks for the key until it is granted: a server that is not there, or falls over, is asked again.
func untilGranted(t *testing.T, c *lockclient.Client) *lockclient.Lease {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		lease, err := c.Acquire(t.Context(), "k", time.Minute, 30*time.Second)
		if err == nil {
			return lease
		}
		if !errors.Is(err, lock.ErrUnavailable) {
			t.Error(err)
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("not granted within a minute")
	return nil
}

// untilReleased gives the key back; the server may be down for longer than the client is patient.
func untilReleased(t *testing.T, lease *lockclient.Lease) {
	err := errors.New("never tried")
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); {
		err = lease.Release(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
}
