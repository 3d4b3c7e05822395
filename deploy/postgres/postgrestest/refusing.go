package postgrestest

import (
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Refusing is the address of a PostgreSQL whose disk is full and which has nothing in memory yet: it ends every new connection
// with an internal error, before anything was asked. It ends with the test.
func Refusing(t testing.TB) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer c.Close()
				b := pgproto3.NewBackend(c, c)
				if _, err := b.ReceiveStartupMessage(); err != nil {
					return
				}
				b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "XX000", Message: "could not write init file"})
				_ = b.Flush() // the client may have gone
			})
		}
	})
	t.Cleanup(func() { l.Close(); served.Wait() })
	return l.Addr().String()
}
