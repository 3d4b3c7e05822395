package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"fenceproof/deploy/local"
)

// Files of a run's folder.
const (
	historyDir  = "history"
	planFile    = "plan.json"
	verdictFile = "verdict.json"
	reportFile  = "report.html"
	summaryFile = "summary.md"
	junitFile   = "junit.xml"
	latestLink  = "latest"
	lockFile    = ".in-use"
)

// ErrNoRuns says that there is no folder of all runs.
var ErrNoRuns = errors.New("there is no such folder")

// makeFolder makes the folder of a run. Two runs that begin in the same millisecond get folders of their own.
func makeFolder(c Config) (id, dir string, err error) {
	if err := os.MkdirAll(c.Runs, 0o755); err != nil {
		return "", "", fmt.Errorf("make the folder of all runs: %w", err)
	}
	for range 100 {
		id = c.id(time.Now())
		dir, err = filepath.Abs(filepath.Join(c.Runs, id))
		if err != nil {
			return "", "", fmt.Errorf("name the run's folder: %w", err)
		}
		if err = os.Mkdir(dir, 0o755); err == nil {
			return id, dir, nil
		} else if !errors.Is(err, os.ErrExist) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return "", "", fmt.Errorf("make the run's folder: %w", err)
}

// Occupy marks a folder as in use until the process ends or release is called: of a run, so that Clean leaves it alone, or of
// a matrix of mutants, so that nobody else makes one there. A soak holds on to the file of its lines instead. It wraps
// EWOULDBLOCK where another process has marked it.
func Occupy(dir string) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("mark the run's folder as in use: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("mark the run's folder as in use: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing gives up the mark; nothing was written
}

// InUse tells whether a run is going on in dir.
func InUse(dir string) bool {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return false
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

// pointLatest makes runs/latest point to the run, in one step: a reader sees the old run or the new one.
func pointLatest(runs, id string) error {
	tmp := filepath.Join(runs, fmt.Sprintf(".latest-%s", id))
	if err := os.Symlink(id, tmp); err != nil {
		return fmt.Errorf("point %s to the run: %w", latestLink, err)
	}
	if err := os.Rename(tmp, filepath.Join(runs, latestLink)); err != nil {
		_ = os.Remove(tmp) // the rename's error is the one that matters
		return fmt.Errorf("point %s to the run: %w", latestLink, err)
	}
	return nil
}

// DropLatest removes the link to the newest run where that run is gone: no link at all is as good.
func DropLatest(runs string) error {
	link := filepath.Join(runs, latestLink)
	if _, err := os.Stat(link); !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the link to a run that is gone: %w", err)
	}
	return nil
}

// Clean removes the folders of all runs but the newest keep. It touches nothing that is not named like a run, and none of
// the busy ones, which are going on. Without a folder of all runs the error is ErrNoRuns.
func Clean(runs string, keep int) (removed int, busy []string, err error) {
	entries, err := os.ReadDir(runs)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return 0, nil, fmt.Errorf("%w: %w", ErrNoRuns, err)
	case err != nil:
		return 0, nil, fmt.Errorf("look for old runs: %w", err)
	}
	var names []string // ReadDir sorts by name, and names begin with the time
	for _, e := range entries {
		switch {
		case !e.IsDir() || !IsRun(e.Name()):
		case InUse(filepath.Join(runs, e.Name())):
			busy = append(busy, e.Name())
		default:
			names = append(names, e.Name())
		}
	}
	var errs []error
	for _, n := range names[:max(0, len(names)-keep)] {
		if err := Remove(filepath.Join(runs, n)); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	errs = append(errs, DropLatest(runs))
	return removed, busy, errors.Join(errs...)
}

// Remove removes all that a run has left, in its folder and elsewhere. A folder that is not named like a run stays.
func Remove(dir string) error {
	if !IsRun(filepath.Base(dir)) {
		return fmt.Errorf("remove run %s: this is no run's name, so the folder stays", dir)
	}
	// Kept databases may be elsewhere, where the user that they run as could enter.
	if err := errors.Join(local.RemoveData(context.Background(), dir), os.RemoveAll(dir)); err != nil {
		return fmt.Errorf("remove run %s: %w", filepath.Base(dir), err)
	}
	return nil
}

// Strip removes all that a run has left but its verdict. A folder that is not named like a run stays as it is.
func Strip(dir string) error {
	if !IsRun(filepath.Base(dir)) {
		return fmt.Errorf("remove all but the verdict of run %s: this is no run's name, so the folder stays as it is", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("remove all but the verdict of run %s: %w", filepath.Base(dir), err)
	}
	errs := []error{local.RemoveData(context.Background(), dir)}
	for _, e := range entries {
		if e.Name() != verdictFile {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove all but the verdict of run %s: %w", filepath.Base(dir), err)
	}
	return nil
}

// IsRun tells whether name is one that a run's folder has: a time, and what was run, without any path.
func IsRun(name string) bool {
	at, what, ok := strings.Cut(name, "-")
	if !ok || what == "" || name != filepath.Base(name) {
		return false
	}
	_, err := time.Parse("20060102T150405.000Z", at)
	return err == nil
}

// HistoryDir is the folder of the history inside a run's folder.
func HistoryDir(run string) string { return filepath.Join(run, historyDir) }
