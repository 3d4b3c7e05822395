package history

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrEmpty says that a folder holds nothing of a history: there is no file, or each ends before its header does.
var ErrEmpty = errors.New("no file there has a header")

// suffixes of a history's files, in the order in which they are looked for.
var suffixes = []string{".ndjson", ".ndjson.zst", ".ndjson.gz"}

// Reader reads the history in a folder as one stream, merged in order of I. Its memory is bounded by the longest lines,
// not by the length of the history. A Reader serves one goroutine; another one, its own, decodes ahead of it.
type Reader struct {
	header Header
	files  []*source
	gaps   map[Witness]string
	sparse bool      // every header says so
	torn   []Witness // of which an event is to be told that their files broke off
	lost   missing
	blind  []Witness // of which an event is to be told that stands for what is missing
	last   int64     // I and T of the event decoded last
	lastT  int64
	ahead  *ahead // nil until the first Next
	err    error
}

// Open opens the history in dir: the file of every witness that the headers promise, and of every other that is there.
// It refuses a folder without any history (ErrEmpty), files of different runs, and files of a later version of the format.
func Open(dir string) (*Reader, error) {
	r := &Reader{gaps: map[Witness]string{}}
	paths, err := find(dir)
	if err != nil {
		return nil, err
	}
	for _, w := range slices.Sorted(maps.Keys(paths)) {
		if err := r.add(w, paths[w]); err != nil {
			_ = r.Close()
			return nil, err
		}
	}
	if len(r.files) == 0 {
		return nil, fmt.Errorf("open the history in %s: %w; a history is a folder of <witness>.ndjson files", dir, ErrEmpty)
	}
	for _, w := range r.header.expected() {
		if _, ok := paths[w]; !ok {
			r.gaps[w] = "the file is missing"
		}
	}
	r.torn = slices.Sorted(maps.Keys(r.gaps)) // from the beginning
	return r, nil
}

// find lists the files of the history in dir by witness.
func find(dir string) (map[Witness]string, error) {
	if is, err := os.Stat(dir); err == nil && !is.IsDir() {
		return nil, fmt.Errorf("open the history: %s is no folder", dir) // reading a named pipe would wait for a writer
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open the history: %w", err)
	}
	paths := map[Witness]string{}
	for _, suffix := range suffixes {
		for _, e := range entries {
			name, ok := strings.CutSuffix(e.Name(), suffix)
			if !ok || e.IsDir() || name == "" {
				continue
			}
			path := filepath.Join(dir, e.Name())
			if other, twice := paths[Witness(name)]; twice {
				return nil, fmt.Errorf("open the history in %s: %s and %s are the same witness's; remove one of them", dir, filepath.Base(other), e.Name())
			}
			paths[Witness(name)] = path
		}
	}
	return paths, nil
}

func (r *Reader) add(w Witness, path string) error {
	f, h, err := openSource(w, path)
	if errors.Is(err, errNoHeader) {
		r.gaps[w] = "the file ends before its header does"
		return nil
	}
	if err != nil {
		return err
	}
	r.files = append(r.files, f)
	if len(r.files) == 1 {
		r.header, r.sparse = h, h.Sparse
		return nil
	}
	r.sparse = r.sparse && h.Sparse
	if h.RunID != r.header.RunID {
		return fmt.Errorf("open the history: %s is of run %q, %s of run %q; a folder holds one run", path, h.RunID, r.files[0].path, r.header.RunID)
	}
	if what := h.differs(&r.header); what != "" {
		return fmt.Errorf("open the history: %s and %s are of one run, and their headers differ in %s: one of the two was changed", path, r.files[0].path, what)
	}
	return nil
}

// Header is what the files' headers say about the run. Its Witness is that of the first file.
func (r *Reader) Header() Header { return r.header }

// Next reads the next event in order of I into e. Where a file breaks off, and at the beginning of one that is not there, it gives
// an OpLostPlace event of its witness; where the first number is missing that no file can have had, one of every witness: from
// there on each may have seen more than is here. At the end it returns io.EOF; any other error names file and line, and stays.
// What the maps and slices of e hold must not be changed: events may share them.
func (r *Reader) Next(e *Event) error {
	if r.err != nil {
		return r.err
	}
	if r.ahead == nil {
		r.ahead = r.runAhead()
	}
	if r.err = r.ahead.next(e); r.err == io.EOF {
		for _, f := range r.files {
			if f.gap != "" {
				r.gaps[f.witness] = f.gap
			}
		}
		r.sayLost()
	}
	return r.err
}

func (r *Reader) next(e *Event) error {
	var first *source
	for _, f := range r.files {
		if err := f.fill(); err != nil {
			return err
		}
		if f.ended && f.gap != "" && !f.told {
			f.told = true
			r.torn = append(r.torn, f.witness)
		}
		if f.full && (first == nil || f.head.I < first.head.I) {
			first = f
		}
	}
	if len(r.torn) > 0 {
		*e = r.brokenOff(r.torn[0])
		r.torn = r.torn[1:]
		return nil
	}
	switch {
	case first == nil:
		return io.EOF
	case first.head.I > r.last+1 && !r.sparse && !r.broken():
		if r.lost.count == 0 {
			r.blind = r.expected()
		}
		r.lost.add(r.last+1, first.head.I-1)
		r.last = first.head.I - 1
	}
	if len(r.blind) > 0 {
		*e = r.lost.blind(r.blind[0], r.lastT)
		r.blind = r.blind[1:]
		return nil
	}
	first.full = false
	*e = first.head
	if e.Op == OpLostPlace {
		e.Event = "" // Missing is a Reader's own
	}
	if e.I == r.last {
		return first.errorf("event %d is in another file, too", e.I)
	}
	if e.T < r.lastT {
		return first.errorf("event %d was recorded before the event it follows (t %d after %d)", e.I, e.T, r.lastT)
	}
	r.last, r.lastT = e.I, e.T
	return nil
}

// Gaps says, after Next returned io.EOF, which witnesses' evidence is not complete and why: a file that is missing, has
// no trailer, or ends in the middle of a line; and every witness's where a number is missing from the sequence that no such
// file can have had. What such a witness covers cannot pass. It is never nil.
func (r *Reader) Gaps() map[Witness]string { return maps.Clone(r.gaps) }

// Unrecorded lists the witnesses that the headers do not promise and that have no file: nobody recorded them, so nothing that
// rests on them can be judged. They are no gaps.
func (r *Reader) Unrecorded() []Witness {
	var out []Witness
	for _, w := range Witnesses() {
		has := slices.Contains(r.header.expected(), w) || slices.ContainsFunc(r.files, func(f *source) bool { return f.witness == w })
		if _, gap := r.gaps[w]; !has && !gap {
			out = append(out, w)
		}
	}
	return out
}

// Close closes the files. It is needed wherever Open succeeded.
func (r *Reader) Close() error {
	if r.ahead != nil {
		r.ahead.end()
		r.ahead = nil
	}
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.close())
	}
	if r.err == nil {
		r.err = errors.New("read the history: the reader is closed")
	}
	return errors.Join(errs...)
}
