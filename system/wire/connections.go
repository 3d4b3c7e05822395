package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	dialTimeout = 2 * time.Second
	// keepIdle is how long an idle connection is kept; servers wait longer before they hang up (see package service), for
	// whatever is on its way then would be lost.
	keepIdle = 30 * time.Second
	// maxAnswer bounds an answer with its header, and those before it, in bytes.
	maxAnswer = 16 * MaxBody
	// maxInterim bounds the answers of status 1xx before the one that counts.
	maxInterim = 8
)

// connections are those to one server, kept between requests. The messages are read and written by net/http, but not its
// Transport: an exchange runs on its caller's goroutine, where a Transport passes it to a goroutine that writes and one
// that reads, which is most of what a call costs its client. And nothing here can send a request again, not even a GET.
type connections struct {
	address string // host:port
	most    int    // idle connections kept

	mu     sync.Mutex
	idle   []*connection // the one used last at the end
	sweep  *time.Timer   // nil until something is idle again
	closed bool          // nothing is kept any more
}

// connection is used by one exchange at a time.
type connection struct {
	net.Conn
	raw    syscall.RawConn
	budget io.LimitedReader // what may still come
	r      *bufio.Reader
	w      *bufio.Writer
	since  time.Time // idle since
}

// exchange sends req once and returns the answer's status and body. After an error it is not known whether the server has
// acted, unless the connection could not even be made. It ends with ctx.
func (p *connections) exchange(ctx context.Context, req *http.Request) (status int, body []byte, err error) {
	c, err := p.take(ctx)
	if err != nil {
		return 0, nil, err
	}
	undisturbed := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }) // ends what blocks
	status, body, again, err := c.exchange(req)
	if undisturbed() && again {
		p.put(c)
	} else {
		_ = c.Close() // there is nothing left to be said on it
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return status, body, err
}

// exchange is one request and its answer; again tells whether another may follow on the connection.
func (c *connection) exchange(req *http.Request) (status int, body []byte, again bool, err error) {
	unsent := req.Write(c.w)
	if unsent == nil {
		unsent = c.w.Flush()
	}
	c.budget.N = maxAnswer + 1 // one is left of an answer that is as long as it may be
	res, err := c.answer(req)
	switch {
	case err != nil && unsent != nil: // else the server had heard enough, and has answered
		return 0, nil, false, fmt.Errorf("send the request: %w", unsent)
	case err != nil:
		return 0, nil, false, fmt.Errorf("wait for the answer: %w", err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if res.ContentLength > 0 && res.ContentLength <= maxEager {
		b.Grow(int(res.ContentLength) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(res.Body); err != nil {
		return 0, nil, false, fmt.Errorf("read the answer: %w", c.overlong(err))
	}
	if c.budget.N <= 0 { // a body without a length ends where the connection seems to
		return 0, nil, false, fmt.Errorf("read the answer: %w", c.overlong(io.ErrUnexpectedEOF))
	}
	return res.StatusCode, b.Bytes(), unsent == nil && !res.Close && c.r.Buffered() == 0, nil
}

// answer reads the header of the answer that counts. Nobody here asks to switch protocols: 101 is like the rest of 1xx.
func (c *connection) answer(req *http.Request) (*http.Response, error) {
	for range maxInterim {
		res, err := http.ReadResponse(c.r, req)
		if err != nil {
			return nil, c.overlong(err)
		}
		if res.StatusCode >= 200 {
			return res, nil
		}
	}
	return nil, errors.New("only interim answers came")
}

// overlong says what the end of the budget looks like an end of the connection.
func (c *connection) overlong(err error) error {
	if c.budget.N <= 0 {
		return fmt.Errorf("it has more than %d bytes", int64(maxAnswer))
	}
	return err
}

// take is an idle connection to which the server has not said anything since, or else a new one.
func (p *connections) take(ctx context.Context) (*connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for c := p.last(); c != nil; c = p.last() {
		if c.fresh() && c.quiet() {
			return c, nil
		}
		_ = c.Close()
	}
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, err // it names the address
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connect to %s: %w", p.address, err)
	}
	c := &connection{Conn: conn, raw: raw, budget: io.LimitedReader{R: conn}, w: bufio.NewWriter(conn)}
	c.r = bufio.NewReader(&c.budget)
	return c, nil
}

// last takes the connection that was used last out of the idle ones.
func (p *connections) last() *connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle) - 1
	if n < 0 {
		return nil
	}
	c := p.idle[n]
	p.idle[n], p.idle = nil, p.idle[:n]
	return c
}

// fresh tells whether the connection is younger than servers let idle ones be: a process that was stopped for longer runs
// before its timers do, and on a link that holds what passes, the server's end is not to be seen.
func (c *connection) fresh() bool { return time.Since(c.since) < keepIdle }

// quiet tells whether the connection still stands with nothing to be read from it. A server that hung up has said so: a
// request on such a connection would be lost, and nobody could tell that it was.
func (c *connection) quiet() bool {
	nothing := false
	err := c.raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		nothing = errors.Is(err, unix.EAGAIN)
		return true
	})
	return err == nil && nothing
}

// put keeps the connection for the next request.
func (p *connections) put(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= p.most {
		_ = c.Close()
		return
	}
	c.since = time.Now()
	p.idle = append(p.idle, c)
	if p.sweep == nil {
		p.sweep = time.AfterFunc(keepIdle, p.expire)
	}
}

// expire closes what was idle for too long.
func (p *connections) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = slices.DeleteFunc(p.idle, func(c *connection) bool {
		old := !c.fresh()
		if old {
			_ = c.Close()
		}
		return old
	})
	p.sweep = nil
	if len(p.idle) > 0 {
		p.sweep = time.AfterFunc(keepIdle-time.Since(p.idle[0].since), p.expire)
	}
}

// close drops the idle connections; those in use are dropped after their exchange.
func (p *connections) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		_ = c.Close()
	}
	p.idle = nil
	if p.sweep != nil {
		p.sweep.Stop()
		p.sweep = nil
	}
}
