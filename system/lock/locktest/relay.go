package locktest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Relay stands between a store and its backend and has the network's faults.
type Relay struct {
	listener net.Listener
	upstream string
	running  sync.WaitGroup

	mu     sync.Mutex
	moved  *sync.Cond // hold was lifted, or a connection cut
	hold   bool
	delay  time.Duration
	conns  map[net.Conn]struct{}
	closed bool
}

// NewRelay relays to upstream until t ends.
func NewRelay(t testing.TB, upstream string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{listener: l, upstream: upstream, conns: map[net.Conn]struct{}{}}
	r.moved = sync.NewCond(&r.mu)
	r.running.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close() // ends accept
		r.mu.Lock()
		r.closed = true
		r.mu.Unlock()
		r.Cut()
		r.running.Wait()
	})
	return r
}

// Address is where the relay listens.
func (r *Relay) Address() string { return r.listener.Addr().String() }

// Hold keeps back every answer of the backend; requests go through.
func (r *Relay) Hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = true
}

// LetGo lets the answers that were held, and all later ones, through.
func (r *Relay) LetGo() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = false
	r.moved.Broadcast()
}

// Cut cuts all connections; what was held is lost. New ones are relayed.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = false
	for c := range r.conns {
		_ = c.Close() // both sides learn of it
	}
	clear(r.conns)
	r.moved.Broadcast()
}

// Delay delays everything in both directions.
func (r *Relay) Delay(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = d
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.upstream)
		if err != nil || !r.own(client, server) {
			_ = client.Close() // as the backend would have refused it
			continue
		}
		r.running.Go(func() { r.pipe(server, client, func() bool { return true }) })
		r.running.Go(func() { r.pipe(client, server, func() bool { return r.whileHeld(server) }) })
	}
}

func (r *Relay) own(client, server net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = server.Close() // nobody wants it any more
		return false
	}
	r.conns[client], r.conns[server] = struct{}{}, struct{}{}
	return true
}

// whileHeld waits while answers are held, and tells whether the connection still stands.
func (r *Relay) whileHeld(server net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.hold {
		r.moved.Wait()
	}
	_, stands := r.conns[server]
	return stands
}

// pipe copies from one side to the other until either is closed.
func (r *Relay) pipe(to, from net.Conn, pass func() bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			r.mu.Lock()
			d := r.delay
			r.mu.Unlock()
			time.Sleep(d)
			if !pass() {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err == io.EOF || err != nil {
			return
		}
	}
}
