package payment_test

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// refuseConnections is a PostgreSQL whose disk is full and which has nothing in memory yet: it ends every new connection
// with an internal error, before anything was asked.
func refuseConnections(t *testing.T) (address string) {
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

func TestAPaydbThatCannotTakeConnectionsIsAnOutageWhateverItsReason(t *testing.T) {
	b := newBenchOn(t, strings.Replace(paydbURL, server.Address(), refuseConnections(t), 1), true)
	p := "0b9cd5c1-3b0e-4d43-8f2c-2a4c2f6f8a11"
	for verb, body := range writes {
		b.want(b.send(request{payout: p, verb: verb, body: body, token: 41}), 503, "STORE_UNAVAILABLE")
	}
	for _, path := range []string{"/v1/payouts", "/v1/payouts/" + p, "/v1/accounts/" + p} {
		b.want(b.get(path), 503, "STORE_UNAVAILABLE")
	}
}
