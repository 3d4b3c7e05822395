package wiretap

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// conn is a client's connection. One goroutine serves it, one call after another.
type conn struct {
	relay  *Relay
	client net.Conn
	raw    syscall.RawConn
	in     *bufio.Reader
	up     *upstream // the kept connection to the server, nil without one
	req    message
	res    message
}

func newConn(r *Relay, client net.Conn) *conn {
	return &conn{relay: r, client: client, in: bufio.NewReader(client)}
}

func (c *conn) serve() {
	defer c.relay.untrack(c.client)
	defer c.drop()
	raw, err := c.client.(*net.TCPConn).SyscallConn()
	if err != nil {
		return
	}
	for c.raw = raw; c.next(); {
		c.req.shrink()
		c.res.shrink()
	}
}

// drop closes the connection to the server.
func (c *conn) drop() {
	if c.up != nil {
		c.relay.untrack(c.up.Conn)
		c.up = nil
	}
}

// next serves one call. It returns false when the connection is done with.
func (c *conn) next() bool {
	err := c.req.readRequest(c.in, func() error {
		_, err := io.WriteString(c.client, "HTTP/1.1 100 Continue\r\n\r\n")
		return err
	})
	if errors.Is(err, errRefused) {
		c.refuse(err)
		return false
	}
	if err != nil {
		return false // no whole request: there is no call
	}
	if c.req.asksForNothing() {
		_, err := io.WriteString(c.client, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		_, _, version := c.req.request()
		return err == nil && c.req.persistent(version)
	}
	k := c.relay.newCall(&c.req)
	k.received()
	rule := c.relay.rules.meet(Request, k)
	if rule.drops() {
		k.unanswered("the request was dropped by a rule")
		c.silence()
		return false
	}
	note, asked := rule.wait(c.relay.ctx), *k
	a := c.exchange(k, note)
	if rule.duplicates() {
		c.relay.duplicate(asked, &c.req, rule)
	}
	if a.status == 0 {
		return false
	}
	return c.deliver(k) && a.goesOn
}

// exchange brings the request to the server, at most once, and records what became of it.
func (c *conn) exchange(k *call, note string) answer {
	if c.up != nil && !c.up.usable() {
		c.drop()
	}
	if c.up == nil {
		var err error
		if c.up, err = c.relay.dial(); err != nil {
			k.unanswered(fmt.Sprintf("refused: nothing was sent: %v", err))
			return answer{err: err}
		}
	}
	k.forwarded(note)
	calledBack := func() bool { return false }
	if k.waits {
		calledBack = c.watch()
	}
	a := c.up.exchange(&c.req, &c.res, k.method)
	back := calledBack()
	switch {
	case a.err == nil:
		k.answered(a.status, c.res.body)
	case c.relay.ctx.Err() != nil:
		k.unanswered("cut: the relay was closed")
	case back:
		k.unanswered("called back: the client went away while it waited")
	default:
		k.torn(c.res.raw, fmt.Sprintf("cut: %v, after %d bytes of an answer", a.err, len(c.res.raw)))
		_, _ = c.client.Write(c.res.raw) // what did come is not ours to keep
	}
	if !a.reuse {
		c.drop()
	}
	return a
}

// watch closes the connection to the server when the client goes away. The function it returns ends the watch and
// tells whether that happened. Meanwhile nobody else may read from the client.
func (c *conn) watch() (end func() bool) {
	done := make(chan bool, 1)
	up := c.up
	go func() {
		_, err := c.in.Peek(1) // data is the next request of a client that is still there
		left := err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
		if left {
			_ = up.Close()
		}
		done <- left
	}()
	return func() bool {
		_ = c.client.SetReadDeadline(time.Unix(1, 0))
		left := <-done
		_ = c.client.SetReadDeadline(time.Time{})
		return left
	}
}

// deliver hands the answer to the client, if it is still there.
func (c *conn) deliver(k *call) bool {
	rule := c.relay.rules.meet(Answer, k)
	if rule.drops() {
		k.mark(history.Lost, contract.Info, "the answer was dropped by a rule")
		c.silence()
		return false
	}
	note := rule.wait(c.relay.ctx)
	if gone(c.raw) {
		k.mark(history.Lost, contract.Info, note)
		return true // requests that it sent before it went are still to be read, as any server would
	}
	if _, err := c.client.Write(c.res.raw); err != nil {
		k.mark(history.Lost, contract.Info, note)
		return false
	}
	k.mark(history.Delivered, k.event.Type, note)
	return true
}

// refuse answers what is no request that the relay can pass on. It never reached the server, so it had no effect.
func (c *conn) refuse(why error) {
	k := c.relay.newCall(&c.req)
	k.req = ""
	k.received()
	body, err := json.Marshal(map[string]any{
		"code": contract.InvalidRequest, "message": why.Error(), "retrySafe": false, "traceId": ""})
	if err != nil {
		return
	}
	k.answered(400, body)
	c.res.raw = fmt.Appendf(nil, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	if c.deliver(k) {
		c.linger()
	}
}

// linger reads on for a moment before the connection is closed: closing with unread bytes would send a reset, which
// takes the answer away from a client that is still writing.
func (c *conn) linger() {
	if t, ok := c.client.(*net.TCPConn); ok {
		_ = t.CloseWrite()
	}
	_ = c.client.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.Copy(io.Discard, c.in)
}

// silence says nothing until the client gives up.
func (c *conn) silence() { _, _ = io.Copy(io.Discard, c.in) }
