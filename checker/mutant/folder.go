package mutant

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"fenceproof/checker/run"

	"github.com/google/renameio/v2"
)

// A whole matrix takes most of an hour. One that was cut short, or in which a patch or a plan was mended, is gone on with
// in its folder: what was run there of the same sources, patch and plan stays, whatever it came to. A run is never made a
// second time because its outcome was not liked.

// ErrInto says that a matrix cannot be gone on with in a folder.
var ErrInto = errors.New("the matrix there cannot be gone on with")

// folder is where a matrix and its runs are. It is nobody else's until it is released.
type folder struct {
	path    string
	release func()
}

// open makes the folder of a new matrix, or finds the one that o goes on with, and reads what is there. It must be of this
// machine and of these sources.
func open(o Options, sources Sources, now time.Time) (d *folder, m *Matrix, err error) {
	d = &folder{path: o.Into} // its own name is none that a run has: what removes old runs leaves it
	if o.Into == "" {
		d.path = filepath.Join(o.Runs, "mutants-"+now.UTC().Format("20060102T150405.000Z"))
	}
	if err := os.MkdirAll(d.path, 0o755); err != nil {
		return nil, nil, fmt.Errorf("make the folder of the runs: %w", err)
	}
	if _, err := d.read(sources); err != nil { // a folder of something else is left as it is
		return nil, nil, err
	}
	switch d.release, err = run.Occupy(d.path); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, nil, fmt.Errorf("%w: another process runs mutants into %s; wait for its end, or end it with Ctrl-C", ErrInto, d.path)
	case err != nil:
		return nil, nil, err
	}
	if m, err = d.read(sources); err != nil {
		d.release()
		return nil, nil, err
	}
	return d, m, nil
}

// read reads the matrix in the folder, and gives an empty one where nothing is there.
func (d *folder) read(sources Sources) (*Matrix, error) {
	machine := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	text, err := os.ReadFile(filepath.Join(d.path, MatrixFile))
	if errors.Is(err, fs.ErrNotExist) {
		return &Matrix{Schema: Schema, Machine: machine, Sources: sources, Versions: map[string]string{}}, d.empty()
	}
	if err != nil {
		return nil, fmt.Errorf("read the matrix: %w", err)
	}
	m := &Matrix{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, d.other("read its %s: %w", MatrixFile, err)
	}
	switch changed := m.Sources.changed(sources); {
	case m.Schema != Schema:
		return nil, d.other("its %s has schema %d, and this program writes %d", MatrixFile, m.Schema, Schema)
	case m.Machine != machine:
		return nil, d.other("it was made on %s, and this is %s", m.Machine, machine)
	case changed != "":
		return nil, d.other("%s has changed since it was begun", changed)
	}
	if m.Versions == nil {
		m.Versions = map[string]string{}
	}
	return m, nil
}

// other says why the matrix in the folder is not to be gone on with, and what to do.
func (d *folder) other(why string, args ...any) error {
	return fmt.Errorf("%w: that in %s: %w; begin in another folder", ErrInto, d.path, fmt.Errorf(why, args...))
}

// empty fails where something else is there than a matrix: hidden files aside, of which one keeps others out.
func (d *folder) empty() error {
	all, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("read the folder of the runs: %w", err)
	}
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), ".") {
			return fmt.Errorf("%w: %s holds %s and no %s; name the folder of a matrix, or one that is empty", ErrInto, d.path, e.Name(), MatrixFile)
		}
	}
	return nil
}

// write replaces the matrix in the folder in one step.
func (d *folder) write(m *Matrix) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the matrix: %w", err)
		}
	}()
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(d.path, MatrixFile), append(text, '\n'), 0o644, renameio.WithTempDir(d.path))
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

// refresh has in the matrix what was run with the patches and plans that these mutants have now, and sums it up anew. What
// was run with others is superseded. Where the harness failed before there was a verdict, nothing was.
func (m *Matrix) refresh(mutants []Mutant) {
	rows, controls := slices.Concat(m.Rows, m.Superseded.Rows), slices.Concat(m.Controls, m.Superseded.Controls)
	m.Rows, m.Controls, m.Superseded = nil, nil, Superseded{}
	for _, old := range rows {
		i := slices.IndexFunc(mutants, func(x Mutant) bool { return x.Name == old.Name && x.inputs() == old.Inputs })
		if i < 0 {
			m.Superseded.Rows = append(m.Superseded.Rows, old)
			continue
		}
		row := rowOf(mutants[i])
		row.Cost = old.Cost
		row.Trials = slices.DeleteFunc(slices.Clone(old.Trials), func(t Trial) bool { return t.Run == "" })
		row.conclude()
		m.put(row)
	}
	for _, c := range controls {
		switch now := (Mutant{Name: c.With, Plan: c.Plan}); {
		case c.Run == "":
		case c.With == "" && c.Inputs == now.controlInputs(),
			slices.ContainsFunc(mutants, func(x Mutant) bool { return x.Name == c.With && x.controlInputs() == c.Inputs }):
			m.Controls = append(m.Controls, c)
		default:
			m.Superseded.Controls = append(m.Superseded.Controls, c)
		}
	}
}

// begun is x's row, which is to be run under these seeds, with what was run of it before.
func (m *Matrix) begun(x Mutant, seeds []uint64) Row {
	row := rowOf(x)
	row.Seeds = seeds
	if i := slices.IndexFunc(m.Rows, func(r Row) bool { return r.Name == x.Name }); i >= 0 {
		row.Trials, row.Cost = slices.Clone(m.Rows[i].Trials), m.Rows[i].Cost
	}
	row.conclude()
	return row
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
