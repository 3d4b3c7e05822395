package pgstore_test

import (
	"log/slog"
	"testing"
	"time"

	"fenceproof/deploy/postgres/postgrestest"
	"fenceproof/system/lock"
	"fenceproof/system/lock/pgstore"
)

func TestADatabaseThatCannotTakeConnectionsIsUnavailableWhateverItsReason(t *testing.T) {
	s, err := pgstore.Open("postgres://lockapp@"+postgrestest.Refusing(t)+"/lockdb?sslmode=disable", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.OpenSession(t.Context(), "a", time.Second)
	wantIs(t, err, lock.ErrUnavailable)
}
