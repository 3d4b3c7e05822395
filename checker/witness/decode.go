package witness

import (
	"fmt"
	"time"

	"fenceproof/checker/history"

	"github.com/jackc/pglogrepl"
)

// transaction is one committed transaction, whole.
type transaction struct {
	xid     uint32
	commit  pglogrepl.LSN // where its commit record begins: its place in the commit order
	end     pglogrepl.LSN // where that record ends
	at      time.Time     // by the database's clock
	changes []history.Change
}

// relation is a table as the log described it.
type relation struct {
	name    string
	columns []string
	whole   bool // updates and deletes carry the whole old row
	ignored bool
}

// decoder puts the messages of one connection (pgoutput, protocol 2, no streaming of open transactions) together into
// transactions. It holds one transaction in memory at a time, and no more of it than one event may have.
type decoder struct {
	ignore    map[string]bool
	relations map[uint32]*relation
	open      *transaction
	size      int // how many bytes open has as an event, at least
}

func newDecoder(ignore []string) *decoder {
	d := &decoder{ignore: map[string]bool{}, relations: map[uint32]*relation{}}
	for _, t := range ignore {
		d.ignore[t] = true
	}
	return d
}

// feed takes the next message. It returns a transaction when m commits one, a message when m is one, else nothing. An
// error means that the log holds something that cannot be recorded as it was.
func (d *decoder) feed(m pglogrepl.Message) (*transaction, *pglogrepl.LogicalDecodingMessageV2, error) {
	switch m := m.(type) {
	case *pglogrepl.RelationMessageV2:
		d.relations[m.RelationID] = d.describe(m)
	case *pglogrepl.BeginMessage:
		d.open, d.size = &transaction{xid: m.Xid, commit: m.FinalLSN}, 0
	case *pglogrepl.InsertMessageV2:
		return nil, nil, d.change(m.RelationID, history.Insert, nil, m.Tuple)
	case *pglogrepl.UpdateMessageV2:
		return nil, nil, d.change(m.RelationID, history.Update, m.OldTuple, m.NewTuple)
	case *pglogrepl.DeleteMessageV2:
		return nil, nil, d.change(m.RelationID, history.Delete, m.OldTuple, nil)
	case *pglogrepl.TruncateMessageV2:
		return nil, nil, d.truncate(m)
	case *pglogrepl.CommitMessage:
		t := d.open
		if t == nil {
			return nil, nil, fmt.Errorf("the log ended a transaction at %s that it had not begun", m.CommitLSN)
		}
		d.open, t.commit, t.end, t.at = nil, m.CommitLSN, m.TransactionEndLSN, m.CommitTime
		return t, nil, nil
	case *pglogrepl.LogicalDecodingMessageV2:
		return nil, m, nil
	}
	return nil, nil, nil // types and origins: nothing that happened to a row
}

func (d *decoder) describe(m *pglogrepl.RelationMessageV2) *relation {
	r := &relation{name: tableName(m.Namespace, m.RelationName), whole: m.ReplicaIdentity == 'f'}
	r.ignored = d.ignore[r.name]
	for _, c := range m.Columns {
		r.columns = append(r.columns, c.Name)
	}
	return r
}

// tableName is a table's name in an event: bare in the schema public, else with its schema.
func tableName(schema, table string) string {
	if schema == "public" {
		return table
	}
	return schema + "." + table
}

func (d *decoder) change(id uint32, kind history.Kind, before, after *pglogrepl.TupleData) error {
	r := d.relations[id]
	switch {
	case r == nil || d.open == nil:
		return fmt.Errorf("the log changed a row of table %d without having described it", id)
	case r.ignored:
		return nil
	case kind != history.Insert && !r.whole:
		return fmt.Errorf("table %s was made after the witness came and logs no whole old rows: attach the witness after the migrations", r.name)
	}
	c := history.Change{Table: r.name, Kind: kind}
	d.size += changeBytes
	var err error
	if before != nil {
		if c.Old, err = d.row(r, before, nil); err != nil {
			return err
		}
	}
	if after != nil {
		if c.New, err = d.row(r, after, c.Old); err != nil {
			return err
		}
	}
	if d.size > history.MaxLine {
		return tooLong(d.open.xid)
	}
	d.open.changes = append(d.open.changes, c)
	return nil
}

// changeBytes is what a change has as JSON besides its rows' values, at least.
const changeBytes = len(`{"table":"t","kind":"insert","new":{}},`)

func tooLong(xid uint32) error {
	return fmt.Errorf("transaction %d changes more than the %d bytes that one event may have", xid, history.MaxLine)
}

// fits tells whether e, which has at least size bytes as a line, is short enough for one. A byte takes at most six in
// JSON, so that most events need not be written out to know it.
func fits(e *history.Event, size int) bool {
	const numbers = 1 << 10 // the members besides Changes, and what the sink adds
	return 6*size+numbers < history.MaxLine || len(history.AppendEvent(nil, e))+numbers < history.MaxLine
}

// put adds a value to a row, and to the size.
func (d *decoder) put(row map[string]string, column, value string) {
	row[column] = value
	d.size += len(column) + len(value) + len(`"":"",`)
}

// row is a row's image as text. A large value that the update left alone is not in the log a second time: it is taken
// from the old row.
func (d *decoder) row(r *relation, t *pglogrepl.TupleData, old map[string]string) (map[string]string, error) {
	if len(t.Columns) != len(r.columns) {
		return nil, fmt.Errorf("the log described table %s with %d columns and then sent %d", r.name, len(r.columns), len(t.Columns))
	}
	row := make(map[string]string, len(t.Columns))
	for i, c := range t.Columns {
		name := r.columns[i]
		switch c.DataType {
		case pglogrepl.TupleDataTypeNull:
			continue
		case pglogrepl.TupleDataTypeText:
			d.put(row, name, string(c.Data))
		case pglogrepl.TupleDataTypeToast:
			v, ok := old[name]
			if !ok {
				return nil, fmt.Errorf("the log left out an unchanged value of %s.%s that the old row does not hold either", r.name, name)
			}
			d.put(row, name, v)
		default:
			return nil, fmt.Errorf("the log sent %s.%s in a form (%q) that was not asked for", r.name, name, c.DataType)
		}
	}
	return row, nil
}

// truncate refuses a TRUNCATE of evidence: it leaves no row images, so what it removed cannot be told.
func (d *decoder) truncate(m *pglogrepl.TruncateMessageV2) error {
	for _, id := range m.RelationIDs {
		if r := d.relations[id]; r == nil || !r.ignored {
			name := "a table"
			if r != nil {
				name = "table " + r.name
			}
			return fmt.Errorf("%s was truncated, which leaves no images of its rows", name)
		}
	}
	return nil
}
