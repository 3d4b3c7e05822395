package soak

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// ErrNoSoak says that a folder holds something, and that this is no soak.
var ErrNoSoak = errors.New("the folder is there, and no soak is in it; name a folder for the soak alone")

// Exists tells whether dir holds what a soak has left, be it all of it or not.
func Exists(dir string) bool {
	for _, name := range []string{settingsFile, linesFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// Begun tells whether a soak was begun in dir. None was where there is no folder, an empty one, or one of a soak that was
// ended before it had written anything. In a folder that holds anything else no soak is begun: that is an error, and
// ErrNoSoak where nothing there is a soak's.
func Begun(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, settingsFile))
	switch {
	case err == nil:
		return true, linesLost(dir)
	case !errors.Is(err, os.ErrNotExist):
		return false, fmt.Errorf("look for a soak in %s: %w", dir, err)
	}
	switch lines, err := readFile(filepath.Join(dir, linesFile)); {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return false, fmt.Errorf("look for a soak in %s: %w", dir, err)
	case len(lines) > 0:
		return false, fmt.Errorf("the folder %s has %s and no %s, so what it runs is not known: put its %s back, or begin another soak in a new folder",
			dir, linesFile, settingsFile, settingsFile)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("look for a soak in %s: %w", dir, err)
	}
	for _, e := range entries {
		if e.Name() == linesFile {
			continue
		}
		inside, err := os.ReadDir(filepath.Join(dir, e.Name()))
		if own := e.Name() == runsDir || e.Name() == outputDir; !own || err != nil || len(inside) > 0 {
			return false, fmt.Errorf("%s: %w", dir, ErrNoSoak)
		}
	}
	return false, nil
}

// linesLost refuses a folder with runs and without the lines that would tell of them: whoever goes on there would take them for runs
// that were never brought to their end. A soak makes its lines' file before anything else, so without a run nothing is lost.
func linesLost(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, linesFile)); !errors.Is(err, os.ErrNotExist) {
		return nil // what is wrong with it is found when it is read
	}
	runs, err := begunRuns(dir)
	switch {
	case err != nil:
		return fmt.Errorf("look for a soak in %s: %w", dir, err)
	case len(runs) > 0:
		return fmt.Errorf("the folder %s has %s and %s, and no %s, so what they have shown is not known: put its %s back, or begin another soak in a new folder",
			dir, settingsFile, number(len(runs), "run"), linesFile, linesFile)
	}
	return nil
}

// GoingOn tells whether a soak is going on in dir.
func GoingOn(dir string) (bool, error) {
	f, err := openFile(filepath.Join(dir, linesFile), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether a soak is going on in %s: %w", dir, err)
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK), nil
}

// openFile opens a file that has to be a regular one: a pipe would wait for somebody at its other end, and a device may
// never end.
func openFile(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, 0o644)
	if errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENXIO) {
		return nil, irregular(path)
	}
	if err != nil {
		return nil, err
	}
	is, err := f.Stat()
	if err == nil && !is.Mode().IsRegular() {
		err = irregular(path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func irregular(path string) error {
	return fmt.Errorf("%s is no regular file: put a file in its place, or remove it", path)
}

// readFile reads a regular file.
func readFile(path string) ([]byte, error) {
	f, err := openFile(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
