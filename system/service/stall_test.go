package service

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"fenceproof/system/wire"

	"golang.org/x/sync/errgroup"
)

// pipes is a listener whose connections are in memory, so that they follow the clock of a synctest bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// inPipe serves h in a bubble and hands the client's end of one connection to story.
func inPipe(t *testing.T, h http.HandlerFunc, story func(t *testing.T, client net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		g, ctx := errgroup.WithContext(ctx)
		l := make(pipes)
		serveOn(ctx, g, l, h, slog.New(slog.DiscardHandler))
		client, server := net.Pipe()
		l <- server
		story(t, client)
		_ = client.Close() // the server may have done so
		stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// A client that begins a request and falls silent does not keep a connection and its goroutine for ever.
func TestABodyThatNeverComesEndsItsConnection(t *testing.T) {
	read := func(w http.ResponseWriter, r *http.Request) { wire.Fail(w, wire.Decode(w, r, &struct{}{})) }
	inPipe(t, read, func(t *testing.T, client net.Conn) {
		if _, err := fmt.Fprint(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		if err := client.SetReadDeadline(time.Now().Add(10 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(client); err != nil {
			t.Errorf("after 10 minutes it is open: %s, %v", text, err)
		}
	})
}

// The longest wait of the contract is 30 s, and it is not cut short.
func TestAnAnswerThatTakesItsTimeIsNotCutShort(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		if err := wire.Decode(w, r, &struct{}{}); err != nil {
			wire.Fail(w, err)
			return
		}
		select {
		case <-time.After(40 * time.Second):
			wire.Reply(w, http.StatusOK, struct{}{})
		case <-r.Context().Done():
		}
	}
	inPipe(t, slow, func(t *testing.T, client net.Conn) {
		if _, err := fmt.Fprint(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("got %v, %v", res, err)
		}
		_ = res.Body.Close()
	})
}

// A client that keeps a connection hangs up first, after 30 s (wire.Client): a server that did would fail a request on its
// way.
func TestAnIdleConnectionOutlivesItsClientsPatience(t *testing.T) {
	ok := func(w http.ResponseWriter, _ *http.Request) { wire.Reply(w, http.StatusOK, struct{}{}) }
	inPipe(t, ok, func(t *testing.T, client net.Conn) {
		in := bufio.NewReader(client)
		for range 3 {
			if _, err := fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			time.Sleep(time.Minute)
		}
	})
}
