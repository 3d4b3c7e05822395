package stub

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// Transfer is money moved: one line of the journal, and one element of the look-up's answer.
type Transfer struct {
	RailReference string    `json:"railReference"` // unique
	ClientRef     string    `json:"clientRef"`     // what the client calls it; not unique, the rail is not idempotent
	AmountMinor   int64     `json:"amountMinor"`   // minor units, > 0
	Currency      string    `json:"currency"`      // ISO 4217
	AcceptedAt    time.Time `json:"acceptedAt"`    // the stub's wall clock, UTC
}

// Journal is the append-only file of money moved, one JSON object a line, and the only truth about payments: a line that
// ends in a newline and parses is a transfer, whatever the caller was told. It is never truncated or rewritten.
//
// A process that dies in the middle of a write leaves a torn last line. The next Open ends it with a newline, so that
// what is appended later stands on a line of its own; readers skip a line that does not parse.
type Journal struct {
	file  file
	queue chan *entry
	ended chan struct{} // closed when the writer has returned

	closing sync.RWMutex // write-held to close; read-held while an entry is put into the queue
	closed  bool

	mu    sync.Mutex
	known map[string][]visible // by client reference, in the journal's order
}

// file is what the writer needs of an *os.File.
type file interface {
	io.WriteCloser
	Sync() error
}

// entry is one transfer on its way into the file.
type entry struct {
	transfer Transfer
	line     []byte
	done     chan error
}

// visible is a transfer with the start of its look-up lag, on the monotonic clock wherever this process wrote it.
type visible struct {
	Transfer
	since time.Time
}

// ErrClosed says that the journal was closed before the transfer was written: no money has moved.
var ErrClosed = errors.New("the journal is closed")

// maxBatch is how many transfers share one write and one sync.
const maxBatch = 256

// OpenJournal opens or creates the journal at path, reads what is there, and locks it against a second writer. Close
// releases it.
func OpenJournal(path string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the rail journal: %w", err)
	}
	j := &Journal{file: f, queue: make(chan *entry, maxBatch), ended: make(chan struct{}), known: map[string][]visible{}}
	if err := j.load(f); err != nil {
		_ = f.Close() // the first error says what is wrong
		return nil, fmt.Errorf("open the rail journal %s: %w", path, err)
	}
	go j.write()
	return j, nil
}

// load locks the file, reads its transfers and ends a torn last line.
func (j *Journal) load(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock it, which fails while another rail writes it: %w", err)
	}
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("read it: %w", err)
		}
		if err == io.EOF && len(line) > 0 {
			if err := j.seal(); err != nil {
				return err
			}
		}
		var t Transfer
		if json.Unmarshal(line, &t) == nil && t.RailReference != "" {
			j.remember(t, sinceWall(t.AcceptedAt, time.Now()))
		}
		if err == io.EOF {
			return nil
		}
	}
}

// seal ends a torn last line.
func (j *Journal) seal() error {
	if _, err := j.file.Write([]byte("\n")); err != nil {
		return fmt.Errorf("end its torn last line: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("sync it: %w", err)
	}
	return nil
}

// sinceWall puts a wall-clock time of an earlier process on this one's monotonic clock. A wall clock that was moved
// meanwhile must not hide a transfer for longer than the lag, so the age is never negative.
func sinceWall(at, now time.Time) time.Time {
	return now.Add(-max(0, now.Sub(at)))
}

func (j *Journal) remember(t Transfer, since time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.known[t.ClientRef] = append(j.known[t.ClientRef], visible{t, since})
}

// Append moves money: it returns nil once the transfer is in the file and synced. After an error other than ErrClosed
// nobody knows whether it has moved; only the file does.
func (j *Journal) Append(t Transfer) error {
	line, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode a transfer: %w", err)
	}
	e := &entry{transfer: t, line: append(line, '\n'), done: make(chan error, 1)}
	j.closing.RLock()
	if j.closed {
		j.closing.RUnlock()
		return ErrClosed
	}
	j.queue <- e
	j.closing.RUnlock()
	return <-e.done
}

// write is the journal's one writer: it takes what waits, writes it in one piece and syncs once for all of it.
func (j *Journal) write() {
	defer close(j.ended)
	torn := false
	for first := range j.queue {
		torn = j.flush(j.gather(first), torn)
	}
}

// flush writes and syncs a batch and tells its callers. torn says that the file ends inside a line, before and after:
// a full disk takes half a write.
func (j *Journal) flush(batch []*entry, torn bool) bool {
	var text bytes.Buffer
	if torn {
		text.WriteByte('\n')
	}
	start := text.Len()
	for _, e := range batch {
		text.Write(e.line)
	}
	n, err := j.file.Write(text.Bytes())
	if n > 0 {
		torn = text.Bytes()[n-1] != '\n'
	}
	if err == nil {
		err = j.file.Sync()
	}
	end := start
	for _, e := range batch {
		if end += len(e.line); end <= n {
			j.remember(e.transfer, time.Now()) // in the file, so the money has moved, synced or not
		}
		e.done <- err
	}
	return torn
}

func (j *Journal) gather(first *entry) []*entry {
	batch := []*entry{first}
	for len(batch) < maxBatch {
		select {
		case e, ok := <-j.queue:
			if !ok {
				return batch
			}
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}

// Find lists the transfers of clientRef that are older than lag, in the journal's order.
func (j *Journal) Find(clientRef string, lag time.Duration) []Transfer {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := []Transfer{}
	for _, v := range j.known[clientRef] {
		if time.Since(v.since) >= lag {
			found = append(found, v.Transfer)
		}
	}
	return found
}

// Close writes what waits and closes the file.
func (j *Journal) Close() error {
	j.closing.Lock()
	already := j.closed
	j.closed = true
	j.closing.Unlock()
	if already {
		return nil
	}
	close(j.queue)
	<-j.ended
	if err := j.file.Close(); err != nil {
		return fmt.Errorf("close the rail journal: %w", err)
	}
	return nil
}
