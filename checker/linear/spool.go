package linear

import (
	"bytes"
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// spool holds the operations of each key, one after the other in the order of the history, and the readings of the lock
// store's clock. What was put last is in memory:
// at most spoolBuffer bytes per key, and no more than spoolTotal in all. The rest is in a file that has no name any more,
// so that nothing is left of it however this process ends.
type spool struct {
	file  *os.File
	size  int64 // of the file
	keys  map[string]*spooled
	order []string // the keys as they came up
	clock spooled  // the readings
	held  int      // bytes in memory
}

// spooled is what the spool has of one key: parts of the file, and then the buffer.
type spooled struct {
	parts   []part
	buffer  bytes.Buffer
	encoder *gob.Encoder
}

type part struct{ from, size int64 }

const (
	spoolBuffer = 256 << 10
	spoolTotal  = 32 << 20
)

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "fenceproof-linear-")
	if err == nil {
		err = os.Remove(f.Name())
	}
	if err != nil {
		return nil, fmt.Errorf("make room for the operations of lock keys: %w", err)
	}
	return &spool{file: f, keys: map[string]*spooled{}}, nil
}

// put adds e to key's entries.
func (s *spool) put(key string, e entry) error {
	k := s.keys[key]
	if k == nil {
		k = &spooled{}
		k.encoder = gob.NewEncoder(&k.buffer)
		s.keys[key], s.order = k, append(s.order, key)
	}
	before := k.buffer.Len()
	if err := k.encoder.Encode(e); err != nil {
		return fmt.Errorf("write down an operation: %w", err)
	}
	s.held += k.buffer.Len() - before
	if k.buffer.Len() >= spoolBuffer {
		return s.spill(k)
	}
	if s.held < spoolTotal {
		return nil
	}
	for _, key := range s.order {
		if err := s.spill(s.keys[key]); err != nil {
			return err
		}
	}
	return nil
}

// look adds r to the readings.
func (s *spool) look(r reading) error {
	s.clock.buffer.Write(r.append(s.clock.buffer.AvailableBuffer()))
	if s.held += readingSize; s.clock.buffer.Len() >= spoolBuffer {
		return s.spill(&s.clock)
	}
	return nil
}

// spill puts what is in k's buffer into the file.
func (s *spool) spill(k *spooled) error {
	n := k.buffer.Len()
	if n == 0 {
		return nil
	}
	if _, err := s.file.WriteAt(k.buffer.Bytes(), s.size); err != nil {
		return fmt.Errorf("write down what a history says of keys: %w", err)
	}
	k.parts = append(k.parts, part{s.size, int64(n)})
	s.size, s.held = s.size+int64(n), s.held-n
	k.buffer = bytes.Buffer{} // many keys come up once
	return nil
}

// entries are those of key, and how many bytes they have.
func (s *spool) entries(key string) (io.Reader, int64) {
	return s.read(s.keys[key])
}

// readings are all readings, and how many bytes they have.
func (s *spool) readings() (io.Reader, int64) { return s.read(&s.clock) }

func (s *spool) read(k *spooled) (io.Reader, int64) {
	var readers []io.Reader
	size := int64(k.buffer.Len())
	for _, p := range k.parts {
		readers = append(readers, io.NewSectionReader(s.file, p.from, p.size))
		size += p.size
	}
	return io.MultiReader(append(readers, bytes.NewReader(k.buffer.Bytes()))...), size
}

// close gives the file up.
func (s *spool) close() error {
	if err := s.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("give up the operations of lock keys: %w", err)
	}
	return nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
