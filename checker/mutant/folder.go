package mutant

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrInto says that a matrix cannot be gone on with in a folder.
var ErrInto = errors.New("the matrix there cannot be gone on with")

// A whole matrix takes most of an hour. One that was cut short, or in which a patch or a plan was mended, is gone on with
// in its folder: what was run there of the same sources, patch and plan stays, whatever it came to. A run is never made a
// second time because its outcome was not liked.

// folder is where a matrix and its runs are. It is nobody else's until it is closed.
type folder struct {
	path string
	lock *os.File
}

// open makes the folder of a new matrix, or finds the one that o goes on with, and reads what is there.
func open(o Options, sources string, began time.Time) (d *folder, m *Matrix, err error) {
	d = &folder{path: o.Into}
	if o.Into == "" {
		d.path = filepath.Join(o.Runs, began.UTC().Format("20060102T150405.000Z")+"-mutants")
	}
	if err := os.MkdirAll(d.path, 0o755); err != nil {
		return nil, nil, fmt.Errorf("make the folder of the runs: %w", err)
	}
	if d.lock, err = os.Open(d.path); err != nil {
		return nil, nil, fmt.Errorf("open the folder of the runs: %w", err)
	}
	if err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%w: another process makes mutants into %s (%w)", ErrInto, d.path, err), d.lock.Close())
	}
	if m, err = d.read(sources); err != nil {
		return nil, nil, errors.Join(err, d.lock.Close())
	}
	m.Parts = append(m.Parts, began)
	return d, m, nil
}

// close lets others have the folder.
func (d *folder) close() error { return d.lock.Close() }

// read reads the matrix in the folder, and gives an empty one where there is none. It must be of this machine and of
// sources with this digest.
func (d *folder) read(sources string) (*Matrix, error) {
	machine := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	text, err := os.ReadFile(filepath.Join(d.path, MatrixFile))
	if errors.Is(err, fs.ErrNotExist) {
		return &Matrix{Schema: Schema, Machine: machine, Sources: sources}, d.empty()
	}
	if err != nil {
		return nil, fmt.Errorf("read the matrix: %w", err)
	}
	m := &Matrix{}
	switch err := json.Unmarshal(text, m); {
	case err != nil:
		return nil, fmt.Errorf("%w: read %s in %s: %w", ErrInto, MatrixFile, d.path, err)
	case m.Schema != Schema:
		return nil, fmt.Errorf("%w: %s in %s has schema %d, and this program writes %d; begin in another folder", ErrInto, MatrixFile, d.path, m.Schema, Schema)
	case m.Machine != machine:
		return nil, fmt.Errorf("%w: that in %s was made on %s, and this is %s; begin in another folder", ErrInto, d.path, m.Machine, machine)
	case m.Sources != sources:
		return nil, fmt.Errorf("%w: the sources have changed since the one in %s was begun; begin in another folder", ErrInto, d.path)
	}
	return m, nil
}

// empty says what is there where no matrix is.
func (d *folder) empty() error {
	names, err := d.lock.Readdirnames(1)
	switch {
	case len(names) > 0:
		return fmt.Errorf("%w: %s holds %s and no %s; name the folder of a matrix, or one that is empty", ErrInto, d.path, names[0], MatrixFile)
	case errors.Is(err, io.EOF):
		return nil
	}
	return fmt.Errorf("read the folder of the runs: %w", err)
}

// write replaces the matrix in the folder in one step.
func (d *folder) write(m *Matrix) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write the matrix: %w", err)
	}
	path := filepath.Join(d.path, MatrixFile)
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the matrix: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the matrix: %w", err)
	}
	return nil
}

// sources are the folders and files of the module that decide what a run comes to. The patches and plans among them are
// counted for each mutant by themselves.
var sources = []string{"go.mod", "go.sum", "checker", "deploy", "migrations", "nemesis", "reports", "system", "workloads"}

// sourcesDigest is SHA-256, in hexadecimal, over the sources below root: tests, what they read, documents, and the patches and
// plans aside.
func sourcesDigest(root string) (string, error) {
	sum := sha256.New()
	for _, name := range sources {
		err := filepath.WalkDir(filepath.Join(root, name), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			if aside := filepath.ToSlash(rel); e.IsDir() {
				if e.Name() == "testdata" || aside == "checker/mutant/patches" || aside == "checker/mutant/plans" || aside == "checker/golden" {
					return fs.SkipDir
				}
				return nil
			}
			if strings.HasSuffix(rel, "_test.go") || strings.HasSuffix(rel, ".md") || !e.Type().IsRegular() {
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(sum, "%q %x\n", filepath.ToSlash(rel), sha256.Sum256(text))
			return nil
		})
		if err != nil {
			return "", fmt.Errorf("note the sources: %w", err)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// inputs tells the patch and the plan of m, as they are, from all others.
func (m Mutant) inputs() string { return m.digest(m.text) }

// controlInputs does the same for the run of the healthy build that m is compared with, which need not have the patch.
func (m Mutant) controlInputs() string {
	if len(m.ControlHas) > 0 {
		return m.digest(m.text)
	}
	return m.digest(nil)
}

func (m Mutant) digest(patch []byte) string {
	text, _ := fs.ReadFile(plans, m.planFile()) // it was read before
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%x %x", sha256.Sum256(text), sha256.Sum256(patch))))
}

// refresh leaves what was run with the patches and plans that these mutants have now, and sums it up anew.
func (m *Matrix) refresh(mutants []Mutant) {
	var rows []Row
	for _, old := range m.Rows {
		i := slices.IndexFunc(mutants, func(x Mutant) bool { return x.Name == old.Name && x.inputs() == old.Inputs })
		if i < 0 {
			continue
		}
		row := rowOf(mutants[i])
		row.Trials, row.Cost = old.Trials, old.Cost
		row.conclude()
		rows = append(rows, row)
	}
	m.Rows = rows
}

// ran is the row of the mutant with this name, where it was run under all of these seeds; else nil.
func (m *Matrix) ran(name string, seeds []uint64) *Row {
	i := slices.IndexFunc(m.Rows, func(r Row) bool { return r.Name == name })
	if i < 0 || len(m.Rows[i].Trials) < len(seeds) {
		return nil
	}
	return &m.Rows[i]
}

// put puts a row into the place of its name.
func (m *Matrix) put(row Row) {
	i, found := slices.BinarySearchFunc(m.Rows, row.Name, func(r Row, name string) int { return strings.Compare(r.Name, name) })
	if found {
		m.Rows[i] = row
		return
	}
	m.Rows = slices.Insert(m.Rows, i, row)
}
