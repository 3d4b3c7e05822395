package mutant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"fenceproof/checker/run"
	"fenceproof/checker/verdict"
)

// runner runs mutants into a matrix.
type runner struct {
	Options
	folder *folder
	matrix *Matrix
	build  Builder
	began  time.Time
	before time.Duration // cost of the parts before this one

	healthy  string // folder of the healthy binaries, "" until they are built
	controls map[control]*Control
	unlike   error // that a run was made with other versions than those before
}

func newRunner(o Options, d *folder, m *Matrix, known []Mutant, b Builder, began time.Time) *runner {
	m.refresh(known)
	r := &runner{Options: o, folder: d, matrix: m, build: b, began: began, before: m.Cost, controls: map[control]*Control{}}
	for _, c := range m.Controls {
		r.controls[c.control()] = &c
	}
	return r
}

// write puts what was run so far into the folder, unless it was not run with what all others were.
func (r *runner) write() error {
	if err := errors.Join(r.unlike, r.matrix.Sources.same(r.Root)); err != nil {
		return err
	}
	r.matrix.Controls = r.report()
	if r.healthy != "" {
		r.matrix.Cost = r.before + time.Since(r.began)
	}
	return r.folder.write(r.matrix)
}

// keep puts a row with a new outcome into the matrix, and what was run so far into the folder.
func (r *runner) keep(row Row) error {
	r.matrix.put(row)
	return r.write()
}

// row builds one mutant and runs it under those of its seeds that it was not run under before.
func (r *runner) row(ctx context.Context, x Mutant) (err error) {
	seeds := x.Seeds
	if r.Seeds > 0 {
		seeds = seeds[:min(r.Seeds, len(seeds))]
	}
	row := r.matrix.begun(x, seeds)
	left := row.left()
	if len(left) == 0 {
		fmt.Fprintf(r.Out, "%-32s was run before: %s\n", x.Name, row.summary())
		r.matrix.put(row)
		return nil
	}
	if err := errors.Join(r.first(ctx), r.unchanged(ctx)); err != nil || ctx.Err() != nil {
		if ctx.Err() != nil { // what ended the compiler, too
			return nil
		}
		return err
	}
	began := time.Now()
	bin, err := r.builds(ctx, x)
	defer func() { err = errors.Join(err, r.build.remove(x)) }()
	row.Cost += time.Since(began)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		row.Outcome, row.Why = NoBuild, err.Error()
		if errors.Is(err, ErrApply) {
			row.Outcome = NoApply
		}
		fmt.Fprintf(r.Out, "%-32s %s: %s\n", x.Name, row.Outcome, row.Why)
		return r.keep(row)
	}
	for _, seed := range left {
		t, err := r.mutantRun(ctx, bin, x, seed)
		if err != nil || ctx.Err() != nil {
			return err
		}
		row.add(t)
		fmt.Fprintf(r.Out, "%-32s seed %d: %s\n", x.Name, seed, t)
		if err := r.keep(row); err != nil {
			return err
		}
	}
	return nil
}

// first makes the healthy build, before the first mutant that is run.
func (r *runner) first(ctx context.Context) (err error) {
	if r.healthy != "" {
		return nil
	}
	fmt.Fprintln(r.Out, "building the healthy services")
	if r.healthy, err = r.build.Healthy(ctx); err == nil {
		r.matrix.Parts = append(r.matrix.Parts, r.began)
	}
	return err
}

// unchanged fails where the sources are no longer those that the matrix is of; a new file is none of them, either.
func (r *runner) unchanged(ctx context.Context) error {
	now, err := sourcesOf(ctx, r.Root)
	if err != nil || ctx.Err() != nil {
		return err
	}
	if f := r.matrix.Sources.changed(now); f != "" {
		return errChanged(f)
	}
	return nil
}

// builds builds x, and what it is compared with where that is not the healthy build as it is.
func (r *runner) builds(ctx context.Context, x Mutant) (all builds, err error) {
	all.healthy = r.healthy
	if len(x.ControlHas) > 0 {
		if all.healthy, err = r.build.Mutant(ctx, x.control(), r.healthy); err != nil {
			return all, err
		}
	}
	all.mutant, err = r.build.Mutant(ctx, x, r.healthy)
	return all, err
}

// verify is one run of the binaries in bin under m's plan and a seed.
func (r *runner) verify(ctx context.Context, bin string, m Mutant, seed uint64, expect *verdict.Expectation) (*verdict.Run, *run.Watch, time.Duration, error) {
	p, err := m.plan(seed)
	if err != nil {
		return nil, nil, 0, err
	}
	w := &run.Watch{}
	if expect != nil {
		w.For = expect.Must
	}
	began := time.Now()
	v, err := run.Verify(ctx, run.Config{
		Plan: p, Fencing: run.FencingOn, Expect: expect, Command: "bin/fenceproof mutants --only " + m.Name, Runs: r.folder.path, Bin: bin,
		Watch: w, Out: io.Discard, Quiet: true,
	})
	if v != nil {
		r.compare(v.Versions)
	}
	return v, w, time.Since(began), err
}

// compare holds a run's versions against those of the runs before it.
func (r *runner) compare(versions map[string]string) {
	for what, now := range versions {
		switch before, ok := r.matrix.Versions[what]; {
		case !ok:
			r.matrix.Versions[what] = now
		case before != now:
			r.unlike = fmt.Errorf("a run was made with %s %s, and those before it with %s; put that back, or begin another matrix", what, now, before)
		}
	}
}

// healthyRun is the healthy build under m's plan and a seed, once for all mutants that share them. It has to pass, and
// every step of a script has to have had its effect: otherwise the same plan proves nothing about the mutant.
func (r *runner) healthyRun(ctx context.Context, bin string, m Mutant, seed uint64) (*Trial, error) {
	at, inputs := rowOf(m).control(seed), m.controlInputs()
	if c := r.controls[at]; c != nil && c.Inputs == inputs {
		return &c.Trial, nil
	}
	v, w, cost, err := r.verify(ctx, bin, m, seed, nil)
	t := Trial{Seed: seed, Outcome: Masked, Cost: cost}
	p, _ := m.plan(seed) // it was read before
	switch {
	case err != nil:
		t.Outcome, t.Why = NoVerdict, err.Error()
	case v.Exit != verdict.ExitPass:
		t.Outcome, t.Why = Dirty, v.Reason
	case w.Steps < len(p.Steps):
		t.Outcome, t.Why = Dirty, fmt.Sprintf("%d of the plan's %d steps had their effect", w.Steps, len(p.Steps))
	}
	if v != nil {
		t.Run, t.Steps, t.Met = v.ID, w.Steps, dangers(v)
	}
	if ctx.Err() != nil {
		return &t, nil
	}
	r.controls[at] = &Control{Plan: at.plan, With: at.with, Inputs: inputs, Trial: t}
	return &t, r.write()
}

// mutantRun is a mutant's build under its plan and a seed. An error is one of the matrix, and no outcome; when ctx has ended
// the trial is none.
func (r *runner) mutantRun(ctx context.Context, bin builds, m Mutant, seed uint64) (Trial, error) {
	c, err := r.healthyRun(ctx, bin.healthy, m, seed)
	if err != nil || ctx.Err() != nil {
		return Trial{}, err
	}
	why := c.Why
	if unmet := m.unmet(c.Met); c.Outcome == Masked && len(unmet) > 0 {
		why = "it has not met " + strings.Join(unmet, ", ")
	}
	if why != "" {
		return Trial{Seed: seed, Outcome: Dirty, Why: "the healthy build under the same plan and seed: " + why, Run: c.Run}, nil
	}
	var expect *verdict.Expectation
	if m.MaskedBy == "" {
		expect = &verdict.Expectation{Must: slices.Clone(m.Expect.Must), May: slices.Clone(m.Expect.May)}
	}
	v, w, cost, err := r.verify(ctx, bin.mutant, m, seed, expect)
	p, _ := m.plan(seed) // it was read before
	t := judge(m, len(p.Steps), v, w, err)
	t.Seed, t.Cost = seed, cost
	if v != nil {
		t.Run = v.ID
	}
	return t, nil
}

// report lists the controls in the order of their plans and seeds.
func (r *runner) report() []Control {
	var all []Control
	for _, c := range r.controls {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Control) int {
		return cmp.Or(strings.Compare(a.Plan, b.Plan), strings.Compare(a.With, b.With), cmp.Compare(a.Seed, b.Seed))
	})
	return all
}
