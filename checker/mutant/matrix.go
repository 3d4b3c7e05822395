package mutant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Schema is the version of mutants.json.
const Schema = 2

// MatrixFile is the matrix in its runs' folder.
const MatrixFile = "mutants.json"

// Matrix is which mutants were killed, by what and how fast.
type Matrix struct {
	Schema  int           `json:"schema"`
	Parts   []time.Time   `json:"parts"` // when each of the processes that ran something began
	Machine Machine       `json:"machine"`
	Cost    time.Duration `json:"cost"`    // of everything, controls and builds included
	Rows    []Row         `json:"mutants"` // in the order of their names
	// Controls are the runs of the healthy build, one per plan and seed, and one for a mutant of whose patch it has a part.
	Controls []Control `json:"controls"`
	// Superseded is what was run with patches and plans that are no longer those; should they be again, it counts again.
	Superseded Superseded `json:"superseded,omitzero"`
	// Versions are those of the databases and whatever else a run names; all runs have the same.
	Versions map[string]string `json:"versions"`
	Sources  Sources           `json:"sources"` // what it was made from
}

// Superseded are rows and controls that are none of the matrix as it is.
type Superseded struct {
	Rows     []Row     `json:"mutants,omitempty"`
	Controls []Control `json:"controls,omitempty"`
}

// Machine is the kind of machine that the times were measured on.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// String is the machine as documents name it.
func (m Machine) String() string {
	return fmt.Sprintf("%s/%s with %d cores, %s", m.OS, m.Arch, m.CPUs, m.Go)
}

// Control is one run of the healthy build.
type Control struct {
	Plan string `json:"plan"`
	With string `json:"with,omitempty"` // the mutant of whose patch it has a part
	// Inputs is a digest of the plan and of that patch.
	Inputs string `json:"inputs"`
	Trial
}

// Row is one mutant.
type Row struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	Breaks   string   `json:"breaks"`
	Source   string   `json:"source"`
	Services []string `json:"services"`
	Plan     string   `json:"plan"`
	Must     []string `json:"must,omitempty"`
	May      []string `json:"may,omitempty"`
	MaskedBy string   `json:"maskedBy,omitempty"`
	Unmasked string   `json:"unmasked,omitempty"`
	Meets    []string `json:"meets,omitempty"`
	// ControlHas are the files of the patch that the healthy build has as well.
	ControlHas []string `json:"controlHas,omitempty"`
	Inputs     string   `json:"inputs"` // digest of its patch and plan
	Seeds      []uint64 `json:"seeds"`  // under which it is to be run

	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why,omitempty"`
	// KilledBy are those of Must, and Also what else fell in any of the runs.
	KilledBy []string `json:"killedBy,omitempty"`
	Also     []string `json:"also,omitempty"`
	// Median and Worst are of the killed runs' times to detection.
	Median time.Duration `json:"median"`
	Worst  time.Duration `json:"worst"`
	Cost   time.Duration `json:"cost"` // builds and runs, without the runs of the healthy build
	Trials []Trial       `json:"trials"`
}

// Options say how a matrix is made.
type Options struct {
	Root string // the module's folder
	Runs string // the folder of all runs; the matrix gets one of its own there
	// Into, where not "", is that folder; a matrix that is there already is gone on with. What it has of the same patches and
	// plans is not run again.
	Into  string
	Seeds int       // of each mutant only the first so many; 0 for all
	Out   io.Writer // a line per run
}

// Run runs mutants and writes the matrix into its folder, which it returns, after each run. When ctx ends early the matrix
// holds what was run, and the error says so. An error that is ErrInto or ErrStale has changed nothing; any other is the
// harness's own failure.
func Run(ctx context.Context, o Options, mutants []Mutant) (m *Matrix, dir string, err error) {
	began := time.Now()
	known, err := All()
	if err != nil {
		return nil, "", err
	}
	sources, err := sourcesOf(ctx, o.Root)
	if err != nil {
		return nil, "", err
	}
	built, err := ownTime()
	if err != nil {
		return nil, "", err
	}
	if err := sources.fresh(o.Root, built); err != nil {
		return nil, "", err
	}
	d, m, err := open(o, sources, began)
	if err != nil {
		return nil, "", err
	}
	defer d.release()
	scratch, err := os.MkdirTemp("", "fenceproof-mutants-")
	if err != nil {
		return nil, "", fmt.Errorf("make a folder for the builds: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	r := newRunner(o, d, m, append(known, mutants...), Builder{Root: o.Root, Scratch: scratch}, began)
	fmt.Fprintf(o.Out, "%d mutants, into %s\n", len(mutants), d.path)
	if err := r.write(); err != nil { // so that the folder can be gone on with from the beginning
		return nil, "", err
	}
	for _, x := range mutants {
		if ctx.Err() != nil {
			break
		}
		if err := r.row(ctx, x); err != nil {
			return m, d.path, err
		}
	}
	m.pair()
	return m, d.path, errors.Join(r.write(), context.Cause(ctx))
}

// rowOf is what a mutant says of itself.
func rowOf(x Mutant) Row {
	return Row{Name: x.Name, Title: x.Title, Breaks: x.Breaks, Source: x.Source, Services: x.Services, Plan: x.Plan,
		Must: x.Expect.Must, May: x.Expect.May, MaskedBy: x.MaskedBy, Unmasked: x.Unmasked, Meets: x.Meets, ControlHas: x.ControlHas,
		Inputs: x.inputs(), Seeds: x.Seeds}
}

// pair holds every masked mutant against the one without the mask: only where that one was killed would the suite have seen
// the mistake.
func (m *Matrix) pair() {
	for i := range m.Rows {
		r := &m.Rows[i]
		if r.Outcome != Masked {
			continue
		}
		switch j := slices.IndexFunc(m.Rows, func(o Row) bool { return o.Name == r.Unmasked }); {
		case j < 0:
			r.Outcome, r.Why = NoVerdict, "nothing fell, but "+r.Unmasked+", which has no mask, was not run"
		case m.Rows[j].Outcome != Killed:
			r.Outcome, r.Why = NoVerdict, "nothing fell, but "+r.Unmasked+", which has no mask, was not killed"
		}
	}
}

// String is the trial in one line.
func (t Trial) String() string {
	if t.Outcome == Killed {
		return fmt.Sprintf("killed by %s after %.1f s: %s", strings.Join(t.Violated, ", "), t.Detection.Seconds(), t.Sentence)
	}
	if t.Why != "" {
		return fmt.Sprintf("%s: %s", t.Outcome, t.Why)
	}
	return string(t.Outcome)
}

// left is under which of its seeds it was not run.
func (r *Row) left() []uint64 {
	return slices.DeleteFunc(slices.Clone(r.Seeds), func(seed uint64) bool {
		return slices.ContainsFunc(r.Trials, func(t Trial) bool { return t.Seed == seed })
	})
}

// add puts a trial into its place among the others, and sums up.
func (r *Row) add(t Trial) {
	i, _ := slices.BinarySearchFunc(r.Trials, t.Seed, func(t Trial, seed uint64) int { return cmp.Compare(t.Seed, seed) })
	r.Trials, r.Cost = slices.Insert(r.Trials, i, t), r.Cost+t.Cost
	r.conclude()
}

// conclude sums up the trials: a mutant is killed, or masked, if it is in every one of them, under all of its seeds.
func (r *Row) conclude() {
	r.Outcome, r.Why, r.KilledBy, r.Also, r.Median, r.Worst = "", "", nil, nil, 0, 0
	var times []time.Duration
	for _, t := range r.Trials {
		if r.Outcome == "" || r.Outcome.Good() {
			r.Outcome, r.Why = t.Outcome, t.Why
			if !t.Outcome.Good() {
				r.Why = fmt.Sprintf("seed %d: %s", t.Seed, t.Why)
			}
		}
		if t.Outcome != Killed {
			continue
		}
		times = append(times, t.Detection)
		for _, id := range t.Violated {
			list := &r.Also
			if slices.Contains(r.Must, id) {
				list = &r.KilledBy
			}
			if !slices.Contains(*list, id) {
				*list = append(*list, id)
			}
		}
	}
	if left := len(r.left()); (left > 0 || len(r.Trials) == 0) && (r.Outcome == "" || r.Outcome.Good()) {
		r.Outcome, r.Why = NoVerdict, fmt.Sprintf("it was run under %d of %d seeds", len(r.Seeds)-left, len(r.Seeds))
	}
	if len(times) > 0 {
		slices.Sort(times)
		r.Median, r.Worst = (times[(len(times)-1)/2]+times[len(times)/2])/2, times[len(times)-1]
	}
	slices.Sort(r.KilledBy)
	slices.Sort(r.Also)
}

// control is where c stands among all.
func (c Control) control() control { return control{plan: c.Plan, seed: c.Seed, with: c.With} }

// control is the run of the healthy build beside the row's under a seed.
func (r Row) control(seed uint64) control {
	c := control{plan: r.Plan, seed: seed}
	if len(r.ControlHas) > 0 {
		c.with = r.Name
	}
	return c
}

// Good tells whether every one of these mutants came to what it should.
func (m *Matrix) Good(mutants []Mutant) bool {
	return !slices.ContainsFunc(mutants, func(x Mutant) bool {
		i := slices.IndexFunc(m.Rows, func(r Row) bool { return r.Name == x.Name })
		return i < 0 || !m.Rows[i].Outcome.Good()
	})
}
