package witness

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxLine is the longest line that a tail hands out, in bytes.
const maxLine = 1 << 20

// What can happen to a file that is only meant to grow.
var (
	errShrank   = errors.New("the file shrank")
	errReplaced = errors.New("the file was replaced by another one")
	errGone     = errors.New("the file is gone")
	errTooLong  = fmt.Errorf("a line is longer than %d bytes", maxLine)
)

// tail reads a growing file line by line, each line once and only when it is complete. What a writer that was killed
// left of a line waits for its rest, and may be taken away again.
type tail struct {
	path string
	file *os.File // held open, so that a new file cannot be mistaken for this one
	off  int64    // the end of the last complete line
	buf  []byte
}

// read hands every complete line that was not handed out yet to each, without its end, until the file's end or about
// budget bytes (0: no bound). The line is only valid during the call. A file that is not there yet is empty.
func (t *tail) read(budget int64, each func(line []byte) error) error {
	size, err := t.look()
	if err != nil || size <= t.off {
		return err
	}
	if t.buf == nil {
		t.buf = make([]byte, maxLine)
	}
	for from := t.off; budget == 0 || t.off-from < budget; {
		n, err := t.file.ReadAt(t.buf, t.off)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", t.path, err)
		}
		rest := t.buf[:n]
		for i := bytes.IndexByte(rest, '\n'); i >= 0; i = bytes.IndexByte(rest, '\n') {
			t.off += int64(i + 1)
			if err := each(rest[:i]); err != nil {
				return err
			}
			rest = rest[i+1:]
		}
		if n < len(t.buf) {
			return nil
		}
		if len(rest) == n {
			return errTooLong
		}
	}
	return nil
}

// look opens the file when it has come to be, checks that it still is the same and tells how long it is now.
func (t *tail) look() (size int64, err error) {
	now, err := os.Stat(t.path)
	switch {
	case errors.Is(err, os.ErrNotExist) && t.file == nil:
		return 0, nil
	case errors.Is(err, os.ErrNotExist):
		return 0, errGone
	case err != nil:
		return 0, fmt.Errorf("look at %s: %w", t.path, err)
	}
	if t.file == nil {
		if t.file, err = os.Open(t.path); err != nil {
			return 0, fmt.Errorf("open %s: %w", t.path, err)
		}
	}
	held, err := t.file.Stat()
	switch {
	case err != nil:
		return 0, fmt.Errorf("look at %s: %w", t.path, err)
	case !os.SameFile(now, held):
		return 0, errReplaced
	case held.Size() < t.off:
		return 0, errShrank
	}
	return held.Size(), nil
}

// restart makes the next read begin with whatever file is there then.
func (t *tail) restart() {
	t.close()
	t.off = 0
}

// close gives the file back.
func (t *tail) close() {
	if t.file != nil {
		_ = t.file.Close() // it was only read
		t.file = nil
	}
}
