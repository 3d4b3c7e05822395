package soak

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// build is what the runs of a soak are made with: this program, and beside it the services and the operator's tool. A soak is long
// enough for somebody to build anew meanwhile, and what its runs show must be of one system.
type build struct {
	mu    sync.Mutex
	files map[string]*program // by path
	// digest tells this build from all others, wherever its programs lie: SHA-256 over what each of them is, in hexadecimal.
	digest string
}

// program is one file of a build. Where what the system says of it has not changed, its content is not read again.
type program struct {
	is  os.FileInfo
	sum [sha256.Size]byte
}

// buildOf is the build that exe and the programs beside it are, as it is now. One that is not there is found missing by the runs.
func buildOf(exe string, programs []string) (*build, error) {
	b := &build{files: map[string]*program{}}
	whole := sha256.New()
	for _, name := range append([]string{""}, slices.Sorted(slices.Values(programs))...) {
		path := exe
		if name != "" {
			path = filepath.Join(filepath.Dir(exe), name)
		}
		p, err := read(path)
		if err != nil && !(path != exe && errors.Is(err, os.ErrNotExist)) {
			return nil, fmt.Errorf("note the build of the soak: %w", err)
		}
		b.files[path] = p
		fmt.Fprintf(whole, "%q", name)
		if p != nil {
			fmt.Fprintf(whole, " %x", p.sum)
		}
	}
	b.digest = fmt.Sprintf("%x", whole.Sum(nil))
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
			return fmt.Errorf("%s is not the program that it was when the soak began: begin another soak in a new folder", path)
		}
		b.files[path] = now
	}
	return nil
}

// begunWith refuses to go on with a build in the folder of a soak that another one was begun with. What its runs show must
// be of one system, whether it is replaced during a soak or between two starts.
func (h header) begunWith(dir, digest string) error {
	for _, n := range h.Sessions {
		if n.Build != digest {
			return fmt.Errorf("the soak in %s: %w: begin another soak in a new folder, or put the programs back", dir, ErrOtherBuild)
		}
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
