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
	Parts   []time.Time   `json:"parts"` // when each of the processes that made it began
	Machine Machine       `json:"machine"`
	Sources string        `json:"sources"` // digest of what it was made from, patches and plans aside
	Cost    time.Duration `json:"cost"`    // of everything, controls and builds included
	Rows    []Row         `json:"mutants"` // in the order of their names
	// Controls are the runs of the healthy build, one per plan and seed.
	Controls []Control `json:"controls"`
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

	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why,omitempty"`
	// KilledBy are those of Must, and Also what else fell in any of the runs.
	KilledBy []string `json:"killedBy,omitempty"`
	Also     []string `json:"also,omitempty"`
	// Median and Worst are of the killed runs' times to detection.
	Median time.Duration `json:"median"`
	Worst  time.Duration `json:"worst"`
	Cost   time.Duration `json:"cost"` // builds and runs, without the controls
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

// Run runs mutants and writes the matrix into its folder, which it returns, after each of them. When ctx ends early the
// matrix holds what was run, and the error says so. An error that is ErrInto has changed nothing; any other is the
// harness's own failure.
func Run(ctx context.Context, o Options, mutants []Mutant) (m *Matrix, dir string, err error) {
	began := time.Now()
	digest, err := sourcesDigest(o.Root)
	if err != nil {
		return nil, "", err
	}
	d, m, err := open(o, digest, began)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	scratch, err := os.MkdirTemp("", "fenceproof-mutants-")
	if err != nil {
		return nil, "", fmt.Errorf("make a folder for the builds: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	all, err := All()
	if err != nil {
		return nil, "", err
	}
	m.refresh(append(all, mutants...))
	b := Builder{Root: o.Root, Scratch: scratch}
	r := &runner{runs: d.path, controls: map[control]*Control{}}
	for _, c := range m.Controls {
		r.controls[control{plan: c.Plan, seed: c.Seed, with: c.With}] = &c
	}
	if err := d.write(m); err != nil {
		return nil, "", err
	}
	before := m.Cost
	for _, x := range mutants {
		if ctx.Err() != nil {
			break
		}
		row, err := r.row(ctx, b, o, m, x)
		if err != nil {
			return m, d.path, err
		}
		m.put(row)
		m.Controls, m.Cost = r.report(m.Rows), before+time.Since(began)
		if err := d.write(m); err != nil {
			return m, d.path, err
		}
	}
	m.pair()
	return m, d.path, errors.Join(d.write(m), context.Cause(ctx))
}

// row builds one mutant and runs it under all of its seeds, unless m has that already.
func (r *runner) row(ctx context.Context, b Builder, o Options, m *Matrix, x Mutant) (row Row, err error) {
	seeds := x.Seeds
	if o.Seeds > 0 {
		seeds = seeds[:min(o.Seeds, len(seeds))]
	}
	if old := m.ran(x.Name, seeds); old != nil {
		fmt.Fprintf(o.Out, "%-32s was run before: %s\n", x.Name, old.summary())
		return *old, nil
	}
	if r.healthy == "" {
		fmt.Fprintln(o.Out, "building the healthy services")
		if r.healthy, err = b.Healthy(ctx); err != nil {
			return row, err
		}
	}
	began := time.Now()
	row = rowOf(x)
	bin, err := r.builds(ctx, b, x)
	if err != nil {
		row.Outcome, row.Why = NoBuild, err.Error()
		if errors.Is(err, ErrApply) {
			row.Outcome = NoApply
		}
		fmt.Fprintf(o.Out, "%-32s %s: %s\n", x.Name, row.Outcome, row.Why)
		return row, nil
	}
	row.Cost = time.Since(began)
	for _, seed := range seeds {
		t := r.mutantRun(ctx, bin, x, seed)
		if ctx.Err() != nil {
			break
		}
		row.Cost += t.Cost
		row.Trials = append(row.Trials, t)
		fmt.Fprintf(o.Out, "%-32s seed %d: %s\n", x.Name, seed, t)
	}
	row.conclude()
	return row, nil
}

// rowOf is what a mutant says of itself.
func rowOf(x Mutant) Row {
	return Row{Name: x.Name, Title: x.Title, Breaks: x.Breaks, Source: x.Source, Services: x.Services, Plan: x.Plan,
		Must: x.Expect.Must, May: x.Expect.May, MaskedBy: x.MaskedBy, Unmasked: x.Unmasked, Meets: x.Meets, ControlHas: x.ControlHas,
		Inputs: x.inputs()}
}

// builds builds x, and what it is compared with where that is not the healthy build as it is.
func (r *runner) builds(ctx context.Context, b Builder, x Mutant) (all builds, err error) {
	all.healthy = r.healthy
	if len(x.ControlHas) > 0 {
		if all.healthy, err = b.Mutant(ctx, x.control(), r.healthy); err != nil {
			return all, err
		}
	}
	all.mutant, err = b.Mutant(ctx, x, r.healthy)
	return all, err
}

// pair holds every masked mutant against the one without the mask: only where that one was killed would the suite have seen
// the mistake.
func (m *Matrix) pair() {
	for i := range m.Rows {
		r := &m.Rows[i]
		if r.Outcome == Masked && !slices.ContainsFunc(m.Rows, func(o Row) bool { return o.Name == r.Unmasked && o.Outcome == Killed }) {
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

// conclude sums up the trials: a mutant is killed, or masked, if it is in every one of them.
func (r *Row) conclude() {
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
	if len(r.Trials) == 0 {
		r.Outcome, r.Why = NoVerdict, "it was not run"
	}
	if len(times) > 0 {
		slices.Sort(times)
		r.Median, r.Worst = (times[(len(times)-1)/2]+times[len(times)/2])/2, times[len(times)-1]
	}
	slices.Sort(r.KilledBy)
	slices.Sort(r.Also)
}

// report lists the controls of these rows, in the order of their plans and seeds.
func (r *runner) report(rows []Row) []Control {
	used := map[control]bool{}
	for _, row := range rows {
		for _, t := range row.Trials {
			used[row.control(t.Seed)] = true
		}
	}
	var all []Control
	for at, c := range r.controls {
		if used[at] {
			all = append(all, *c)
		}
	}
	slices.SortFunc(all, func(a, b Control) int {
		return cmp.Or(strings.Compare(a.Plan, b.Plan), strings.Compare(a.With, b.With), cmp.Compare(a.Seed, b.Seed))
	})
	return all
}

// control is the run of the healthy build beside the row's under a seed.
func (r Row) control(seed uint64) control {
	c := control{plan: r.Plan, seed: seed}
	if len(r.ControlHas) > 0 {
		c.with = r.Name
	}
	return c
}

// Good tells whether every mutant came to what it should.
func (m *Matrix) Good() bool {
	return !slices.ContainsFunc(m.Rows, func(r Row) bool { return !r.Outcome.Good() })
}
