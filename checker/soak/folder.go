package soak

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"fenceproof/checker/run"
	"fenceproof/checker/verdict"

	"github.com/google/renameio/v2"
)

// Files of a soak's folder.
const (
	linesFile    = "soak.ndjson"
	settingsFile = "soak.json"
	summaryFile  = "summary.json"
	pageFile     = "summary.html"
	runsDir      = "runs"
	outputDir    = "output"
)

// Schema is the version of soak.json, soak.ndjson and summary.json.
const Schema = 1

// KeptOpen is how many of the runs that came to no end either way are kept whole: the newest.
const KeptOpen = 20

// ending is how long a run has to end whose soak was killed.
const ending = 10 * time.Second

// ErrInUse says that a soak, or a run that it began, is still going on elsewhere.
var ErrInUse = errors.New("it is going on in another process")

// ErrOtherBuild says that a soak was begun with other programs.
var ErrOtherBuild = errors.New("it was begun with other programs")

// Session is one start of a soak.
type Session struct {
	Started time.Time `json:"started"`
	Command string    `json:"command"`
	Commit  string    `json:"commit,omitempty"` // the build's, "" where it is not known
	Build   string    `json:"build,omitempty"`  // digest of the programs that its runs are made with
	Go      string    `json:"go"`
	OS      string    `json:"os"` // "linux/amd64"
	Cores   int       `json:"cores"`
}

// header is soak.json: what is run, and what was started to run it.
type header struct {
	Schema   int       `json:"schema"`
	Settings Settings  `json:"settings"`
	Cells    []Cell    `json:"cells"`
	LeftOut  []LeftOut `json:"leftOut,omitempty"`
	Sessions []Session `json:"sessions"`
}

// Folder is a soak's folder: what was run, and what came of it.
type Folder struct {
	Dir   string
	head  header
	Lines []Line

	versions map[string]string // that its runs were made with: by their verdicts
	swept    []string          // runs that had not come to their end, and are gone
	saved    []Line            // such runs that had found a violation
	file     *os.File
	stripped map[string]bool // runs of which no more than the verdict is left
}

// Read reads what a soak has left in dir. It changes nothing. A last line that was not written to its end counts for
// nothing. A folder without a soak, one with a part of one, and one whose lines say otherwise than the verdicts of their runs do
// are refused.
func Read(dir string) (*Folder, error) {
	f := &Folder{Dir: dir, stripped: map[string]bool{}}
	switch begun, err := Begun(dir); {
	case err != nil:
		return nil, err
	case !begun:
		return nil, fmt.Errorf("read the soak in %s: there is no %s", dir, settingsFile)
	}
	text, err := readFile(filepath.Join(dir, settingsFile))
	if err != nil {
		return nil, fmt.Errorf("read the soak in %s: %w", dir, err)
	}
	if err := json.Unmarshal(text, &f.head); err != nil {
		return nil, fmt.Errorf("read %s of the soak in %s: %w", settingsFile, dir, err)
	}
	if f.head.Schema > Schema {
		return nil, fmt.Errorf("read the soak in %s: it has version %d, this program reads up to %d: use a newer one", dir, f.head.Schema, Schema)
	}
	text, err = readFile(filepath.Join(dir, linesFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the soak in %s: %w", dir, err)
	}
	f.Lines, err = parse(text)
	if err != nil {
		return nil, fmt.Errorf("read %s of the soak in %s: %w", linesFile, dir, err)
	}
	if err := f.contradicted(); err != nil {
		return nil, fmt.Errorf("read the soak in %s: %w", dir, err)
	}
	return f, nil
}

// Settings are those of the soak's last start.
func (f *Folder) Settings() Settings { return f.head.Settings }

// parse reads all lines that are whole.
func parse(text []byte) ([]Line, error) {
	var lines []Line
	for n, l := range bytes.Split(text[:bytes.LastIndexByte(text, '\n')+1], []byte("\n")) {
		if len(l) == 0 {
			continue
		}
		var x Line
		if err := json.Unmarshal(l, &x); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, inWords(l, err))
		}
		if err := x.valid(); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		lines = append(lines, x)
	}
	return lines, nil
}

// open makes dir the folder of a soak, or continues the one that is there, and keeps others out until close. A run that is
// still going on there, because its soak was killed just now, has until leave to end. What is refused changes nothing.
func open(dir string, s Settings, cells []Cell, out []LeftOut, now Session, leave time.Duration) (f *Folder, err error) {
	if _, err := begun(dir, now.Build); err != nil { // before anything is made there, and again once nobody else writes there
		return nil, err
	}
	file, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	if f, err = begun(dir, now.Build); err != nil {
		return nil, err
	}
	over, err := f.untold(leave)
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{runsDir, outputDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, fmt.Errorf("make the folder of the soak: %w", err)
		}
	}
	f.file = file
	f.head = header{Schema: Schema, Settings: s, Cells: union(f.head.Cells, cells), LeftOut: out, Sessions: append(f.head.Sessions, now)}
	if err := cutTorn(file); err != nil {
		return nil, err
	}
	if err := errors.Join(f.sweepAway(over), f.tidy()); err != nil {
		return nil, err
	}
	if err := writeJSON(filepath.Join(dir, settingsFile), f.head); err != nil {
		return nil, err
	}
	return f, nil
}

// begun is the soak in dir as it was left, an empty one where none was begun. It is refused where other programs began it.
func begun(dir, digest string) (*Folder, error) {
	there, err := Begun(dir)
	if err != nil {
		return nil, err
	}
	if !there {
		return &Folder{Dir: dir, stripped: map[string]bool{}}, nil
	}
	f, err := Read(dir)
	if err != nil {
		return nil, err
	}
	return f, f.head.begunWith(dir, digest)
}

// lock opens the lines of the soak in dir, and keeps others out until the file is closed.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the soak: %w", err)
	}
	file, err := openFile(filepath.Join(dir, linesFile), os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("open the soak in %s: %w", dir, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = fmt.Errorf("the soak in %s: %w: wait for its end, or end it with Ctrl-C", dir, ErrInUse)
	case err != nil:
		err = fmt.Errorf("open the soak in %s: %w", dir, err)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func union(have, more []Cell) []Cell {
	for _, c := range more {
		if !slices.Contains(have, c) {
			have = append(have, c)
		}
	}
	return have
}

// cutTorn removes a last line that was not written to its end, and goes to the end of the file.
func cutTorn(f *os.File) error {
	text, err := os.ReadFile(f.Name())
	if err == nil {
		whole := int64(bytes.LastIndexByte(text, '\n') + 1)
		err = f.Truncate(whole)
		if err == nil {
			_, err = f.Seek(whole, 0)
		}
	}
	if err != nil {
		return fmt.Errorf("continue %s: %w", f.Name(), err)
	}
	return nil
}

func (f *Folder) close() error { return f.file.Close() }

// add keeps what a run has shown, on disk before it returns, and then removes what need not be kept.
func (f *Folder) add(l Line) error {
	text, err := json.Marshal(l)
	if err == nil {
		_, err = f.file.Write(append(text, '\n'))
	}
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("keep what %s has shown: %w", l.Run, err)
	}
	f.Lines = append(f.Lines, l)
	return f.tidy()
}

// done are the keys of all runs that have been done. One in which the harness failed has not, unless it found a
// violation.
func (f *Folder) done() map[string]bool {
	done := map[string]bool{}
	for _, l := range f.Lines {
		if l.counts() {
			done[l.key()] = true
		}
	}
	return done
}

// excess are the runs of which no more than the verdict is kept: all that passed, and of those that came to no end either
// way all but the newest KeptOpen. Violated runs, and those in which the harness failed, are kept whole.
func excess(lines []Line) []string {
	var strip, open []string
	for _, l := range lines {
		switch {
		case l.Failed != "" || l.LeftOut != "" || l.Besides != "" || l.Status == verdict.Violated:
		case l.Status == verdict.Pass:
			strip = append(strip, l.Run)
		default:
			open = append(open, l.Run)
		}
	}
	return append(strip, open[:max(0, len(open)-KeptOpen)]...)
}

// tidy removes what need not be kept.
func (f *Folder) tidy() error {
	for _, id := range excess(f.Lines) {
		if f.stripped[id] {
			continue
		}
		if err := run.Strip(filepath.Join(f.Dir, runsDir, id)); err != nil && !errors.Is(err, os.ErrNotExist) { // somebody may have removed the run
			return err
		}
		f.stripped[id] = true
	}
	return nil
}

// whole tells whether all of a run's evidence is still there.
func (f *Folder) whole(id string) bool {
	_, err := os.Stat(run.HistoryDir(filepath.Join(f.Dir, runsDir, id)))
	return id != "" && err == nil
}

// size is how many bytes the files in dir have. What vanishes meanwhile counts for nothing.
func size(dir string) int64 {
	var n int64
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if i, err := e.Info(); err == nil && i.Mode().IsRegular() {
			n += i.Size()
		}
		return nil
	})
	return n
}

// writeJSON puts v into a file in one step.
func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return replace(path, append(text, '\n'))
}

// replace puts content into a file in one step: whoever reads it sees the old one or the whole new one. A link stays one,
// and a file that was there keeps its mode.
func replace(path string, content []byte) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
		is, err := os.Stat(path)
		if err == nil && !is.Mode().IsRegular() { // a device would be gone
			err = irregular(path)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	if err := renameio.WriteFile(path, content, 0o644, renameio.WithTempDir(filepath.Dir(path))); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
