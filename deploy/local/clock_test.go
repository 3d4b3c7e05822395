//go:build linux && amd64

package local

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// reads reads the clock until what it says is narrower than a second, and fails unless by is among it.
func reads(t *testing.T, c *Clock, by time.Duration) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		least, most, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if least > by || by > most {
			t.Errorf("%s is %s to %s ahead, and not %s", c.process.Name(), least, most, by)
			return
		}
		if most-least < 3*time.Second { // a whole second, and what the answer took
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s never answers soon enough to tell its time", c.process.Name())
		}
	}
}

func TestTheClockOfEveryKindOfProcessIsMovedAndRightAgain(t *testing.T) {
	s := boot(t, config(t))
	for _, name := range []string{LockDB, PayDB, LockServer, PaymentResource, RailProxy, RailStub, Reconciler, Executor(1)} {
		c, err := s.Clock(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, by := range []time.Duration{time.Hour, -time.Hour, 0} {
			if err := c.Move(t.Context(), by); err != nil {
				t.Fatal(err)
			}
			reads(t, c, by)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	other, err := s.Clock(t.Context(), Executor(2))
	if err != nil {
		t.Fatal(err)
	}
	reads(t, other, 0)
}

func TestAProcessThatIsStartedAgainHasTheTrueTime(t *testing.T) {
	s := boot(t, config(t))
	for _, name := range []string{LockDB, LockServer} {
		c, err := s.Clock(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Move(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		reads(t, c, time.Hour)
		p, err := s.Process(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Move(t.Context(), time.Minute); err == nil {
			t.Errorf("the clock of %s was moved, and it has ended", name)
		}
		_ = c.Close(t.Context()) // the server that it was connected to is gone
		if err := p.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		fresh, err := s.Clock(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		reads(t, fresh, 0)
		if err := fresh.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// An answer that comes too late costs the connection that it was to come over. The clock can be read all the same.
func TestTheClockOfADatabaseIsReadAgainWhenAConnectionWasLost(t *testing.T) {
	cfg := config(t)
	cfg.Executors, cfg.LocksOnly = 0, true
	s := boot(t, cfg)
	c, err := s.Clock(t.Context(), LockDB)
	if err != nil {
		t.Fatal(err)
	}
	reads(t, c, 0)
	d, err := s.database(LockDB)
	if err != nil {
		t.Fatal(err)
	}
	if !isSo(t, d, "SELECT bool_and(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE query LIKE 'SELECT clock_timestamp%'") {
		t.Fatal("the connection was not ended")
	}
	if _, _, err := c.Read(t.Context()); err == nil {
		t.Fatal("a connection that was ended has answered")
	}
	reads(t, c, 0)
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAClientThatServesNobodyHasNoClockToRead(t *testing.T) {
	s := &Stack{services: map[string]*service{"lock-client-1": {name: "lock-client-1", client: true}}}
	if _, err := s.Clock(t.Context(), "lock-client-1"); err == nil {
		t.Error("it has one")
	}
}

// What began while lockdb was ahead may be committed when its clock is right again, and is by the wrong one.
func TestATransactionThatBeganByAClockThatWasAheadIsCountedUntilItIsOver(t *testing.T) {
	s := boot(t, config(t))
	clock, err := s.Clock(t.Context(), LockDB)
	if err != nil {
		t.Fatal(err)
	}
	defer clock.Close(t.Context())
	d, err := s.database(LockDB)
	if err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), d.SuperURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	count := func(want int) {
		t.Helper()
		if n, err := s.BegunLater(t.Context()); err != nil || n != want {
			t.Errorf("%d transactions began by the wrong clock, not %d: %v", n, want, err)
		}
	}
	begin := func() pgx.Tx {
		t.Helper()
		tx, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	honest := begin()
	count(0)
	if err := honest.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := clock.Move(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	wrong := begin()
	if err := clock.Move(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	count(1)
	if err := wrong.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	count(0)
}
