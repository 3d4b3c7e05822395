package wiretap

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

func TestPipelinedRequestsAreServedOneAfterAnother(t *testing.T) {
	var inside, most, n atomic.Int64
	relay, b, _ := rig(t, func(w http.ResponseWriter, r *http.Request) {
		if now := inside.Add(1); now > most.Load() {
			most.Store(now)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n.Add(1))
		inside.Add(-1)
	})
	const many = 20
	client := dialTo(t, relay.Addr())
	send(t, client, strings.Repeat(post(claimPath, claimBody), many))
	in := bufio.NewReader(client)
	for i := range many {
		if _, body := readResponse(t, in, "POST"); body != fmt.Sprint(i+1) {
			t.Fatalf("answer %d is %s", i+1, body)
		}
	}
	b.wait(t, "the last delivery", func(e history.Event) bool { return e.I == 4*many })
	if most.Load() != 1 {
		t.Errorf("%d calls at once", most.Load())
	}
	for i, e := range b.all() {
		want := []history.Stage{history.Received, history.Forwarded, history.Answered, history.Delivered}[i%4]
		if e.Stage != want || e.Call != b.all()[i/4*4].Call {
			t.Fatalf("event %d is %s of call %d", i+1, e.Stage, e.Call)
		}
	}
}

func TestOneConnectionToTheServerServesAllCallsOfAClientsConnection(t *testing.T) {
	var opened atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method != http.MethodHead {
			w.(http.Flusher).Flush() // chunked
			_, _ = io.WriteString(w, "answer")
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	client := dialTo(t, relayTo(t, s.Listener.Addr().String(), newBook()).Addr())
	in := bufio.NewReader(client)
	for _, method := range []string{"POST", "HEAD", "PUT", "HEAD", "DELETE"} {
		send(t, client, strings.Replace(post("/x", "body"), "POST", method, 1))
		if _, body := readResponse(t, in, method); method != "HEAD" && body != "answer" {
			t.Errorf("%s: %q", method, body)
		}
	}
	if opened.Load() != 1 {
		t.Errorf("%d connections", opened.Load())
	}
}

func TestAConnectionEndsWhereEitherSideSaysSo(t *testing.T) {
	for name, c := range map[string]struct{ request, answer string }{
		"the client":         {"GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n", "HTTP/1.1 204 OK\r\n\r\n"},
		"the server":         {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 204 OK\r\nConnection: close\r\n\r\n"},
		"an old client":      {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 204 OK\r\n\r\n"},
		"an old server":      {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"},
		"another protocol":   {"GET / HTTP/1.1\r\nUpgrade: x\r\n\r\n", "HTTP/1.1 101 Switching\r\n\r\n"},
		"what is no HTTP":    {"GET / HTTP/1.1\r\n\r\n", "SMTP ready\r\n"},
		"a body of no known": {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			addr := rawServer(t, func(s net.Conn) {
				in := bufio.NewReader(s)
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				_, _ = io.WriteString(s, c.answer)
				_, _ = in.ReadByte() // stays open as long as the relay does
			})
			client := dialTo(t, relayTo(t, addr, newBook()).Addr())
			send(t, client, c.request)
			if got, err := io.ReadAll(client); err != nil || string(got) != c.answer {
				t.Errorf("the client got %q, %v", got, err)
			}
		})
	}
}

// A server may refuse a big body before it has read it.
func TestAnAnswerBeforeTheEndOfABigRequestIsDelivered(t *testing.T) {
	relay, b, _ := rig(t, func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"code":"INVALID_REQUEST"}`)
		}
	})
	client := dialTo(t, relay.Addr())
	send(t, client, post(claimPath, strings.Repeat("x", MaxBody)))
	if res, _ := readResponse(t, bufio.NewReader(client), "POST"); res.StatusCode != 400 {
		t.Errorf("status %d", res.StatusCode)
	}
	if e := b.stage(t, history.Answered); e.Code != contract.InvalidRequest || e.Type != contract.Fail {
		t.Errorf("answered: %+v", e)
	}
}

func TestAServerThatAnswersAndReadsNoFurtherHoldsNobodyUp(t *testing.T) {
	over := make(chan struct{})
	addr := rawServer(t, func(s net.Conn) {
		if _, err := bufio.NewReader(s).ReadString('\n'); err != nil {
			return
		}
		_, _ = io.WriteString(s, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
		<-over
	})
	t.Cleanup(func() { close(over) }) // before the server's own clean-up waits for its connections
	client := dialTo(t, relayTo(t, addr, newBook()).Addr())
	in := bufio.NewReader(client)
	for range 2 {
		send(t, client, post(claimPath, strings.Repeat("x", MaxBody)))
		if res, _ := readResponse(t, in, "POST"); res.StatusCode != 413 {
			t.Errorf("status %d", res.StatusCode)
		}
	}
}

func TestManyClientsAtOnceGetTheirOwnAnswersAndWholeStories(t *testing.T) {
	relay, b, _ := rig(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // whole, as Go's server cannot read on once it has begun to answer
		_, _ = w.Write(body)
	})
	const clients, each = 24, 40
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for n := range each {
				body := fmt.Sprintf(`{"c":%d,"n":%d,"pad":"%s"}`, c, n, strings.Repeat("p", c*n))
				req, _ := http.NewRequest("POST", "http://"+relay.Addr()+claimPath, struct{ io.Reader }{bytes.NewReader([]byte(body))})
				if n%2 == 0 {
					req.ContentLength = int64(len(body)) // else chunked
				}
				res, err := transport.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || string(got) != body {
					t.Errorf("client %d got %d bytes, %v for %d", c, len(got), err, len(body))
				}
			}
		})
	}
	wg.Wait()
	b.wait(t, "the last event", func(e history.Event) bool { return e.I == 4*clients*each })
	story := map[int64][]history.Event{}
	for _, e := range b.all() {
		story[e.Call] = append(story[e.Call], e)
	}
	if len(story) != clients*each {
		t.Errorf("%d calls were recorded, %d were made", len(story), clients*each)
	}
	for call, es := range story {
		if s := stages(es); s != "received/invoke forwarded/invoke answered/ok delivered/ok" {
			t.Fatalf("call %d: %s", call, s)
		}
		if es[0].Req != es[2].Res {
			t.Fatalf("call %d: asked %.40q, answered %.40q", call, es[0].Req, es[2].Res)
		}
	}
}

func TestCloseCutsWhatIsUnderWayAndRecordsItsEnd(t *testing.T) {
	began := make(chan struct{}, 3)
	relay, b, _ := rig(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		began <- struct{}{}
		<-r.Context().Done()
	})
	idle := dialTo(t, relay.Addr())
	send(t, idle, "POST / HT")
	for _, request := range []string{post(claimPath, claimBody), post("/v1/locks/k/acquire", `{"waitMillis":9000}`), post("/x", strings.Repeat("x", 1<<20))} {
		send(t, dialTo(t, relay.Addr()), request)
		<-began
	}
	if err := relay.Close(); err != nil {
		t.Fatal(err)
	}
	cut := 0
	for _, e := range b.all() {
		if e.Stage == history.Answered && e.Type == contract.Info && e.Status == 0 {
			cut++
		}
	}
	if cut != 3 || len(b.all()) != 9 {
		t.Errorf("%d calls were cut:\n%s", cut, list(b.all()))
	}
	if err := relay.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

func TestARelayNeedsALinkAnUpstreamASinkAndAFreeAddress(t *testing.T) {
	whole := Config{Link: link, Upstream: "127.0.0.1:1", Sink: newBook()}
	relay, err := Listen(whole)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = relay.Close() }()
	for name, spoil := range map[string]func(*Config){
		"link":         func(c *Config) { c.Link = contract.Link{} },
		"upstream":     func(c *Config) { c.Upstream = "" },
		"sink":         func(c *Config) { c.Sink = nil },
		"free address": func(c *Config) { c.Listen = relay.Addr() },
	} {
		c := whole
		if spoil(&c); c.Sink != nil {
			c.Sink = newBook()
		}
		if r, err := Listen(c); err == nil {
			_ = r.Close()
			t.Errorf("a relay without a %s", name)
		}
	}
}
