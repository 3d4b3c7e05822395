package linear

import (
	"bytes"
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// spool holds the operations of each key in a file of its own, in a folder of its own. A key is data: files are named by
// number. What was put last is in memory, at most spoolBuffer bytes per key, and in all no more than spoolTotal.
type spool struct {
	dir   string
	keys  map[string]*spooled
	order []string // the keys as they came up
	held  int      // bytes in memory
}

type spooled struct {
	path    string
	buffer  bytes.Buffer
	encoder *gob.Encoder
	entries int64
}

const (
	spoolBuffer = 256 << 10
	spoolTotal  = 32 << 20
)

func newSpool() (*spool, error) {
	dir, err := os.MkdirTemp("", "fenceproof-linear-")
	if err != nil {
		return nil, fmt.Errorf("make room for the operations of lock keys: %w", err)
	}
	return &spool{dir: dir, keys: map[string]*spooled{}}, nil
}

// put adds e to key's entries.
func (s *spool) put(key string, e entry) error {
	k := s.keys[key]
	if k == nil {
		k = &spooled{path: s.file(strconv.Itoa(len(s.order)))}
		k.encoder = gob.NewEncoder(&k.buffer)
		s.keys[key], s.order = k, append(s.order, key)
	}
	before := k.buffer.Len()
	if err := k.encoder.Encode(e); err != nil {
		return fmt.Errorf("write down an operation: %w", err)
	}
	k.entries++
	s.held += k.buffer.Len() - before
	if k.buffer.Len() >= spoolBuffer {
		return s.spill(k)
	}
	if s.held >= spoolTotal {
		return s.flush()
	}
	return nil
}

func (s *spool) file(name string) string { return filepath.Join(s.dir, name) }

func (s *spool) spill(k *spooled) error {
	f, err := os.OpenFile(k.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		s.held -= k.buffer.Len()
		_, err = k.buffer.WriteTo(f)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("write down the operations of a key: %w", err)
	}
	return nil
}

// flush puts everything into the files.
func (s *spool) flush() error {
	for _, key := range s.order {
		if k := s.keys[key]; k.buffer.Len() > 0 {
			if err := s.spill(k); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove deletes the folder.
func (s *spool) remove() error {
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove the operations of lock keys: %w", err)
	}
	return nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
