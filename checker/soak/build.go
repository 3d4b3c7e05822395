package soak

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// build is what the runs of a soak are made with: this program, and the services beside it. A soak is long enough for
// somebody to build anew meanwhile, and what its runs show must be of one system.
type build struct {
	mu    sync.Mutex
	files map[string]*program // by path
}

// program is one file of a build. Where what the system says of it has not changed, its content is not read again.
type program struct {
	is  os.FileInfo
	sum [sha256.Size]byte
}

// buildOf is the build that exe and the services beside it are, as it is now. A service that is not there is found missing
// by the runs.
func buildOf(exe string, services []string) (*build, error) {
	b := &build{files: map[string]*program{}}
	paths := []string{exe}
	for _, name := range services {
		paths = append(paths, filepath.Join(filepath.Dir(exe), name))
	}
	for _, path := range paths {
		p, err := read(path)
		if err != nil && !(path != exe && errors.Is(err, os.ErrNotExist)) {
			return nil, fmt.Errorf("note the build of the soak: %w", err)
		}
		b.files[path] = p
	}
	return b, nil
}

// same fails where a program is not what it was. One that was built again and came out the same is.
func (b *build) same() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for path, was := range b.files {
		is, err := os.Stat(path)
		switch {
		case was == nil && errors.Is(err, os.ErrNotExist):
			continue
		case err == nil && was != nil && os.SameFile(is, was.is) && is.Size() == was.is.Size() && is.ModTime().Equal(was.is.ModTime()):
			continue
		}
		now, err := read(path)
		if err != nil || was == nil || now.sum != was.sum {
			return fmt.Errorf("%s is not the program that it was when the soak began; continue it with --into, or begin another one", path)
		}
		b.files[path] = now
	}
	return nil
}

func read(path string) (*program, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	is, err := f.Stat()
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return &program{is, [sha256.Size]byte(h.Sum(nil))}, nil
}
