package wiretap

import (
	"bufio"
	"fmt"
	"net"
	"syscall"
)

// upstream is a connection to the server.
type upstream struct {
	net.Conn
	raw syscall.RawConn
	in  *bufio.Reader
}

func (r *Relay) dial() (*upstream, error) {
	d := net.Dialer{Timeout: dialTimeout}
	c, err := d.DialContext(r.ctx, "tcp", r.cfg.Upstream)
	if err != nil {
		return nil, err
	}
	if !r.track(c) {
		return nil, net.ErrClosed
	}
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		r.untrack(c)
		return nil, fmt.Errorf("look at the connection: %w", err)
	}
	return &upstream{Conn: c, raw: raw, in: bufio.NewReader(c)}, nil
}

// usable tells whether an idle connection may carry another request. Once a byte of that is written nothing is ever
// sent again, so this has to be asked before.
func (u *upstream) usable() bool { return u.in.Buffered() == 0 && !stale(u.raw) }

// inline is the size up to which a request is written before its answer is read: the socket's buffer takes it, even
// from a server that is stopped.
const inline = 32 << 10

// answer is how an exchange ended.
type answer struct {
	status int   // 0: no whole answer came
	goesOn bool  // both sides may send another request after this one
	reuse  bool  // this very connection may carry it
	err    error // why no whole answer came
}

// exchange sends a request, once, and reads the answer to it into res.
func (u *upstream) exchange(req, res *message, method string) (a answer) {
	sent := make(chan error, 1)
	if len(req.raw) <= inline {
		_, err := u.Write(req.raw)
		sent <- err
	} else {
		// A server may answer before it has read everything, and read no more.
		go func() {
			_, err := u.Write(req.raw)
			sent <- err
		}()
	}
	var version string
	a.status, version, a.err = res.readAnswer(u.in, method)
	whole := false
	select {
	case err := <-sent:
		if a.err != nil && err != nil {
			a.err = err
		}
		whole = err == nil
	default:
		_ = u.Close()
		<-sent
	}
	if a.err == nil {
		_, _, asked := req.request()
		a.goesOn = res.framed(method, a.status) && res.persistent(version) && req.persistent(asked)
		a.reuse = a.goesOn && whole
	}
	return a
}
