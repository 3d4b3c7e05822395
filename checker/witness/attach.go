package witness

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	//go:embed sql/set_replica_identity.sql
	setReplicaIdentitySQL string
	//go:embed sql/create_publication.sql
	createPublicationSQL string
	//go:embed sql/drop_publication.sql
	dropPublicationSQL string
	//go:embed sql/list_columns.sql
	listColumnsSQL string
	//go:embed sql/find_slot.sql
	findSlotSQL string
	//go:embed sql/drop_slot.sql
	dropSlotSQL string
	//go:embed sql/drop_idle_slots.sql
	dropIdleSlotsSQL string
)

// Snapshot is the Msg of the commit event that holds the rows which were there before the witness came. Its XID is 0,
// and its LSN the position from which commits are recorded.
const Snapshot = "snapshot"

// identity is what makes a database's log that log and no other.
type identity struct {
	system   string // the system identifier that initdb made
	timeline int32  // a promotion begins a new one
}

// connectTimeout bounds how long one attempt to connect may take.
const connectTimeout = 5 * time.Second

// sessionConfig is how the witness connects. The settings make every value's text the same wherever it is read, and the
// same as PostgreSQL's own logical replication sends it.
func sessionConfig(url string) (*pgx.ConnConfig, error) {
	conf, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database's URL: %w", err)
	}
	conf.ConnectTimeout = connectTimeout
	for name, value := range map[string]string{
		"application_name":   "fenceproof-witness",
		"client_encoding":    "UTF8",
		"datestyle":          "ISO",
		"timezone":           "UTC",
		"intervalstyle":      "postgres",
		"extra_float_digits": "3",
		"bytea_output":       "hex",
		// A marker waits for this server's disk, never for a standby.
		"synchronous_commit": "local",
	} {
		conf.RuntimeParams[name] = value
	}
	return conf, nil
}

// replication opens a connection that speaks the replication protocol.
func (d *Database) replication(ctx context.Context) (*pgconn.PgConn, identity, pglogrepl.LSN, error) {
	conf := d.conf.Config.Copy()
	conf.RuntimeParams["replication"] = "database"
	c, err := pgconn.ConnectConfig(ctx, conf)
	if err != nil {
		return nil, identity{}, 0, fmt.Errorf("connect for replication: %w", err)
	}
	who, err := pglogrepl.IdentifySystem(ctx, c)
	if err != nil {
		hangUp(c)
		return nil, identity{}, 0, fmt.Errorf("ask the server who it is: %w", err)
	}
	return c, identity{who.SystemID, who.Timeline}, who.XLogPos, nil
}

// prepare makes the database log what the witness needs, makes the slot, and records the rows that are there.
func (d *Database) prepare(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, d.conf)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, step := range []struct{ what, sql string }{
		{"drop the slots of earlier witnesses", dropIdleSlotsSQL},
		{"let every table log its whole old rows", setReplicaIdentitySQL},
		{"drop an earlier publication", dropPublicationSQL},
		{"publish all tables", createPublicationSQL},
	} {
		if _, err := conn.Exec(ctx, step.sql); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	repl, home, _, err := d.replication(ctx)
	if err != nil {
		return err
	}
	defer hangUp(repl)
	slot, err := pglogrepl.CreateReplicationSlot(ctx, repl, d.slot, "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{Mode: pglogrepl.LogicalReplication, SnapshotAction: "EXPORT_SNAPSHOT"})
	if err != nil {
		return fmt.Errorf("make the replication slot %s: %w", d.slot, err)
	}
	at, err := pglogrepl.ParseLSN(slot.ConsistentPoint)
	if err != nil {
		return fmt.Errorf("read the slot's position: %w", err)
	}
	d.home, d.place = home, startAt(at)
	return d.snapshot(ctx, conn, slot.SnapshotName, at)
}

// snapshot records all rows as they were at the slot's position, as one event; none where there are none.
func (d *Database) snapshot(ctx context.Context, conn *pgx.Conn, name string, at pglogrepl.LSN) error {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("begin to read the rows that are there: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it only read
	if _, err := tx.Exec(ctx, "SET TRANSACTION SNAPSHOT '"+name+"'"); err != nil {
		return fmt.Errorf("take up the slot's snapshot: %w", err)
	}
	tables, err := listTables(ctx, tx)
	if err != nil {
		return err
	}
	dec := newDecoder(d.cfg.Ignore)
	var changes []history.Change
	for _, t := range tables {
		if dec.ignore[t.name] {
			continue
		}
		if changes, err = dec.readTable(ctx, conn.PgConn(), t, changes); err != nil {
			return err
		}
	}
	if len(changes) == 0 {
		return nil
	}
	e := history.Event{Type: contract.OK, Proc: d.cfg.Proc, Op: history.OpCommit,
		LSN: at.String(), Epoch: d.cfg.Epoch, Changes: changes, Msg: Snapshot}
	if !fits(&e, dec.size) {
		return errSnapshotTooLong
	}
	d.sink.Record(d.cfg.Witness, e)
	return nil
}

var errSnapshotTooLong = fmt.Errorf("the rows that are there already are more than the %d bytes that one event may have", history.MaxLine)

// table is a table whose rows a snapshot reads.
type table struct {
	name    string // as events name it
	from    string // as SQL names it, quoted
	columns []string
}

func listTables(ctx context.Context, tx pgx.Tx) ([]*table, error) {
	rows, err := tx.Query(ctx, listColumnsSQL)
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", err)
	}
	var tables []*table
	var schema, name, column string
	_, err = pgx.ForEachRow(rows, []any{&schema, &name, &column}, func() error {
		from := pgx.Identifier{schema, name}.Sanitize()
		if n := len(tables); n == 0 || tables[n-1].from != from {
			tables = append(tables, &table{name: tableName(schema, name), from: from})
		}
		t := tables[len(tables)-1]
		t.columns = append(t.columns, column)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", err)
	}
	return tables, nil
}

// readTable appends every row of t as an insert. It asks for text by the simple protocol: the same text as the log has.
func (d *decoder) readTable(ctx context.Context, c *pgconn.PgConn, t *table, changes []history.Change) ([]history.Change, error) {
	quoted := make([]string, len(t.columns))
	for i, name := range t.columns {
		quoted[i] = pgx.Identifier{name}.Sanitize()
	}
	result := c.Exec(ctx, "SELECT "+strings.Join(quoted, ", ")+" FROM "+t.from)
	for result.NextResult() {
		rows := result.ResultReader()
		for rows.NextRow() {
			row := make(map[string]string, len(t.columns))
			for i, v := range rows.Values() {
				if v != nil {
					d.put(row, t.columns[i], string(v))
				}
			}
			changes = append(changes, history.Change{Table: t.name, Kind: history.Insert, New: row})
			if d.size > history.MaxLine {
				return nil, errors.Join(errSnapshotTooLong, c.Conn().Close()) // rather than read the rest
			}
		}
		if _, err := rows.Close(); err != nil {
			return nil, fmt.Errorf("read the rows of %s: %w", t.name, err)
		}
	}
	if err := result.Close(); err != nil {
		return nil, fmt.Errorf("read the rows of %s: %w", t.name, err)
	}
	return changes, nil
}

// remove takes slot and publication away, where the database can be reached. It is no evidence, so a failure only
// leaves them behind in a database that the run is about to delete.
func (d *Database) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, d.conf)
	if err != nil {
		return
	}
	defer conn.Close(ctx)
	_, _ = conn.Exec(ctx, dropPublicationSQL)
	for {
		// The slot is busy for as long as the server has not noticed that its reader hung up.
		if _, err := conn.Exec(ctx, dropSlotSQL, d.slot); err == nil || sqlState(err) != objectInUse {
			return
		}
		if !pause(ctx, retryEvery) {
			return
		}
	}
}
