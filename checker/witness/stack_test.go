package witness

import (
	"context"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/deploy/postgres"
	"fenceproof/deploy/postgres/postgrestest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// watched is a database, a pool of clients of it, and the page that its witness writes.
type watched struct {
	*testing.T
	server *postgres.Instance
	name   string
	pool   *pgxpool.Pool
	page   *page
}

// ownServer is a server for a test that does not leave it alone.
func ownServer(t *testing.T) *postgres.Instance {
	t.Helper()
	leavesNoGoroutine(t) // the server's own goroutines end before this is looked at
	return postgrestest.Start(t)
}

var databases atomic.Int32

// newDatabase makes a database on server with the tables that ddl makes.
func newDatabase(t *testing.T, server *postgres.Instance, ddl string) *watched {
	t.Helper()
	if server == shared {
		leavesNoGoroutine(t)
	}
	w := &watched{T: t, server: server, name: fmt.Sprintf("watched_%d", databases.Add(1)), page: newPage()}
	if err := server.CreateDatabase(t.Context(), w.name, "app"); err != nil {
		t.Fatal(err)
	}
	conf, err := pgxpool.ParseConfig(server.URL("app", w.name))
	if err != nil {
		t.Fatal(err)
	}
	conf.MaxConns = 16
	if w.pool, err = pgxpool.NewWithConfig(t.Context(), conf); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pool.Close)
	w.exec(ddl)
	return w
}

func (w *watched) exec(sql string, args ...any) {
	w.Helper()
	if _, err := w.pool.Exec(w.Context(), sql, args...); err != nil {
		w.Fatalf("%.80s: %v", sql, err)
	}
}

// super runs sql as the superuser over a connection of its own.
func (w *watched) super(sql string, args ...any) {
	w.Helper()
	c, err := pgx.Connect(w.Context(), w.server.SuperURL(w.name))
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(w.Context(), sql, args...); err != nil {
		w.Fatalf("%.80s: %v", sql, err)
	}
}

func (w *watched) config() DatabaseConfig {
	return DatabaseConfig{URL: w.server.SuperURL(w.name), Witness: history.PayDB, Proc: contract.PayDB}
}

func (w *watched) attach(cfg DatabaseConfig) *Database {
	w.Helper()
	d, err := Attach(w.Context(), cfg, w.page)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = d.Close(context.Background()) }) // a second Close does nothing; a lost place is the test's matter
	return d
}

// until waits for a condition.
func (w *watched) until(what string, holds func() bool) {
	w.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("it did not come about within %s that %s", patience, what)
		}
	}
}

func (w *watched) drain(d *Database) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := d.Drain(ctx); err != nil {
		w.Fatal(err)
	}
}

// rowsNow are the table's rows as text, by id, as the database has them now.
func (w *watched) rowsNow(table string) map[string]map[string]string {
	w.Helper()
	conf, err := sessionConfig(w.server.SuperURL(w.name)) // so that text means the same here and there
	if err != nil {
		w.Fatal(err)
	}
	c, err := pgx.ConnectConfig(w.Context(), conf)
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close(context.Background())
	rows := map[string]map[string]string{}
	results, err := c.PgConn().Exec(w.Context(), "SELECT * FROM "+table).ReadAll()
	if err != nil {
		w.Fatal(err)
	}
	for _, values := range results[0].Rows {
		row := map[string]string{}
		for i, f := range results[0].FieldDescriptions {
			if values[i] != nil {
				row[f.Name] = string(values[i])
			}
		}
		rows[row["id"]] = row
	}
	return rows
}

// replayed applies every recorded change in order and returns the rows that result, by table and id. It fails where a
// row's images do not form one unbroken chain: a change that is missing, doubled or out of order breaks it.
func (w *watched) replayed() map[string]map[string]map[string]string {
	w.Helper()
	tables := map[string]map[string]map[string]string{}
	for _, e := range w.page.all(history.OpCommit) {
		for _, c := range e.Changes {
			rows := tables[c.Table]
			if rows == nil {
				rows = map[string]map[string]string{}
				tables[c.Table] = rows
			}
			if c.Kind != history.Insert {
				if had := rows[c.Old["id"]]; !reflect.DeepEqual(had, c.Old) {
					w.Fatalf("event %d: a %s of %s starts from\n%v, but the row was last seen as\n%v", e.I, c.Kind, c.Table, c.Old, had)
				}
				delete(rows, c.Old["id"])
			}
			if c.Kind != history.Delete {
				if had := rows[c.New["id"]]; had != nil {
					w.Fatalf("event %d: an %s of %s makes row %s, which is there already", e.I, c.Kind, c.Table, c.New["id"])
				}
				rows[c.New["id"]] = c.New
			}
		}
	}
	return tables
}

// agrees fails unless the recorded changes lead to the very rows that the tables hold.
func (w *watched) agrees(tables ...string) {
	w.Helper()
	replayed := w.replayed()
	for _, table := range tables {
		now, then := w.rowsNow(table), replayed[table]
		if len(now) == 0 && len(then) == 0 {
			continue
		}
		if !reflect.DeepEqual(now, then) {
			for id, row := range now {
				if !reflect.DeepEqual(row, then[id]) {
					w.Errorf("%s %s is %v, and was recorded as %v", table, id, row, then[id])
				}
			}
			w.Fatalf("%s: %d rows are there, %d were recorded", table, len(now), len(then))
		}
	}
}

// gate is a relay to a server that can be shut: then nobody passes, and who was through is cut off.
type gate struct {
	listener net.Listener
	server   string
	mu       sync.Mutex
	shut     bool
	open     map[net.Conn]bool
	relays   sync.WaitGroup
}

func newGate(t *testing.T, server *postgres.Instance) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: l, server: server.Address(), open: map[net.Conn]bool{}}
	g.relays.Add(1)
	go g.accept()
	t.Cleanup(func() {
		_ = l.Close()
		g.close()
		g.relays.Wait()
	})
	return g
}

// through is url by way of the gate.
func (g *gate) through(url string) string {
	return strings.Replace(url, g.server, g.listener.Addr().String(), 1)
}

func (g *gate) accept() {
	defer g.relays.Done()
	for {
		c, err := g.listener.Accept()
		if err != nil {
			return
		}
		g.relays.Add(1)
		go func() { defer g.relays.Done(); g.relay(c) }()
	}
}

func (g *gate) relay(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("tcp", g.server)
	if err != nil {
		return
	}
	defer up.Close()
	g.mu.Lock()
	if g.shut {
		g.mu.Unlock()
		return
	}
	g.open[c], g.open[up] = true, true
	g.mu.Unlock()
	done := make(chan struct{})
	go func() { defer close(done); _, _ = io.Copy(up, c); _ = up.Close() }()
	_, _ = io.Copy(c, up)
	_ = c.Close()
	<-done
	g.mu.Lock()
	delete(g.open, c)
	delete(g.open, up)
	g.mu.Unlock()
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for c := range g.open {
		_ = c.Close()
	}
}

func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
}
