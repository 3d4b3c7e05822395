package synthetic

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"fenceproof/checker/history"
)

// files are the history on disk, and the events that have happened but not arrived yet. Each witness sees what concerns
// it a little later, in its own order; what order the events get is decided by their arrival.
type files struct {
	writers map[history.Witness]*history.Writer
	open    []*os.File
	bytes   int64

	coming queue[*history.Event]
	latest map[history.Witness]int64 // arrival of a witness's last event
	spare  []*history.Event
	last   int64 // I of the last event
	err    error
}

func create(dir string, h history.Header) (*files, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the history: %w", err)
	}
	f := &files{writers: map[history.Witness]*history.Writer{}, latest: map[history.Witness]int64{}}
	for _, w := range history.Witnesses() {
		file, err := os.OpenFile(filepath.Join(dir, string(w)+".ndjson"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("create the history of %s: %w", w, err), f.close())
		}
		f.open = append(f.open, file)
		if f.writers[w], err = history.NewWriter(counter{file, &f.bytes}, w, h); err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	return f, nil
}

// counter counts the bytes on their way.
type counter struct {
	to io.Writer
	n  *int64
}

func (c counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	*c.n += int64(n)
	return n, err //nolint:wrapcheck // the writer says what was being done
}

// arrive lets e arrive at a time; where inOrder, not before what the same witness saw before it.
func (f *files) arrive(w history.Witness, at int64, inOrder bool, e history.Event) {
	if inOrder {
		at = max(at, f.latest[w]+1)
		f.latest[w] = at
	}
	var p *history.Event
	if n := len(f.spare); n > 0 {
		p, f.spare = f.spare[n-1], f.spare[:n-1]
	} else {
		p = new(history.Event)
	}
	*p = e
	p.W = w
	f.coming.push(at, p)
}

// advance writes what has arrived by now. Nothing can arrive before now any more.
func (f *files) advance(now int64) {
	for {
		at, ok := f.coming.first()
		if !ok || at > now {
			return
		}
		e := f.coming.pop()
		f.last++
		e.I, e.T = f.last, at
		if f.err == nil {
			f.err = f.writers[e.W].Write(e)
		}
		f.spare = append(f.spare, e)
	}
}

// close completes and closes the files.
func (f *files) close() error {
	errs := []error{f.err}
	for _, w := range f.writers {
		if w != nil {
			errs = append(errs, w.Complete(), w.Flush())
		}
	}
	for _, file := range f.open {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
