package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// scripted is a server that gives the answers of its script to whatever it is asked, as they stand, one a request. A
// connection that is asked more than its script holds is closed.
type scripted struct {
	net.Listener
	connections sync.WaitGroup

	mu    sync.Mutex
	asked []string // the remote address of each request
}

func script(t *testing.T, answers ...string) (*scripted, *Client) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{Listener: l}
	s.connections.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.connections.Go(func() { s.serve(c, answers) })
		}
	})
	c := NewClient("http://"+l.Addr().String(), 2)
	t.Cleanup(func() {
		c.Close()
		_ = l.Close()
		s.connections.Wait()
	})
	return s, c
}

func (s *scripted) serve(c net.Conn, answers []string) {
	defer c.Close()
	r := bufio.NewReader(c)
	for _, a := range answers {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		s.mu.Lock()
		s.asked = append(s.asked, c.RemoteAddr().String())
		s.mu.Unlock()
		if _, err := io.WriteString(c, a); err != nil {
			return
		}
	}
}

// connectionsAsked is how many requests came, over how many connections.
func (s *scripted) connectionsAsked() (requests, connections int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{}
	for _, a := range s.asked {
		seen[a] = true
	}
	return len(s.asked), len(seen)
}

const (
	one = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"n\":1}"
	two = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"n\":2}"
)

func TestWhatComesOverAConnectionIsTheAnswerToItsOwnRequest(t *testing.T) {
	for _, c := range []struct {
		name        string
		script      []string
		more        bool // the server says something behind its first answer
		second      int  // what the second call is told
		connections int  // that the two calls took
	}{
		{"two answers, one connection", []string{one, two}, false, 2, 1},
		{"a chunked answer", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{\"n\":1}\r\n0\r\n\r\n", two}, false, 2, 1},
		{"interim answers before it", []string{"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + one, two}, false, 2, 1},
		{"an answer that nobody asked for behind it", []string{one + two, two}, false, 1, 2},
		{"the server hangs up behind it", []string{one}, true, 1, 2},
		{"the server says that it will hang up", []string{strings.Replace(one, "\r\n", "\r\nConnection: close\r\n", 1), two}, false, 1, 2},
		{"the connection's end ends it", []string{"HTTP/1.1 200 OK\r\n\r\n{\"n\":1}"}, false, 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, client := script(t, c.script...)
			for i, want := range []int{1, c.second} {
				var got struct{ N int }
				if err := client.Do(t.Context(), Call{Method: "POST", Path: "/"}, &got); err != nil || got.N != want {
					t.Errorf("call %d: got %d, %v, want %d", i+1, got.N, err, want)
				}
				if c.more && i == 0 {
					heard(t, client)
				}
			}
			if requests, connections := s.connectionsAsked(); requests != 2 || connections != c.connections {
				t.Errorf("%d requests came over %d connections, want 2 over %d", requests, connections, c.connections)
			}
		})
	}
}

// heard waits until what the server had to say behind its answer has arrived at the connection that the client keeps.
func heard(t *testing.T, client *Client) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); len(client.conns.idle) > 0 && client.conns.idle[0].quiet(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing more arrived from the server")
		}
	}
}

func TestAnAnswerThatIsNoneSaysNothingAboutTheEffect(t *testing.T) {
	for _, c := range []struct{ name, answer, says string }{
		{"nothing", "", "EOF"},
		{"half a header", "HTTP/1.1 200 OK\r\nContent-Le", "malformed"},
		{"half a body", strings.TrimSuffix(one, "1}"), "EOF"},
		{"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", "malformed"},
		{"interim answers without end", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100), "only interim answers"},
		{"a header without end", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxAnswer), "more than 16777216 bytes"},
		{"a body without end", "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat(" ", maxAnswer), "more than 16777216 bytes"},
		{"a body longer than is read", fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", maxAnswer) + strings.Repeat(" ", maxAnswer), "more than 16777216 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, client := script(t, c.answer)
			err := client.Do(t.Context(), Call{Method: "POST", Path: "/v1/sessions"}, nil)
			var envelope *Error
			if err == nil || errors.As(err, &envelope) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "POST /v1/sessions") {
				t.Errorf("got %v, want an error without an envelope that names the call and says %q", err, c.says)
			}
			if requests, _ := s.connectionsAsked(); requests != 1 {
				t.Errorf("the request came %d times, want once", requests)
			}
		})
	}
}

func TestTheAnswerToACallThatWasGivenUpIsNotTakenForAnothers(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		if n == 1 {
			close(arrived)
			<-answer
		}
		Reply(w, http.StatusOK, struct{ N int64 }{n})
	}))
	defer server.Close()
	client := NewClient(server.URL, 1)
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	err := client.Do(ctx, Call{Method: "POST", Path: "/"}, nil)
	close(answer)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the call that was given up: got %v, want the context's end", err)
	}
	var got struct{ N int }
	if err := client.Do(t.Context(), Call{Method: "POST", Path: "/"}, &got); err != nil || got.N != 2 {
		t.Errorf("the next call: got %d, %v, want 2", got.N, err)
	}
}

func TestACallWhoseContextHasEndedIsNotSent(t *testing.T) {
	s, client := script(t, one, two)
	if err := client.Do(t.Context(), Call{Method: "POST", Path: "/"}, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := client.Do(ctx, Call{Method: "POST", Path: "/"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's end", err)
	}
	if requests, _ := s.connectionsAsked(); requests != 1 || len(client.conns.idle) != 1 {
		t.Errorf("%d requests came and %d connections are kept, want the first only, and its connection", requests, len(client.conns.idle))
	}
}

func TestCallsAtTheSameTimeEachHaveTheirOwnAnswerAndFewConnectionsAreKept(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Reply(w, http.StatusOK, struct{ Owner string }{r.Header.Get(HeaderOwner)})
	}))
	defer server.Close()
	client := NewClient(server.URL, 3)
	defer client.Close()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for n := range 30 {
				var got struct{ Owner string }
				owner := fmt.Sprint(i, "-", n)
				if err := client.Do(t.Context(), Call{Method: "POST", Path: "/", Owner: owner}, &got); err != nil || got.Owner != owner {
					t.Errorf("%s: got the answer to %q, %v", owner, got.Owner, err)
				}
			}
		})
	}
	all.Wait()
	if n := len(client.conns.idle); n < 1 || n > 3 {
		t.Errorf("%d connections are kept, want 1 to 3", n)
	}
	client.Close()
	if err := client.Do(t.Context(), Call{Method: "POST", Path: "/"}, nil); err != nil {
		t.Error(err)
	}
	if n := len(client.conns.idle); n != 0 || client.conns.sweep != nil {
		t.Errorf("%d connections are kept after the end, want none", n)
	}
}

func TestAConnectionIdleForTooLongIsClosed(t *testing.T) {
	_, client := script(t, one, two)
	if err := client.Do(t.Context(), Call{Method: "POST", Path: "/"}, nil); err != nil {
		t.Fatal(err)
	}
	p := &client.conns
	if p.sweep == nil {
		t.Fatal("a connection is kept, and nobody will look how long")
	}
	p.sweep.Stop()
	p.expire()
	if len(p.idle) != 1 || p.sweep == nil {
		t.Fatalf("%d connections are kept, want the one just used, and a look at it later", len(p.idle))
	}
	p.sweep.Stop()
	c := p.idle[0]
	c.since = c.since.Add(-keepIdle)
	p.expire()
	if len(p.idle) != 0 || p.sweep != nil || !c.closed() {
		t.Errorf("after %s %d connections are kept, want none", keepIdle, len(p.idle))
	}
}

// closed tells whether the client has closed the connection.
func (c *connection) closed() bool { return errors.Is(c.SetDeadline(time.Time{}), net.ErrClosed) }

func TestAConnectionThatServesNoMoreIsClosedAndAnotherTaken(t *testing.T) {
	for name, spoil := range map[string]func(*connection){
		"idle for longer than is safe, unseen by any timer": func(c *connection) { c.since = c.since.Add(-keepIdle) },
		"it has broken": func(c *connection) { _ = c.Conn.(*net.TCPConn).CloseRead() },
	} {
		t.Run(name, func(t *testing.T) {
			s, client := script(t, one, two)
			if err := client.Do(t.Context(), Call{Method: "POST", Path: "/"}, nil); err != nil {
				t.Fatal(err)
			}
			c := client.conns.idle[0]
			spoil(c)
			if err := client.Do(t.Context(), Call{Method: "POST", Path: "/"}, nil); err != nil || !c.closed() {
				t.Errorf("got %v, want an answer over another connection and the first one closed", err)
			}
			if requests, connections := s.connectionsAsked(); requests != 2 || connections != 2 {
				t.Errorf("%d requests came over %d connections, want 2 over 2", requests, connections)
			}
		})
	}
}

func TestEveryAnswerMayBeAsLongAsTheLongest(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nContent-Length: 16777171\r\n\r\n"
	longest := head + strings.Repeat(" ", maxAnswer-len(head))
	s, client := script(t, longest, longest)
	for range 2 {
		if err := client.Do(t.Context(), Call{Method: "POST", Path: "/"}, nil); err != nil {
			t.Error(err)
		}
	}
	if requests, connections := s.connectionsAsked(); requests != 2 || connections != 1 {
		t.Errorf("%d requests came over %d connections, want 2 over 1", requests, connections)
	}
}

// A server that has heard enough answers and hangs up while the client still sends.
func TestADefiniteAnswerThatComesBeforeTheRequestIsReadIsTheAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		Fail(w, NewError(InvalidRequest, "the body is too large"))
	}))
	defer server.Close()
	client := NewClient(server.URL, 1)
	defer client.Close()
	err := client.Do(t.Context(), Call{Method: "POST", Path: "/", Body: strings.Repeat("x", 8*MaxBody)}, nil)
	if CodeOf(err) != InvalidRequest {
		t.Errorf("got %v, want the server's refusal", err)
	}
}
