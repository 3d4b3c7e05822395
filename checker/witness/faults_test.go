package witness

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/checker/history"
	"fenceproof/deploy/postgres"

	"github.com/jackc/pgx/v5"
)

func TestCrashesAndRestartsLoseAndDoubleNothing(t *testing.T) {
	w := newDatabase(t, ownServer(t), randomTables)
	d := w.attach(w.config())
	var committed atomic.Int64
	stop := make(chan struct{})
	writers := w.write(3, 4, 1<<30, stop, &committed)
	defer writers.Wait()
	ended := sync.OnceFunc(func() { close(stop) })
	defer ended()
	for round := range 4 {
		from := committed.Load()
		w.until("60 more transactions have committed", func() bool { return committed.Load() >= from+60 })
		end := w.server.Crash
		if round%2 == 1 {
			end = w.server.Stop // a server that stops in order waits until its witness has everything
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ended()
	writers.Wait()
	w.drain(d)
	w.page.keptPlace(t)
	w.agrees("narrow", "wide", "counter", "numbered")
	w.numbersAscend()
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAServerThatStopsInOrderIsNotHeldUp(t *testing.T) {
	w := newDatabase(t, ownServer(t), "CREATE TABLE t (id bigint PRIMARY KEY)")
	d := w.attach(w.config())
	for n := range 3 { // the server waits for its reader, whose slot stays behind on purpose
		w.pool.Reset()
		w.exec("INSERT INTO t VALUES ($1)", n)
		w.drain(d)
		if err := w.server.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.drain(d)
	w.page.keptPlace(t)
	w.pool.Reset()
	w.agrees("t")
}

func TestAPausedServerIsNotALostOne(t *testing.T) {
	w := newDatabase(t, ownServer(t), randomTables)
	d := w.attach(w.config())
	var committed atomic.Int64
	stop := make(chan struct{})
	writers := w.write(5, 4, 1<<30, stop, &committed)
	defer writers.Wait()
	ended := sync.OnceFunc(func() { close(stop) })
	defer ended()
	for range 3 {
		from := committed.Load()
		w.until("30 more transactions have committed", func() bool { return committed.Load() >= from+30 })
		if err := w.server.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := d.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrLost) {
			t.Errorf("Drain of a paused server returned %v", err)
		}
		cancel()
		if err := w.server.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ended()
	writers.Wait()
	w.drain(d)
	w.page.keptPlace(t)
	w.agrees("narrow", "wide", "counter", "numbered")
}

// behindAGate is a database with one table, and a witness that reaches it through a gate.
func behindAGate(t *testing.T, server *postgres.Instance) (*watched, *gate, *Database) {
	t.Helper()
	w := newDatabase(t, server, "CREATE TABLE t (id bigint PRIMARY KEY, v text)")
	g := newGate(t, w.server)
	cfg := w.config()
	cfg.URL = g.through(cfg.URL)
	d := w.attach(cfg)
	w.exec("INSERT INTO t VALUES (1)")
	w.drain(d)
	return w, g, d
}

func TestACutConnectionLosesNothing(t *testing.T) {
	w, g, d := behindAGate(t, shared)
	for n := range 5 {
		g.close()
		w.exec("INSERT INTO t VALUES ($1)", 10+n)
		g.reopen()
		w.exec("INSERT INTO t VALUES ($1)", 20+n)
	}
	w.drain(d)
	w.page.keptPlace(t)
	w.agrees("t")
}

func TestASlotThatIsGoneCostsThePlace(t *testing.T) {
	w, g, d := behindAGate(t, shared)
	g.close()
	w.freeSlot()
	w.super("SELECT pg_drop_replication_slot('fenceproof_paydb_0')")
	w.exec("INSERT INTO t VALUES (2)")
	g.reopen()
	w.refuses(d, "slot fenceproof_paydb_0 is gone")
}

func TestASlotThatSomebodyElseMovedCostsThePlace(t *testing.T) {
	w, g, d := behindAGate(t, shared)
	g.close()
	w.freeSlot()
	w.exec("INSERT INTO t VALUES (2)")
	w.super("SELECT pg_replication_slot_advance('fenceproof_paydb_0', pg_current_wal_lsn())")
	g.reopen()
	w.refuses(d, "somebody else moved")
}

// freeSlot waits until the server has noticed that the slot's reader is gone.
func (w *watched) freeSlot() {
	w.Helper()
	w.until("the slot is free", func() bool {
		var active bool
		if err := w.pool.QueryRow(w.Context(), "SELECT active FROM pg_replication_slots").Scan(&active); err != nil {
			w.Fatal(err)
		}
		return !active
	})
}

// restoreAnOlderCopy copies the data directory, lets the database go on, and puts the copy back, with the gate shut.
func (w *watched) restoreAnOlderCopy(g *gate, d *Database) {
	w.Helper()
	data := w.server.DataFolder()
	copied := data + ".copy"
	w.Cleanup(func() { _ = os.RemoveAll(copied) })
	step := func(err error) {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
	}
	step(w.server.Stop(w.Context()))
	step(exec.Command("cp", "-a", data, copied).Run())
	step(w.server.Start(w.Context()))
	w.pool.Reset()
	var end string
	step(w.pool.QueryRow(w.Context(), "SELECT pg_current_wal_lsn()::text").Scan(&end))
	w.exec("INSERT INTO t SELECT n, repeat('x', 500) FROM generate_series(2, 200) n; DELETE FROM t WHERE id > 1")
	w.drain(d)
	w.until("the server has been told that nothing before the copy's end need be sent again", func() bool {
		var told bool
		step(w.pool.QueryRow(w.Context(), "SELECT confirmed_flush_lsn > $1::text::pg_lsn FROM pg_replication_slots", end).Scan(&told))
		return told
	})
	g.close()
	step(w.server.Crash(w.Context()))
	step(os.RemoveAll(data))
	step(os.Rename(copied, data))
	step(w.server.Start(w.Context()))
	w.pool.Reset()
}

func TestALogThatWentBackCostsThePlace(t *testing.T) {
	w, g, d := behindAGate(t, ownServer(t))
	w.restoreAnOlderCopy(g, d)
	g.reopen()
	w.refuses(d, "the database was put back to an older state")
}

func TestALogThatWentBackAndGrewPastTheOldPlaceCostsThePlace(t *testing.T) {
	w, g, d := behindAGate(t, ownServer(t))
	w.restoreAnOlderCopy(g, d)
	mine := w.page.all(history.OpCommit)
	for grown := false; !grown; { // the other history grows well past the end of the one that was read
		w.exec("INSERT INTO t SELECT n, repeat('y', 700) FROM generate_series(2, 900) n; DELETE FROM t WHERE id > 1")
		if err := w.pool.QueryRow(t.Context(), "SELECT pg_current_wal_flush_lsn() > $1::text::pg_lsn + 1000000", mine[len(mine)-1].LSN).Scan(&grown); err != nil {
			t.Fatal(err)
		}
	}
	before := len(mine)
	g.reopen()
	w.refuses(d, "put back to an older state and written anew")
	if after := len(w.page.all(history.OpCommit)); after != before {
		t.Errorf("%d transactions of the other history were recorded", after-before)
	}
}

func TestAPromotionCostsThePlace(t *testing.T) {
	w, g, d := behindAGate(t, ownServer(t))
	g.close()
	if err := w.server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.server.DataFolder(), "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := w.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.super("SELECT pg_promote()")
	w.pool.Reset()
	w.exec("INSERT INTO t VALUES (2)")
	g.reopen()
	w.refuses(d, "a standby was promoted")
}

func TestAnotherDatabaseOfTheSameNameCostsThePlace(t *testing.T) {
	w, g, d := behindAGate(t, ownServer(t))
	g.close()
	w.freeSlot()
	w.pool.Reset()
	c, err := pgx.Connect(t.Context(), w.server.SuperURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, sql := range []string{"ALTER DATABASE " + w.name + " RENAME TO aside", "CREATE DATABASE " + w.name + " TEMPLATE aside"} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	g.reopen()
	w.refuses(d, "slot fenceproof_paydb_0 is gone")
}

func TestADatabaseThatIsGoneAtTheEndLeavesItsLastCommitsUnknown(t *testing.T) {
	w := newDatabase(t, ownServer(t), "CREATE TABLE t (id bigint PRIMARY KEY)")
	d := w.attach(w.config())
	if err := w.server.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := d.Close(ctx); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "it is not known whether all commits were recorded") {
		t.Errorf("Close returned %v", err)
	}
	if w.page.awaitLost(t); w.page.whole(history.PayDB) {
		t.Error("the history was marked as complete")
	}
}
