// Package wiretap is the witness on the wire: a plain HTTP/1.1 relay, one per link, that records every call as history
// events. It reads a request whole, detaches it from the client's connection (a client that goes away does not call it
// back: that is the zombie write; only a waiting acquire passes a disconnect on), forwards it at most once and never
// sends anything again. Bytes pass as they came; only an Expect: 100-continue is answered here and not passed on.
//
// It is written on bare connections because Go's client and httputil.ReverseProxy re-send requests silently when a
// kept-alive connection breaks.
package wiretap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// Limits of a message, above every limit that a server of the contract has, so that its own refusal is what the client
// sees. A request beyond them is answered 400 by the relay itself; an answer beyond them counts as cut.
const (
	MaxHead   = 2 << 20  // bytes of request or status line and header fields
	MaxBody   = 16 << 20 // bytes of a request's body
	MaxAnswer = 64 << 20 // bytes of an answer, everything included
)

// dialTimeout bounds a connection's set-up. Over loopback it only ends for a server whose backlog is full.
const dialTimeout = 5 * time.Second

// Sink takes the events; *history.Recorder is one.
type Sink interface {
	Record(w history.Witness, e history.Event) int64
}

// Config is what a Relay needs. All fields but Listen are required.
type Config struct {
	// Link is the hop that the relay stands on: it names the client of every call.
	Link contract.Link
	// Upstream is the server's address, "127.0.0.1:8080".
	Upstream string
	// Listen is the address to listen on; "" is a free port on 127.0.0.1.
	Listen string
	Sink   Sink
}

// calls numbers the calls of all relays of the process: a run's call numbers are unique over all links.
var calls atomic.Int64

// Relay relays and records one link.
type Relay struct {
	cfg      Config
	listener net.Listener
	link     string
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{} // both sides; Close cuts them

	rules rules
}

// Listen starts the relay of one link. The server need not be there yet.
func Listen(cfg Config) (*Relay, error) {
	if cfg.Sink == nil || cfg.Upstream == "" || cfg.Link == (contract.Link{}) {
		return nil, errors.New("start a wiretap: it needs a link, an upstream and a sink")
	}
	addr := cfg.Listen
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("start the wiretap of %s: %w", cfg.Link, err)
	}
	r := &Relay{cfg: cfg, listener: l, link: cfg.Link.String(), conns: map[net.Conn]struct{}{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.wg.Go(r.accept)
	return r, nil
}

// Link is the hop that the relay stands on.
func (r *Relay) Link() contract.Link { return r.cfg.Link }

// Addr is the address that clients call, "127.0.0.1:54321".
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Close stops listening, cuts all connections and waits until every call has recorded how it ended.
func (r *Relay) Close() error {
	r.mu.Lock()
	r.closed = true
	for c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.cancel()
	err := r.listener.Close()
	r.wg.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the wiretap of %s: %w", r.cfg.Link, err)
	}
	return nil
}

func (r *Relay) accept() {
	for {
		c, err := r.listener.Accept()
		switch {
		case err == nil && r.track(c):
			r.wg.Go(func() { newConn(r, c).serve() })
		case err == nil, errors.Is(err, net.ErrClosed):
			return
		default: // out of file descriptors, say: wait a little, as every server does
			select {
			case <-r.ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// track makes Close cut c. It closes c at once and returns false when Close was there first.
func (r *Relay) track(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = c.Close()
		return false
	}
	r.conns[c] = struct{}{}
	return true
}

func (r *Relay) untrack(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

func (r *Relay) record(e history.Event) { r.cfg.Sink.Record(history.Wiretap, e) }
