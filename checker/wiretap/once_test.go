package wiretap

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

const claimBody = `{"expectedState":"PENDING"}`

// A client that goes away after it has sent its request does not call it back: that is the zombie write.
func TestACallOfAClientThatWentAwayIsCarriedOutOnceAndItsAnswerIsLost(t *testing.T) {
	for name, path := range map[string]string{
		"a claim":                        claimPath,
		"an acquire that does not wait":  "/v1/locks/k/acquire",
		"a request of no contract known": "/anything",
	} {
		t.Run(name, func(t *testing.T) {
			var executed, calledBack atomic.Int64
			began, finish := make(chan struct{}), make(chan struct{})
			relay, b, _ := rig(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				close(began)
				<-finish
				if r.Context().Err() != nil {
					calledBack.Add(1)
				}
				executed.Add(1)
				_, _ = io.WriteString(w, "{}")
			})
			client := dialTo(t, relay.Addr())
			send(t, client, post(path, `{"sessionId":"s","waitMillis":0}`, "X-Idempotency-Key: payout-1"))
			<-began
			_ = client.Close()
			// Let the relay have every chance to notice: it serves another client meanwhile.
			probe := dialTo(t, relay.Addr())
			_ = probe.Close()
			close(finish)
			e := b.stage(t, history.Lost)
			if e.Type != contract.Info || e.Status != 200 {
				t.Errorf("lost as %s with status %d", e.Type, e.Status)
			}
			if executed.Load() != 1 || calledBack.Load() != 0 {
				t.Errorf("executed %d times, called back %d times", executed.Load(), calledBack.Load())
			}
		})
	}
}

func TestAWaitingAcquireIsCalledBackWhenItsClientGoesAway(t *testing.T) {
	began, noticed := make(chan struct{}), make(chan struct{})
	relay, b, _ := rig(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(began)
		select {
		case <-r.Context().Done():
			close(noticed)
		case <-time.After(patience):
		}
	})
	client := dialTo(t, relay.Addr())
	send(t, client, post("/v1/locks/k/acquire", `{"sessionId":"s","ttlMillis":1000,"waitMillis":30000}`))
	<-began
	_ = client.Close()
	select {
	case <-noticed:
	case <-time.After(patience):
		t.Fatal("the server never heard of it")
	}
	e := b.stage(t, history.Answered)
	if e.Type != contract.Info || e.Status != 0 || !strings.Contains(e.Msg, "called back") {
		t.Errorf("answered as %s, status %d: %s", e.Type, e.Status, e.Msg)
	}
}

func TestAWaitingAcquireThatIsGrantedLeavesTheConnectionAsItWas(t *testing.T) {
	relay, b, _ := rig(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, `{"fencingToken":9223372036854775807}`)
	})
	client := dialTo(t, relay.Addr())
	in := bufio.NewReader(client)
	acquire := post("/v1/locks/k/acquire", `{"waitMillis":30000}`)
	send(t, client, acquire+acquire) // the second while the first is watched
	for range 2 {
		readResponse(t, in, "POST")
	}
	send(t, client, acquire)
	readResponse(t, in, "POST")
	b.wait(t, "the third delivery", func(e history.Event) bool { return e.Stage == history.Delivered && e.I == 12 })
	for _, e := range b.all() {
		if e.Stage == history.Answered && e.Granted != 1<<63-1 {
			t.Errorf("granted %d", e.Granted)
		}
	}
}

// counted is a server that counts whole requests on bare connections and answers as told. It never closes first.
func counted(t *testing.T, n *atomic.Int64, answer func(net.Conn)) string {
	return rawServer(t, func(s net.Conn) {
		in := bufio.NewReader(s)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			n.Add(1)
			answer(s)
		}
	})
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"claimed\":1}"

// ways to end a connection: a reset may take bytes away that the other side has not read, an end never does.
var ways = map[string]func(testing.TB, *net.TCPConn){
	"reset": reset,
	"ended": func(_ testing.TB, c *net.TCPConn) { _ = c.Close() },
}

func TestARequestThatBreaksOffAtAnyByteIsNotExecutedAndAWholeOneAtMostOnce(t *testing.T) {
	request := post(claimPath, claimBody, "X-Fencing-Token: 41", "X-Idempotency-Key: payout-1")
	var executed atomic.Int64
	addr := counted(t, &executed, func(s net.Conn) { _, _ = io.WriteString(s, okAnswer) })
	for way, end := range ways {
		for n := range len(request) + 1 {
			b := newBook()
			relay, err := Listen(Config{Link: link, Upstream: addr, Sink: b})
			if err != nil {
				t.Fatal(err)
			}
			before := executed.Load()
			client := dialTo(t, relay.Addr())
			send(t, client, request[:n])
			end(t, client)
			if way == "ended" && n == len(request) {
				b.stage(t, history.Answered)
			}
			// A second client is served whole meanwhile; Close waits until the first one's call has ended.
			other := dialTo(t, relay.Addr())
			send(t, other, post(claimPath, claimBody))
			readResponse(t, bufio.NewReader(other), "POST")
			if err := relay.Close(); err != nil {
				t.Fatal(err)
			}
			got := executed.Load() - before - 1
			if n < len(request) && got != 0 || got > 1 || way == "ended" && n == len(request) && got != 1 {
				t.Fatalf("%s after %d of %d bytes: executed %d times", way, n, len(request), got)
			}
		}
	}
}

func TestAnAnswerThatBreaksOffAtAnyByteIsOneExecutionAndAnUnknownOutcome(t *testing.T) {
	for way, end := range ways {
		for n := range len(okAnswer) + 1 {
			for _, reused := range []bool{false, true} {
				breakAnswer(t, way, end, n, reused)
			}
		}
	}
}

// breakAnswer has the server end its connection after n bytes of its answer: the first one on the connection, or the
// second. Go's own client would send the request of the second again.
func breakAnswer(t *testing.T, way string, end func(testing.TB, *net.TCPConn), n int, reused bool) {
	t.Helper()
	var executed atomic.Int64
	addr := counted(t, &executed, func(s net.Conn) {
		if reused && executed.Load() == 1 {
			_, _ = io.WriteString(s, okAnswer)
			return
		}
		_, _ = io.WriteString(s, okAnswer[:n])
		end(t, s.(*net.TCPConn))
	})
	b := newBook()
	client := dialTo(t, relayTo(t, addr, b).Addr())
	in := bufio.NewReader(client)
	request := post(claimPath, claimBody, "X-Idempotency-Key: payout-1")
	want := int64(1)
	if reused {
		want = 2
		send(t, client, request)
		readResponse(t, in, "POST")
	}
	send(t, client, request)
	got, _ := io.ReadAll(io.LimitReader(in, int64(len(okAnswer))))
	e := b.wait(t, "the answer", func(e history.Event) bool { return e.Stage == history.Answered && (!reused || e.I > 4) })
	if executed.Load() != want {
		t.Fatalf("%s after %d bytes, reused %v: executed %d times, want %d", way, n, reused, executed.Load(), want)
	}
	// What is whole is definite, nothing else is.
	if whole := len(got) == len(okAnswer); whole != (e.Type == contract.OK) || whole != (e.Status == 200) || way == "ended" && len(got) != n {
		t.Fatalf("%s after %d bytes: the client got %d, recorded is %s with status %d", way, n, len(got), e.Type, e.Status)
	}
	if !strings.HasPrefix(okAnswer, string(got)) {
		t.Fatalf("the client got %q", got)
	}
	// A client may have read from a part of an answer what it liked: the event has that part, and no less of it.
	if e.Status == 0 && !strings.HasPrefix(e.Res, string(got)) {
		t.Fatalf("%s after %d bytes: the client got %q, recorded is %q", way, n, got, e.Res)
	}
}

// A kept connection that the server has closed meanwhile is replaced before anything is sent on it.
func TestAServerThatClosedItsIdleConnectionGetsTheNextRequestOnceOnAFreshOne(t *testing.T) {
	var executed atomic.Int64
	closed := make(chan struct{}, 8)
	addr := rawServer(t, func(s net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(s))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		executed.Add(1)
		_, _ = io.WriteString(s, okAnswer)
		_ = s.Close()
		closed <- struct{}{}
	})
	b := newBook()
	client := dialTo(t, relayTo(t, addr, b).Addr())
	in := bufio.NewReader(client)
	for n := range int64(5) {
		send(t, client, post(claimPath, claimBody))
		readResponse(t, in, "POST")
		<-closed
		if executed.Load() != n+1 {
			t.Fatalf("executed %d times after %d calls", executed.Load(), n+1)
		}
	}
	for _, e := range b.all() {
		if e.Type == contract.Info {
			t.Errorf("call %d ended as unknown: %s", e.Call, e.Msg)
		}
	}
}

func TestAServerThatCannotBeReachedMeansNoAnswerAndNothingSent(t *testing.T) {
	// The client's end of a connection is an address where nobody listens and that nobody else is given meanwhile.
	addr := dialTo(t, rawServer(t, func(s net.Conn) { _, _ = io.Copy(io.Discard, s) })).LocalAddr().String()
	b := newBook()
	client := dialTo(t, relayTo(t, addr, b).Addr())
	send(t, client, post(claimPath, claimBody))
	if got, err := io.ReadAll(client); err != nil || len(got) > 0 {
		t.Errorf("the client got %q, %v", got, err)
	}
	e := b.stage(t, history.Answered)
	if e.Type != contract.Info || e.Status != 0 || !strings.HasPrefix(e.Msg, "refused") {
		t.Errorf("answered as %s, status %d: %s", e.Type, e.Status, e.Msg)
	}
	if s := stages(b.all()); s != "received/invoke answered/info" {
		t.Errorf("the story is %s", s)
	}
}
