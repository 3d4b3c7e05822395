package history

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// flushEvery is how long an event may stay in the harness's memory: a killed harness loses at most what it recorded in
// the last 100 ms (page 2.4), and half of that is left for a slow machine.
const flushEvery = 50 * time.Millisecond

// batch bounds how many events the subscribers see before the writer looks at the clock again.
const batch = 1024

// Recorder writes a history while a run goes on. Record never waits for the disk: one goroutine, owned by the Recorder,
// writes the files and calls the subscribers. All methods may be called from any goroutine.
type Recorder struct {
	start time.Time
	wake  chan struct{} // capacity 1: there is something in the queue
	done  chan struct{} // closed when the writer has ended

	mu          sync.Mutex
	last        int64
	queue       []entry
	subscribers []func(*Event)
	closed      bool
	errs        []error

	files map[Witness]*file // the writer's own
}

// entry is one order to the writer: an event, or the completion of its witness's file.
type entry struct {
	event    Event
	complete bool
}

type file struct {
	*Writer
	os    *os.File
	err   error // the first failure; nothing is written after it, so that the file never lies by omission
	dirty bool
}

// Create begins a history in dir, which it makes where needed. The files of all witnesses of h exist with their headers
// when it returns; files that are there already are never touched, they are an error. T counts from now on.
func Create(dir string, h Header) (*Recorder, error) {
	h.Witnesses = h.expected()
	r := &Recorder{
		start: time.Now(),
		wake:  make(chan struct{}, 1), done: make(chan struct{}),
		files: map[Witness]*file{},
	}
	if h.Started.IsZero() {
		h.Started = r.start.UTC().Round(0)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the history: %w", err)
	}
	for _, w := range h.Witnesses {
		f, err := createFile(filepath.Join(dir, string(w)+".ndjson"), w, h)
		if err != nil {
			for _, f := range r.files {
				_ = f.os.Close()
			}
			return nil, err
		}
		r.files[w] = f
	}
	go r.write()
	return r, nil
}

func createFile(path string, w Witness, h Header) (*file, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create the history of %s: %w", w, err)
	}
	out, err := NewWriter(f, w, h)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &file{Writer: out, os: f}, nil
}

// Now is the time on the harness's monotonic clock, in nanoseconds since the run began.
func (r *Recorder) Now() int64 { return int64(time.Since(r.start)) }

// Record puts e into w's file as the next event of the run and returns its I, which is above that of every event that
// was recorded before; T is the time of the call and never goes down with I. It sets W, I and T itself. The maps and
// slices of e belong to the recorder from now on. After Close it records nothing and returns 0.
func (r *Recorder) Record(w Witness, e Event) int64 {
	e.W = w
	return r.enqueue(entry{event: e})
}

// Complete ends w's file with its trailer: w has recorded all that it was there to record. What is recorded for w
// afterwards is an error that Close returns.
func (r *Recorder) Complete(w Witness) {
	r.enqueue(entry{event: Event{W: w}, complete: true})
}

func (r *Recorder) enqueue(e entry) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0
	}
	if !e.complete {
		r.last++
		e.event.I, e.event.T = r.last, r.Now()
	}
	r.queue = append(r.queue, e)
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return e.event.I
}

// Subscribe has f called with every event recorded from now on, in order of I, from the recorder's writer. f must be
// quick, must not call Close, and must not keep the pointer; it may record events of its own.
func (r *Recorder) Subscribe(f func(*Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscribers = append(r.subscribers[:len(r.subscribers):len(r.subscribers)], f)
}

// Err says what went wrong with the files so far, nil when all is well. A history with an error is no evidence.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.errs...)
}

// Close writes what is queued, syncs and closes the files and waits for the writer. Files whose witness did not
// complete keep no trailer, which every reader reports. It returns everything that went wrong with the files.
func (r *Recorder) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.wake)
	}
	r.mu.Unlock()
	<-r.done
	return r.Err()
}

// write is the recorder's goroutine.
func (r *Recorder) write() {
	defer close(r.done)
	var (
		work  []entry
		timer = time.NewTimer(flushEvery)
		open  = true
	)
	defer timer.Stop()
	for open {
		select {
		case _, open = <-r.wake:
		case <-timer.C:
			r.flush()
			timer.Reset(flushEvery)
			continue
		}
		var subscribers []func(*Event)
		work, subscribers = r.take(work)
		flushed := time.Now()
		for rest := work; len(rest) > 0; {
			n := min(batch, len(rest))
			r.process(rest[:n], subscribers)
			rest = rest[n:]
			if time.Since(flushed) > flushEvery {
				r.flush()
				flushed = time.Now()
			}
		}
		clear(work) // lets go of the bodies and rows
	}
	r.finish()
}

// take swaps the queue for the emptied slice of the last turn.
func (r *Recorder) take(empty []entry) ([]entry, []func(*Event)) {
	if cap(empty) > 16*batch {
		empty = nil // a burst is over; do not keep its memory for ever
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	work := r.queue
	r.queue = empty[:0]
	return work, r.subscribers
}

// process writes a batch, then shows it: subscribers learn of nothing that the files could not know.
func (r *Recorder) process(es []entry, subscribers []func(*Event)) {
	for i := range es {
		r.put(&es[i])
	}
	for i := range es {
		if es[i].complete {
			continue
		}
		for _, f := range subscribers {
			f(&es[i].event)
		}
	}
}

func (r *Recorder) put(e *entry) {
	f := r.files[e.event.W]
	switch {
	case f == nil:
		r.fail(fmt.Errorf("record event %d: the history has no witness %q", e.event.I, e.event.W))
	case f.err != nil:
	case e.complete:
		f.dirty = true
		r.failFile(f, f.Complete())
	default:
		f.dirty = true
		r.failFile(f, f.Write(&e.event))
	}
}

func (r *Recorder) flush() {
	for _, f := range r.files {
		if f.dirty && f.err == nil {
			f.dirty = false
			r.failFile(f, f.Flush())
		}
	}
}

func (r *Recorder) finish() {
	r.flush()
	for _, f := range r.files {
		r.failFile(f, f.os.Sync())
		r.failFile(f, f.os.Close())
	}
}

func (r *Recorder) failFile(f *file, err error) {
	if err == nil {
		return
	}
	if f.err == nil {
		f.err = err
	}
	r.fail(err)
}

// maxErrors bounds what a disk that fails for an hour can pile up.
const maxErrors = 16

func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, err)
	}
}
