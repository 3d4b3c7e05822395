package local

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// The questions. Whoever is asked answers at once and does nothing besides.
var (
	// httpQuestion is HTTP's own no-op. Where there is an interposer on the link that speaks HTTP, the answer is its: a server
	// behind it may be down.
	httpQuestion = []byte("OPTIONS * HTTP/1.1\r\nHost: link\r\nConnection: close\r\n\r\n")
	// postgresQuestion asks whether the server speaks TLS (SSLRequest); it answers with one letter.
	postgresQuestion = binary.BigEndian.AppendUint32([]byte{0, 0, 0, 8}, 80877103)
)

// questionTo is what a server of that name is asked.
func questionTo(server string) []byte {
	if _, ok := owners[server]; ok {
		return postgresQuestion
	}
	return httpQuestion
}

// Question is a question on its way over a link: it shows whether the link works.
type Question struct {
	conn net.Conn
	over chan struct{} // closed when err is known
	err  error
}

// Ask opens a connection of its own over the link and asks whoever is at its other end something that has no effect. An
// error means that there is no connection. Close the question in the end.
func (l *Link) Ask(ctx context.Context) (*Question, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Address())
	if err != nil {
		return nil, fmt.Errorf("ask over link %s: %w", l.Name(), err)
	}
	q := &Question{conn: conn, over: make(chan struct{})}
	_, err = conn.Write(questionTo(l.To)) // it fits into the socket's buffer
	go func() {
		defer close(q.over)
		if err == nil {
			_, err = io.ReadFull(conn, make([]byte, 1))
		}
		if err != nil {
			q.err = fmt.Errorf("ask over link %s: the connection ended without an answer: %w", l.Name(), err)
		}
	}()
	return q, nil
}

// ErrSilent is what Answer returns when neither an answer nor the connection's end came in time.
var ErrSilent = errors.New("no answer has come")

// Answer waits for the answer until ctx ends: nil when it came, ErrSilent when ctx ended, and another error when the
// connection did. It may be asked again.
func (q *Question) Answer(ctx context.Context) error {
	select {
	case <-q.over:
		return q.err
	case <-ctx.Done():
		return ErrSilent
	}
}

// Close gives the question up.
func (q *Question) Close() {
	_ = q.conn.Close() // nobody minds how
	<-q.over
}
