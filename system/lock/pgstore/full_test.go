package pgstore_test

import (
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/lock/pgstore"

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

func TestADatabaseThatCannotTakeConnectionsIsUnavailableWhateverItsReason(t *testing.T) {
	s, err := pgstore.Open("postgres://lockapp@"+refuseConnections(t)+"/lockdb?sslmode=disable", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.OpenSession(t.Context(), "a", time.Second)
	wantIs(t, err, lock.ErrUnavailable)
}
