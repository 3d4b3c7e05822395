package jepsen

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// ImportOptions say how a history of Jepsen's is taken.
type ImportOptions struct {
	// TTL is how long leases last that nobody renews; 0 where grants last until they are given back.
	TTL time.Duration
	// ValueIsKey says that the value of an invocation names the lock.
	ValueIsKey bool
	// Reentrant says that a holder may be granted the lock again.
	Reentrant bool
	// Lock is the name of the lock where operations name none; "" is "lock".
	Lock string
	// Name is the run's name in the history; Command is what imports it again.
	Name, Command string
}

// Imported says what was taken.
type Imported struct {
	Calls, Events int64
	Open          int64 // calls that have no definite end
	Tokens        int64 // grants that have a fencing token
	Keys          int
	// Names counts the invocations whose value is a name that was not taken for the lock's.
	Names int64
	// PassedOver counts the operations that are none of a lock's clients.
	PassedOver map[string]int
}

// ErrThere says that the folder to import into has a history.
var ErrThere = errors.New("it has a history already, and that stays: name another folder")

// HistoryDir is the folder of the history within a run's folder.
const HistoryDir = "history"

// Import makes a history of docs/history.md in dir out of the EDN in in. dir is made where needed and must hold no history
// yet; nothing is left there after an error. An *Error says where in is no history of a lock.
func Import(in io.Reader, dir string, o ImportOptions) (_ Imported, err error) {
	m, err := readAll(in, o, maxText)
	if err != nil {
		return Imported{}, err
	}
	config, err := json.Marshal(map[string]any{"settings": verdict.Settings{Workload: "lock", Backend: imported, Nemesis: imported, Command: o.Command, Reentrant: o.Reentrant}})
	if err != nil {
		return Imported{}, fmt.Errorf("write down the settings: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Imported{}, fmt.Errorf("make the folder of the imported history: %w", err)
	}
	folder := filepath.Join(dir, HistoryDir)
	if err := os.Mkdir(folder, 0o755); errors.Is(err, os.ErrExist) {
		return Imported{}, fmt.Errorf("%s: %w", dir, ErrThere)
	} else if err != nil {
		return Imported{}, fmt.Errorf("make the folder of the imported history: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	f, err := os.OpenFile(filepath.Join(folder, string(history.Wiretap)+".ndjson"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return Imported{}, fmt.Errorf("create the imported history: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w, err := history.NewWriter(f, history.Wiretap, history.Header{
		Witnesses: []history.Witness{history.Wiretap}, RunID: o.Name, Config: config, Versions: map[string]string{"jepsen": "imported"},
	})
	if err != nil {
		return Imported{}, fmt.Errorf("write the imported history: %w", err)
	}
	m.options, m.out = o, w
	m.options.Lock = cmp.Or(o.Lock, "lock")
	if err := m.write(); err != nil {
		return Imported{}, fmt.Errorf("write the imported history: %w", err)
	}
	return m.made, errors.Join(w.Complete(), w.Flush())
}

// imported is backend and nemesis of a history of which nobody knows them.
const imported = "imported"

// importer is a history on its way.
type importer struct {
	ops     []op
	partner []int32           // by op: the other half, -1 for none
	first   map[string]string // by process: the first name that it has
	latest  map[string]string // the latest so far
	crashed bool              // some process has ended in :info so far, and another has come in its place
	had     map[string]bool   // processes that have been granted a lock so far
	options ImportOptions
	out     *history.Writer
	made    Imported
	keys    map[string]bool
	calls   map[int]*history.Event // by invocation: what all events of the call repeat
	now     int64
}

// maxOps and maxText bound the memory of an import, which is about 1 GiB then: operations, and the bytes of the names and texts that
// they bear.
const (
	maxOps  = 1 << 21
	maxText = 256 << 20
)

// behind is how far the time of an operation may lie before that of an earlier one: a test takes the time of an operation, and
// a moment later its turn.
const behind = int64(time.Second)

// readAll reads a history, of which names and texts may have most bytes, and joins invocations with completions.
func readAll(in io.Reader, options ImportOptions, most int) (*importer, error) {
	m := &importer{first: map[string]string{}, latest: map[string]string{}, had: map[string]bool{}, keys: map[string]bool{}, calls: map[int]*history.Event{}}
	leases, untimed, now := options.TTL > 0, error(nil), int64(0)
	open, names, text := map[string]int{}, map[string]string{}, 0
	passed, err := ops(in, func(o op) error {
		if len(m.ops) == maxOps {
			return o.wrong("the history has more than %d operations", maxOps)
		}
		switch {
		case o.long && options.ValueIsKey && o.key == "":
			return o.wrong("a name has more than %d bytes: %.40s…", maxName, o.name)
		case untimed != nil:
		case o.time < 0:
			untimed = o.wrong("leases are judged by the time, and this operation has no :time")
		case o.time < now-behind:
			untimed = o.wrong("leases are judged by the time, and the :time of this operation is %s before that of an earlier one: are these two histories?", time.Duration(now-o.time))
		}
		leases, now = leases || o.ttl > 0, max(now, o.time)
		if !options.ValueIsKey && o.name != "" && !o.bare && !o.big {
			o.name = "a name" // that nobody asks for
		}
		if text += o.intern(names); text > most {
			return o.wrong("the history has more than %d bytes of names", most)
		}
		begun, busy := open[o.process]
		m.partner = append(m.partner, -1)
		switch n := len(m.ops); {
		case o.typ == contract.Invoke && busy:
			return o.wrong("process %s begins an operation although that of line %d has not ended", o.process, m.ops[begun].line)
		case o.typ == contract.Invoke:
			open[o.process] = n
		case !busy:
			return o.wrong("process %s ends an operation that it has not begun", o.process)
		case m.ops[begun].f != o.f:
			return o.wrong("process %s ends another operation than it has begun in line %d", o.process, m.ops[begun].line)
		default:
			m.partner[n], m.partner[begun] = int32(begun), int32(n)
			delete(open, o.process)
		}
		if who := cmp.Or(o.session, o.client); who != "" && m.first[o.process] == "" {
			m.first[o.process] = who
		}
		m.ops = append(m.ops, o)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if leases && untimed != nil {
		return nil, untimed
	}
	m.made.PassedOver = passed
	if len(m.ops) == 0 {
		return nil, &Error{Line: 1, Column: 1, Msg: "the history has no operation of a lock: none of its clients' :f is :acquire or :release"}
	}
	return m, nil
}

func (o *op) wrong(format string, args ...any) error {
	return &Error{Line: int(o.line), Column: int(o.column), Msg: fmt.Sprintf(format, args...)}
}

// intern keeps each name once: a history has few, and many operations that bear them. It tells how many bytes were not there yet.
func (o *op) intern(names map[string]string) (bytes int) {
	for _, s := range []*string{&o.process, &o.key, &o.name, &o.session, &o.owner, &o.client, &o.error} {
		if kept, ok := names[*s]; ok {
			*s = kept
			continue
		}
		*s = strings.Clone(*s)
		bytes += len(*s)
		if len(names) < 1<<16 {
			names[*s] = *s
		}
	}
	return bytes
}

// write writes the events of all operations, in the order of the history.
func (m *importer) write() error {
	for n := range m.ops {
		o := &m.ops[n]
		if o.time >= 0 {
			m.now = max(m.now, o.time) // the order is that of the history, whatever a clock says
		} else if m.now < math.MaxInt64-int64(time.Microsecond) {
			m.now += int64(time.Microsecond)
		}
		if who := cmp.Or(o.session, o.client); who != "" {
			m.latest[o.process] = who
		}
		var err error
		if o.typ == contract.Invoke {
			err = m.begin(n)
		} else {
			err = m.end(int(m.partner[n]), o)
		}
		if err != nil {
			return err
		}
	}
	for n := range m.ops {
		if o := &m.ops[n]; o.typ == contract.Invoke && m.partner[n] < 0 {
			if err := m.end(n, &op{typ: contract.Info, f: o.f, said: said{error: "the history ends before it does"}}); err != nil {
				return err
			}
		}
	}
	m.made.Keys = len(m.keys)
	return nil
}

func (m *importer) event(e history.Event) error {
	m.made.Events++
	e.I, e.T, e.W = m.made.Events, m.now, history.Wiretap
	return m.out.Write(&e)
}
