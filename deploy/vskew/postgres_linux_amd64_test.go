package vskew

import (
	"context"
	"testing"
	"time"

	"fenceproof/deploy/postgres/postgrestest"

	"github.com/jackc/pgx/v5"
)

// PostgreSQL is a C program whose connections are processes that it forks: those that are there are moved, and those to
// come begin moved.
func TestEveryConnectionOfAPostgreSQLReadsTheMovedTimeAndMeasuresTrueDurations(t *testing.T) {
	m, db := moves(t), postgrestest.Start(t)
	m.ofAnybody()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	connect := func() *pgx.Conn {
		c, err := pgx.Connect(ctx, db.URL("postgres", "postgres"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	shift := func(c *pgx.Conn, of string) time.Duration {
		var at time.Time
		if err := c.QueryRow(ctx, "SELECT "+of).Scan(&at); err != nil {
			t.Fatal(err)
		}
		return time.Until(at)
	}
	old := connect()
	for _, by := range []time.Duration{time.Hour, -time.Hour, 0} {
		m.do("family %d %s", db.Process().Pid(), by)
		for who, c := range map[string]*pgx.Conn{"an old connection": old, "a new connection": connect()} {
			for _, of := range []string{"clock_timestamp()", "now()"} {
				if got := shift(c, of); (got - by).Abs() > near {
					t.Errorf("%s has %s %s away from the true time; %s was asked for", who, of, got, by)
				}
			}
			began := time.Now()
			if _, err := c.Exec(ctx, "SELECT pg_sleep(0.05)"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < 50*time.Millisecond {
				t.Errorf("%s slept for %s instead of 50ms", who, took)
			}
		}
	}
}
