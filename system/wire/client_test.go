package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mutating is every call of the contract that changes something, as its clients send it.
func mutating() []Call {
	session, lock, payout := "/v1/sessions", "/v1/locks/payout:7", "/v1/payouts/7"
	calls := []Call{
		{Method: "POST", Path: session, Body: map[string]any{"ownerId": "a"}},
		{Method: "POST", Path: session + "/7/heartbeat"},
		{Method: "DELETE", Path: session + "/7"},
		{Method: "POST", Path: lock + "/acquire", Owner: "a", Body: map[string]any{"sessionId": "7"}},
		{Method: "POST", Path: lock + "/renew", Owner: "a", Token: 41, Body: map[string]any{"sessionId": "7"}},
		{Method: "DELETE", Path: lock, Owner: "a", Token: 41, Body: map[string]any{"sessionId": "7"}},
		{Method: "POST", Path: lock + "/revoke", Body: map[string]any{"operator": "olga", "reason": "stuck for long"}},
		{Method: "POST", Path: "/v1/rail/submissions", Owner: "a", Token: 41, Idempotency: "payout-7", Body: map[string]any{"payoutId": "7"}},
	}
	for _, verb := range []string{"claim", "submitted", "outcome", "post", "resolve"} {
		calls = append(calls, Call{Method: "POST", Path: payout + "/" + verb, Owner: "a", Token: 41, Idempotency: "payout-7"})
	}
	return calls
}

// breaker is a server that executes every request and answers the first; the connection of each later one it breaks off
// after it has acted.
type breaker struct {
	reset bool // RST, not FIN

	mu       sync.Mutex
	executed []string // the connection of each
}

func (b *breaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	b.mu.Lock()
	b.executed = append(b.executed, r.RemoteAddr)
	first := len(b.executed) == 1
	b.mu.Unlock()
	if first {
		Reply(w, http.StatusOK, struct{}{})
		return
	}
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	if b.reset {
		_ = conn.(*net.TCPConn).SetLinger(0)
	}
	_ = conn.Close()
}

func TestACallWhoseConnectionBreaksAfterTheServerActedIsExecutedOnce(t *testing.T) {
	for _, call := range mutating() {
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %s reset %t", call.Method, call.Path, reset), func(t *testing.T) {
				b := &breaker{reset: reset}
				server := httptest.NewServer(b)
				defer server.Close()
				c := NewClient(server.URL, 1)
				defer c.Close()
				if err := c.Do(t.Context(), call, nil); err != nil {
					t.Fatal(err)
				}
				err := c.Do(t.Context(), call, nil)
				var envelope *Error
				if err == nil || errors.As(err, &envelope) {
					t.Errorf("an answer that never came is %v, want an error that says nothing about the effect", err)
				}
				b.mu.Lock()
				defer b.mu.Unlock()
				if len(b.executed) != 2 || b.executed[0] != b.executed[1] {
					t.Errorf("two calls were executed over %v, want twice over one connection", b.executed)
				}
			})
		}
	}
}

func TestARedirectIsAnAnswerAndIsNotFollowed(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	c := NewClient(server.URL, 1)
	defer c.Close()
	if err := c.Do(t.Context(), Call{Method: "POST", Path: "/v1/sessions"}, nil); err == nil || CodeOf(err) != "" || calls != 1 {
		t.Errorf("got %v after %d requests, want one request and an error without an envelope", err, calls)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	arrived := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
	}))
	defer server.Close()
	c := NewClient(server.URL, 1)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if err := c.Do(ctx, Call{Method: "POST", Path: "/v1/sessions"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's end", err)
	}
}
