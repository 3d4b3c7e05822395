package witness

import (
	"context"
	"fmt"
	"sync"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// DatabaseConfig says which database to watch, and as what.
type DatabaseConfig struct {
	// URL reaches the database itself, past every link, as a superuser. The server needs wal_level = logical, a free
	// replication slot and two free connections.
	URL     string
	Witness history.Witness
	Proc    contract.Process
	// Epoch is written into every event. A planned restore or failover detaches this witness and attaches a new one
	// with the next epoch.
	Epoch int
	// Ignore names tables that are no evidence, such as a migration tool's own. A transaction that changes nothing else
	// is not recorded.
	Ignore []string
}

// Database records every committed row change of one PostgreSQL database, in commit order, with whole old and new rows.
// It reads the database's own log (logical decoding), so it sees what was committed whoever committed it.
//
// A transaction is recorded whole or not at all, and once. When the database is stopped, crashed or cut off, the witness
// comes back to exactly where it was; when that cannot be proved (see place), it records OpLostPlace and stops. So does a
// transaction whose event would be longer than history.MaxLine: about 20,000 changed rows of paydb.
type Database struct {
	standing
	cfg   DatabaseConfig
	conf  *pgx.ConnConfig
	slot  string
	nonce string // tells this witness's markers from everybody else's
	home  identity
	place *place // owned by the stream's goroutine

	stop    context.CancelFunc
	running sync.WaitGroup

	ending sync.Once
	ended  error
}

// Attach prepares the database for being watched (replica identity, publication, slot), records the rows that are there
// already as one transaction without an XID (see Snapshot), and starts to record. It returns once everything committed
// before the call has been recorded. Attach after the migrations and before any traffic that shall be judged; it waits
// for transactions that are open. On an error nothing stays behind in the database as far as it can be reached.
func Attach(ctx context.Context, cfg DatabaseConfig, sink Sink) (*Database, error) {
	conf, err := sessionConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("attach the witness of %s: %w", cfg.Proc, err)
	}
	d := &Database{
		cfg: cfg, conf: conf,
		slot:  fmt.Sprintf("fenceproof_%s_%d", cfg.Witness, cfg.Epoch),
		nonce: uuid.NewString(),
	}
	d.begin(sink, cfg.Witness, cfg.Proc, cfg.Epoch)
	if err := d.prepare(ctx); err != nil {
		d.remove(ctx)
		return nil, fmt.Errorf("attach the witness of %s: %w", cfg.Proc, err)
	}
	run, stop := context.WithCancel(context.Background())
	d.stop = stop
	d.running.Add(2)
	go func() { defer d.running.Done(); d.stream(run) }()
	go func() { defer d.running.Done(); d.mark(run) }()
	if err := d.Drain(ctx); err != nil {
		d.halt()
		d.remove(ctx)
		return nil, fmt.Errorf("attach the witness of %s: %w", cfg.Proc, err)
	}
	return d, nil
}

// Detach ends this epoch: it drains, stops, and takes slot and publication away where the database can be reached. The
// history stays open for the next epoch's witness. The database must still run, and its clients must be done. An error
// means that the end of the epoch is not known; OpLostPlace then says so in the history. Later calls return the same.
func (d *Database) Detach(ctx context.Context) error {
	d.ending.Do(func() {
		ctx, done := bounded(ctx)
		defer done()
		d.ended = d.end(ctx, d.halt)
		d.remove(ctx)
	})
	return d.ended
}

// Close detaches and, where the witness kept its place to the end, marks its history as complete. Only the last epoch's
// witness is closed.
func (d *Database) Close(ctx context.Context) error {
	if err := d.Detach(ctx); err != nil {
		return err
	}
	d.sink.Complete(d.cfg.Witness)
	return nil
}

// halt stops both goroutines and waits for them.
func (d *Database) halt() {
	d.stop()
	d.running.Wait()
}
