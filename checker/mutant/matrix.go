package mutant

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Schema is the version of mutants.json.
const Schema = 1

// MatrixFile is the matrix in its runs' folder.
const MatrixFile = "mutants.json"

// Matrix is which mutants were killed, by what and how fast.
type Matrix struct {
	Schema  int           `json:"schema"`
	Started time.Time     `json:"started"`
	Machine Machine       `json:"machine"`
	Cost    time.Duration `json:"cost"` // of everything, controls and builds included
	Rows    []Row         `json:"mutants"`
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

// Control is one run of the healthy build.
type Control struct {
	Plan string `json:"plan"`
	With string `json:"with,omitempty"` // the mutant of whose patch it has a part
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
	Root  string    // the module's folder
	Runs  string    // the folder of all runs; the matrix gets one of its own there
	Seeds int       // of each mutant only the first so many; 0 for all
	Out   io.Writer // a line per run
}

// Run runs mutants and writes the matrix into a folder of its own, which it returns. When ctx ends early the matrix holds
// what was run, and the error says so; any other error is the harness's own failure.
func Run(ctx context.Context, o Options, mutants []Mutant) (m *Matrix, dir string, err error) {
	began := time.Now()
	scratch, err := os.MkdirTemp("", "fenceproof-mutants-")
	if err != nil {
		return nil, "", fmt.Errorf("make a folder for the builds: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	b := Builder{Root: o.Root, Scratch: scratch}
	r := &runner{controls: map[control]*Trial{}}
	fmt.Fprintf(o.Out, "%d mutants; building the healthy services\n", len(mutants))
	if r.healthy, err = b.Healthy(ctx); err != nil {
		return nil, "", err
	}
	dir = filepath.Join(o.Runs, began.UTC().Format("20060102T150405.000Z")+"-mutants")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, "", fmt.Errorf("make the folder of the runs: %w", err)
	}
	r.runs = dir
	m = &Matrix{Schema: Schema, Started: began, Machine: Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}}
	for _, x := range mutants {
		if ctx.Err() != nil {
			break
		}
		m.Rows = append(m.Rows, r.row(ctx, b, o, x))
	}
	m.pair()
	m.Controls = r.report()
	m.Cost = time.Since(began)
	if err := m.write(dir); err != nil {
		return m, dir, err
	}
	return m, dir, context.Cause(ctx)
}

// row builds one mutant and runs it under all of its seeds.
func (r *runner) row(ctx context.Context, b Builder, o Options, x Mutant) Row {
	began := time.Now()
	row := rowOf(x)
	bin, err := r.builds(ctx, b, x)
	if err != nil {
		row.Outcome, row.Why = NoBuild, err.Error()
		if errors.Is(err, ErrApply) {
			row.Outcome = NoApply
		}
		fmt.Fprintf(o.Out, "%-32s %s: %s\n", x.Name, row.Outcome, row.Why)
		return row
	}
	seeds := x.Seeds
	if o.Seeds > 0 {
		seeds = seeds[:min(o.Seeds, len(seeds))]
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
	return row
}

// rowOf is what a mutant says of itself.
func rowOf(x Mutant) Row {
	return Row{Name: x.Name, Title: x.Title, Breaks: x.Breaks, Source: x.Source, Services: x.Services, Plan: x.Plan,
		Must: x.Expect.Must, May: x.Expect.May, MaskedBy: x.MaskedBy, Unmasked: x.Unmasked, Meets: x.Meets, ControlHas: x.ControlHas}
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

// report lists the controls in the order of their plans and seeds.
func (r *runner) report() []Control {
	var all []Control
	for c, t := range r.controls {
		all = append(all, Control{Plan: c.plan, With: c.with, Trial: *t})
	}
	slices.SortFunc(all, func(a, b Control) int {
		return cmp.Or(strings.Compare(a.Plan, b.Plan), strings.Compare(a.With, b.With), cmp.Compare(a.Seed, b.Seed))
	})
	return all
}

// Good tells whether every mutant came to what it should.
func (m *Matrix) Good() bool {
	return !slices.ContainsFunc(m.Rows, func(r Row) bool { return !r.Outcome.Good() })
}

func (m *Matrix) write(dir string) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write the matrix: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, MatrixFile), append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the matrix: %w", err)
	}
	return nil
}
