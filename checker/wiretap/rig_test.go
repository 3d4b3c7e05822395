package wiretap

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// book is a Sink that keeps everything.
type book struct {
	mu     sync.Mutex
	grown  *sync.Cond
	events []history.Event
}

func newBook() *book {
	b := &book{}
	b.grown = sync.NewCond(&b.mu)
	return b
}

func (b *book) Record(w history.Witness, e history.Event) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.W, e.I = w, int64(len(b.events)+1)
	b.events = append(b.events, e)
	b.grown.Broadcast()
	return e.I
}

// wait returns the first event that is like what was asked for, as soon as it is there.
func (b *book) wait(t *testing.T, what string, like func(history.Event) bool) history.Event {
	t.Helper()
	timer := time.AfterFunc(patience, b.grown.Broadcast)
	defer timer.Stop()
	deadline := time.Now().Add(patience)
	b.mu.Lock()
	defer b.mu.Unlock()
	for from := 0; ; {
		for ; from < len(b.events); from++ {
			if like(b.events[from]) {
				return b.events[from]
			}
		}
		if !time.Now().Before(deadline) {
			t.Fatalf("%s did not come; recorded was:\n%s", what, list(b.events))
		}
		b.grown.Wait()
	}
}

// stage waits for the first event of a stage.
func (b *book) stage(t *testing.T, s history.Stage) history.Event {
	t.Helper()
	return b.wait(t, string(s), func(e history.Event) bool { return e.Stage == s })
}

func (b *book) all() []history.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]history.Event(nil), b.events...)
}

// stages is the story of the events: "received/invoke forwarded/invoke answered/ok delivered/ok".
func stages(es []history.Event) string {
	var s []string
	for _, e := range es {
		s = append(s, string(e.Stage)+"/"+string(e.Type))
	}
	return strings.Join(s, " ")
}

func list(es []history.Event) string {
	var s strings.Builder
	for i := range es {
		s.Write(append(history.AppendEvent(nil, &es[i]), '\n'))
	}
	return s.String()
}

var link = contract.Link{From: contract.Executor(2), To: contract.PaymentResource}

// relayTo starts a relay in front of the server at addr.
func relayTo(t testing.TB, addr string, sink Sink) *Relay {
	t.Helper()
	r, err := Listen(Config{Link: link, Upstream: addr, Sink: sink})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// rig is a relay in front of an HTTP server of Go.
func rig(t testing.TB, h http.HandlerFunc) (*Relay, *book, *httptest.Server) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	b := newBook()
	return relayTo(t, s.Listener.Addr().String(), b), b, s
}

// rawServer calls serve for every connection, one goroutine each, and closes it afterwards.
func rawServer(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// dialTo connects to addr; the test ends if anything hangs.
func dialTo(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

func send(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// reset closes c so that the peer gets a reset, not an end.
func reset(t testing.TB, c *net.TCPConn) {
	t.Helper()
	if err := c.SetLinger(0); err != nil {
		t.Error(err)
	}
	_ = c.Close()
}

// post is a request with a body, as text.
func post(path, body string, headers ...string) string {
	var h strings.Builder
	for _, line := range headers {
		h.WriteString(line + "\r\n")
	}
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", path, h.String(), len(body), body)
}

const claimPath = "/v1/payouts/p-1/claim"

// readResponse reads one answer and its body.
func readResponse(t testing.TB, in *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}
