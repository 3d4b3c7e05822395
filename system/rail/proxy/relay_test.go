package proxy_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// relay stands between the proxy and paydb. Once armed, it breaks the next connection that sends a message with text in
// it: either before the message reaches paydb, or after, so that paydb's answer is lost.
type relay struct {
	listener net.Listener
	server   string
	conns    sync.WaitGroup

	mu        sync.Mutex
	text      string // "" while not armed
	delivered bool   // paydb gets the message
	every     bool   // break every such connection, not only the next one
	broken    int
}

// commitMessage is the end of COMMIT's message, from the last byte of its length on: a connection's settings have the
// word in them as well.
const commitMessage = "\x0bcommit\x00"

func newRelay(t *testing.T) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, server: paydb.Address()}
	r.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.conns.Go(func() { r.serve(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); r.conns.Wait() })
	return r
}

// url is paydb's, by way of the relay.
func (r *relay) url() string {
	return strings.Replace(paydbURL, paydb.Address(), r.listener.Addr().String(), 1)
}

func (r *relay) breakAt(text string, delivered, every bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text, r.delivered, r.every = text, delivered, every
}

func (r *relay) times() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}

// hit tells whether message is the one to break at.
func (r *relay) hit(message []byte) (hit, delivered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text == "" || !bytes.Contains(message, []byte(r.text)) {
		return false, false
	}
	r.broken++
	if !r.every {
		r.text = ""
	}
	return true, r.delivered
}

func (r *relay) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		return
	}
	defer server.Close()
	back := make(chan struct{})
	answers := make(chan struct{}) // closed when paydb's answers are to be swallowed
	r.conns.Go(func() {
		defer close(back)
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			select {
			case <-answers:
				return // paydb has answered, so it has acted; nobody hears of it
			default:
			}
			if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
				_ = client.Close()
				return
			}
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if n > 0 {
			hit, delivered := r.hit(buf[:n])
			if hit && !delivered {
				return
			}
			if hit {
				close(answers)
			}
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
			if hit {
				<-back
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				return
			}
			return
		}
	}
}
