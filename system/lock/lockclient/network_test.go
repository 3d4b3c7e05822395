package lockclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fenceproof/system/lock/lockserver"
	"fenceproof/system/wire"

	"github.com/prometheus/client_golang/prometheus"
)

// fate is what the network does to one request.
type fate struct {
	delay, answerDelay time.Duration
	lost, answerLost   bool
	twice              bool
}

// network carries a client's requests to the real handlers of lock-server, in the time of a synctest bubble.
type network struct {
	server http.Handler
	fate   func(call wire.Call) fate // nil: all goes well

	mu  sync.Mutex
	log []string // what was sent and answered, in order
}

func (n *network) note(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = append(n.log, what)
}

func (n *network) noted() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.log...)
}

func (n *network) setFate(f func(wire.Call) fate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fate = f
}

func (n *network) fateOf(call wire.Call) fate {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fate == nil {
		return fate{}
	}
	return n.fate(call)
}

func (n *network) Close() {}

func (n *network) Do(ctx context.Context, call wire.Call, out any) error {
	if err := ctx.Err(); err != nil {
		return err // as the real client does: nothing is sent
	}
	f, name := n.fateOf(call), call.Method+" "+call.Path
	n.note("send " + name)
	if err := pass(ctx, f.delay, f.lost); err != nil {
		return err
	}
	w := n.deliver(ctx, call)
	if f.twice {
		n.deliver(ctx, call)
	}
	if err := pass(ctx, f.answerDelay, f.answerLost); err != nil {
		return err
	}
	n.note("answer " + name)
	if w.Code >= 300 {
		var e struct {
			wire.Error
			Details json.RawMessage `json:"details"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
			return err
		}
		e.Error.Details = e.Details
		return &e.Error
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(w.Body.Bytes(), out)
}

// pass lets time go by; what is lost never arrives, and the sender finds out when it gives up.
func pass(ctx context.Context, d time.Duration, lost bool) error {
	if lost {
		<-ctx.Done()
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *network) deliver(ctx context.Context, call wire.Call) *httptest.ResponseRecorder {
	body := []byte("{}")
	if call.Body != nil {
		body, _ = json.Marshal(call.Body) // a map of strings and numbers
	}
	r := httptest.NewRequestWithContext(ctx, call.Method, call.Path, bytes.NewReader(body))
	r.Header.Set(wire.HeaderOwner, call.Owner)
	if call.Token != 0 {
		r.Header.Set(wire.HeaderToken, wire.FormatToken(call.Token))
	}
	w := httptest.NewRecorder()
	n.server.ServeHTTP(w, r)
	return w
}

// town is a lock server and its store in a bubble.
type town struct {
	t      *testing.T
	store  *memory
	server *lockserver.Server
	logs   *bytes.Buffer
	logMu  sync.Mutex
}

// inTown runs story in a synctest bubble in which a lock server runs.
func inTown(t *testing.T, story func(t *testing.T, v *town)) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		v := &town{t: t, store: m, logs: &bytes.Buffer{}, server: lockserver.New(lockserver.Options{Store: m, Backend: "memory",
			DefaultTTL: time.Second, SessionTTL: time.Second, MaxWaiters: 100, Log: slog.New(slog.DiscardHandler),
			Registerer: prometheus.NewRegistry()})}
		go func() { _ = v.server.Run(t.Context()) }() // it ends with the context and has no error
		story(t, v)
	})
}

func (v *town) Write(p []byte) (int, error) {
	v.logMu.Lock()
	defer v.logMu.Unlock()
	return v.logs.Write(p)
}

// logged tells whether one line of the clients' log holds all of parts.
func (v *town) logged(parts ...string) bool {
	v.logMu.Lock()
	defer v.logMu.Unlock()
	for line := range strings.Lines(v.logs.String()) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			return true
		}
	}
	return false
}

// client makes a client with a network of its own. It is closed when the story ends.
func (v *town) client(owner string, sessionTTL time.Duration) (*Client, *network) {
	n := &network{server: v.server.Handler()}
	c := newClient(Options{OwnerID: owner, SessionTTL: sessionTTL, Margin: 0.30, Log: slog.New(slog.NewJSONHandler(v, nil))}, n)
	v.t.Cleanup(func() {
		n.setFate(nil)
		if err := c.Close(context.Background()); err != nil {
			v.t.Errorf("close %s: %v", owner, err)
		}
	})
	return c, n
}

func mustAcquire(t *testing.T, c *Client, key string, ttl, wait time.Duration) *Lease {
	t.Helper()
	l, err := c.Acquire(t.Context(), key, ttl, wait)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustBe(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
