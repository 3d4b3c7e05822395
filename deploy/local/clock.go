package local

import (
	"context"
	_ "embed" // the statements
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"fenceproof/deploy/vskew"

	"github.com/jackc/pgx/v5"
)

// Clock is the wall clock of one process of the stack, or of a database server with all of its processes.
type Clock struct {
	process Process
	read    func(ctx context.Context) (least, most time.Duration, err error)
	close   func(ctx context.Context) error
}

// clockSQL asks a database for its time.
//
//go:embed sql/clock.sql
var clockSQL string

// begunLaterSQL counts what began by a clock that was ahead.
//
//go:embed sql/count_begun_later.sql
var begunLaterSQL string

// Clock is the clock of the process of that name. A client cannot be asked for its time, as it serves nobody, and so has no
// clock. Close gives it up.
func (s *Stack) Clock(ctx context.Context, name string) (*Clock, error) {
	if err := vskew.Supported(); err != nil {
		return nil, fmt.Errorf("move the clock of %s: %w", name, err)
	}
	p, err := s.Process(name)
	if err != nil {
		return nil, err
	}
	c := &Clock{process: p, close: func(context.Context) error { return nil }}
	switch p := p.(type) {
	case *database:
		d := &databaseClock{url: p.SuperURL("postgres")}
		if d.old, err = pgx.Connect(ctx, d.url); err != nil {
			return nil, fmt.Errorf("connect to %s to read its clock: %w", name, err)
		}
		c.read, c.close = d.read, d.close
	case *member:
		c.read = func(ctx context.Context) (least, most time.Duration, err error) {
			return readHTTP(ctx, p.URL()+"/version")
		}
	default:
		url, err := s.AdminURL(name)
		if err != nil {
			return nil, fmt.Errorf("move the clock of %s: %w", name, err)
		}
		c.read = func(ctx context.Context) (least, most time.Duration, err error) { return readHTTP(ctx, url+"/healthz") }
	}
	return c, nil
}

// BegunLater is how many transactions of lockdb began by a clock that was ahead and is right again: what they write yet is
// by that clock.
func (s *Stack) BegunLater(ctx context.Context) (n int, err error) {
	d, err := s.database(LockDB)
	if err != nil {
		return 0, err
	}
	c, err := pgx.Connect(ctx, d.SuperURL("postgres"))
	if err != nil {
		return 0, fmt.Errorf("ask lockdb for what began by a wrong clock: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	if err := c.QueryRow(ctx, begunLaterSQL).Scan(&n); err != nil {
		return 0, fmt.Errorf("ask lockdb for what began by a wrong clock: %w", err)
	}
	return n, nil
}

// Running tells whether there is a process whose clock it is.
func (c *Clock) Running() bool { return c.process.Running() }

// Close gives the clock up and leaves it as it stands.
func (c *Clock) Close(ctx context.Context) error { return c.close(ctx) }

// Move puts the clock by ahead of the true time, or behind it where by is negative; a server's in all of its processes. A
// process that has ended has no clock, and the one that is started in its place has the true time.
func (c *Clock) Move(ctx context.Context, by time.Duration) error {
	if !c.process.Running() {
		return fmt.Errorf("move the clock of %s: it has ended", c.process.Name())
	}
	if err := vskew.MoveFamily(ctx, c.process.Pid(), by); err != nil {
		return fmt.Errorf("move the clock of %s: %w", c.process.Name(), err)
	}
	return nil
}

// Read asks the process what time it is, and tells by how much its clock is ahead of this process's: at least and at most.
// A database is asked over a connection that was there before, or that takes the place of one that an earlier question has
// ended, and over a fresh one; a service answers with its Date, which is in whole seconds.
func (c *Clock) Read(ctx context.Context) (least, most time.Duration, err error) {
	if least, most, err = c.read(ctx); err != nil {
		return 0, 0, fmt.Errorf("read the clock of %s: %w", c.process.Name(), err)
	}
	return least, most, nil
}

// ahead bounds by how much a clock is ahead that showed a time from first to last, at some moment between two of this
// process's.
func ahead(first, last, sent, answered time.Time) (least, most time.Duration) {
	return first.Round(0).Sub(answered.Round(0)), last.Round(0).Sub(sent.Round(0))
}

// databaseClock asks a database for its time.
type databaseClock struct {
	url string
	old *pgx.Conn // closed by an answer that came too late
}

func (d *databaseClock) close(ctx context.Context) error { return d.old.Close(ctx) }

// read is the hull of what both connections say: they agree unless one of its processes was left out.
func (d *databaseClock) read(ctx context.Context) (least, most time.Duration, err error) {
	if d.old.IsClosed() { // the next questions have one that was there before again
		again, err := pgx.Connect(ctx, d.url)
		if err != nil {
			return 0, 0, err
		}
		d.old = again
	}
	fresh, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, fresh.Close(context.WithoutCancel(ctx))) }()
	for i, conn := range []*pgx.Conn{d.old, fresh} {
		var at time.Time
		sent := time.Now()
		if err := conn.QueryRow(ctx, clockSQL).Scan(&at); err != nil {
			return 0, 0, err
		}
		l, m := ahead(at, at.Add(time.Microsecond), sent, time.Now())
		if i == 0 || l < least {
			least = l
		}
		if i == 0 || m > most {
			most = m
		}
	}
	return least, most, nil
}

// readHTTP goes by the Date of an answer, whatever that is.
func readHTTP(ctx context.Context, url string) (least, most time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, 0, err
	}
	sent := time.Now()
	resp, err := probe.Do(req)
	if err != nil {
		return 0, 0, err
	}
	answered := time.Now()
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)); err != nil {
		return 0, 0, err
	}
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0, 0, fmt.Errorf("%s answers without a date: %w", url, err)
	}
	least, most = ahead(date, date.Add(time.Second), sent, answered)
	return least, most, nil
}
