package history

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// errNoHeader: the file ends before its first line does, as that of a harness that was killed at its start.
var errNoHeader = errors.New("no header")

// source is one witness's file while it is read.
type source struct {
	witness Witness
	path    string
	line    int    // of the line read last, from 1
	gap     string // why the evidence is incomplete
	ended   bool   // there is no further event
	told    bool   // that it broke off
	full    bool   // head is the next event
	head    Event
	counted Trailer // what was read so far

	lines   lineReader
	decoder Decoder
	closers []func() error
}

func openSource(w Witness, path string) (*source, Header, error) {
	s := &source{witness: w, path: path}
	h, err := s.open()
	if err != nil {
		_ = s.close()
		return nil, Header{}, err
	}
	return s, h, nil
}

func (s *source) open() (Header, error) {
	if err := regular(s.path); err != nil {
		return Header{}, err
	}
	f, err := os.Open(s.path)
	if err != nil {
		return Header{}, fmt.Errorf("open the history of %s: %w", s.witness, err)
	}
	s.closers = append(s.closers, f.Close)
	var in io.Reader = f
	switch {
	case strings.HasSuffix(s.path, ".zst"):
		z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
		if err != nil {
			return Header{}, fmt.Errorf("open %s: %w", s.path, err)
		}
		s.closers = append(s.closers, func() error { z.Close(); return nil })
		in = z
	case strings.HasSuffix(s.path, ".gz"):
		z, err := gzip.NewReader(f)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return Header{}, errNoHeader
		}
		if err != nil {
			return Header{}, fmt.Errorf("open %s: %w", s.path, err)
		}
		in = z
	}
	s.lines.in = bufio.NewReaderSize(in, 256<<10)
	return s.readHeader()
}

// regular refuses what is no file with an end: opening a named pipe waits for whoever writes it, a device may never end.
func regular(path string) error {
	is, err := os.Stat(path)
	if err == nil && !is.Mode().IsRegular() {
		return fmt.Errorf("open the history: %s is no regular file (%s), so it is no recorded evidence", path, is.Mode().Type())
	}
	return err // it names the path
}

func (s *source) readHeader() (Header, error) {
	line, whole, err := s.lines.next()
	if err == nil && !whole || err == io.EOF {
		return Header{}, errNoHeader
	}
	s.line = 1
	if err != nil {
		return Header{}, s.errorf("%w", err)
	}
	// The version first: a later header may be of a shape that this one cannot read.
	var version struct {
		Header *struct {
			Schema int `json:"schema"`
		} `json:"header"`
	}
	if err := json.Unmarshal(line, &version); err != nil || version.Header == nil || version.Header.Schema < 1 {
		return Header{}, s.errorf("this is no header with a schema version: the first line of a history is {\"header\":{\"schema\":%d,…}}", SchemaVersion)
	}
	if v := version.Header.Schema; v > SchemaVersion {
		return Header{}, s.errorf("the file has version %d of the format, this program reads up to %d: use a newer one", v, SchemaVersion)
	}
	var first struct {
		Header Header `json:"header"`
	}
	if err := json.Unmarshal(line, &first); err != nil {
		return Header{}, s.errorf("read the header: %w", err)
	}
	if first.Header.Witness != s.witness {
		return Header{}, s.errorf("the header says witness %q, the file's name %q", first.Header.Witness, s.witness)
	}
	return first.Header, nil
}

func (s *source) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", s.path, s.line, fmt.Errorf(format, args...))
}

// fill makes sure that head is the next event, unless the file has ended.
func (s *source) fill() error {
	if s.full || s.ended {
		return nil
	}
	line, whole, err := s.lines.next()
	if err == io.EOF {
		s.ended, s.gap = true, "the file has no trailer: its recording broke off"
		return nil
	}
	s.line++
	if err != nil {
		return s.errorf("%w", err)
	}
	if err := s.decoder.Decode(line, &s.head); err != nil {
		if !whole {
			s.ended, s.gap = true, "the last line is torn: its recording broke off"
			return nil
		}
		return s.errorf("%w", err)
	}
	if s.head.I == 0 && bytes.Contains(line, []byte(`"trailer"`)) {
		return s.readTrailer(line)
	}
	return s.check()
}

// check sees that the event in head may stand where it stands.
func (s *source) check() error {
	e := &s.head
	switch {
	case e.I <= s.counted.Last:
		return s.errorf("event %d comes after event %d", e.I, s.counted.Last)
	case e.W != s.witness:
		return s.errorf("event %d is of witness %q, the file of %q", e.I, e.W, s.witness)
	}
	s.counted.Events++
	s.counted.Last = e.I
	s.full = true
	return nil
}

func (s *source) readTrailer(line []byte) error {
	var last struct {
		Trailer Trailer `json:"trailer"`
	}
	if err := json.Unmarshal(line, &last); err != nil {
		return s.errorf("read the trailer: %w", err)
	}
	if last.Trailer != s.counted {
		return s.errorf("the trailer counts %d events up to %d, the file has %d up to %d: lines are missing or were added",
			last.Trailer.Events, last.Trailer.Last, s.counted.Events, s.counted.Last)
	}
	s.ended = true
	if _, _, err := s.lines.next(); err != io.EOF {
		s.line++
		return s.errorf("something follows the trailer")
	}
	return nil
}

func (s *source) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// lineReader cuts a stream into lines.
type lineReader struct {
	in   *bufio.Reader
	long []byte // a line longer than the buffer of in
}

// next returns the next line without its line break; it is good until the next call. whole is false for a last line
// without a line break, and where a compressed stream breaks off.
func (l *lineReader) next() (line []byte, whole bool, err error) {
	if cap(l.long) > 1<<20 {
		l.long = nil
	}
	l.long = l.long[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		if err == nil && len(l.long) == 0 {
			return part[:len(part)-1], true, nil
		}
		if len(l.long)+len(part) > MaxLine {
			return nil, false, fmt.Errorf("the line has more than %d bytes", MaxLine)
		}
		l.long = append(l.long, part...)
		switch {
		case err == nil:
			return l.long[:len(l.long)-1], true, nil
		case err == bufio.ErrBufferFull:
		case err == io.EOF && len(l.long) == 0:
			return nil, false, io.EOF
		case err == io.EOF, err == io.ErrUnexpectedEOF:
			return l.long, false, nil
		default:
			return nil, false, err
		}
	}
}
