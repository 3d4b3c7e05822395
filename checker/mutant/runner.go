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
	known  []Mutant // those whose controls stay in the matrix
	build  Builder
	began  time.Time
	before time.Duration // cost of the parts before this one

	healthy  string // folder of the healthy binaries, "" until they are built
	controls map[control]*Control
	unlike   error // that a run was made with other versions than those before
}

func newRunner(o Options, d *folder, m *Matrix, known []Mutant, b Builder, began time.Time) *runner {
	m.refresh(known)
	r := &runner{Options: o, folder: d, matrix: m, known: known, build: b, began: began, before: m.Cost, controls: map[control]*Control{}}
	for _, c := range m.Controls {
		if c.Run != "" { // else the harness failed before there was a run
			r.controls[control{plan: c.Plan, seed: c.Seed, with: c.With}] = &c
		}
	}
	return r
}

// write puts what was run so far into the folder.
func (r *runner) write() error {
	r.matrix.Controls = r.report()
	return r.folder.write(r.matrix)
}

// row builds one mutant and runs it under those of its seeds that it was not run under before.
func (r *runner) row(ctx context.Context, x Mutant) (err error) {
	seeds := x.Seeds
	if r.Seeds > 0 {
		seeds = seeds[:min(r.Seeds, len(seeds))]
	}
	row := r.matrix.begun(x, seeds)
	if len(row.Trials) >= len(seeds) {
		fmt.Fprintf(r.Out, "%-32s was run before: %s\n", x.Name, row.summary())
		r.matrix.put(row)
		return nil
	}
	if err := r.first(ctx); err != nil {
		return err
	}
	began := time.Now()
	bin, err := r.builds(ctx, x)
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
	for _, seed := range seeds[len(row.Trials):] {
		t := r.mutantRun(ctx, bin, x, seed)
		if ctx.Err() != nil {
			return nil
		}
		row.Trials, row.Cost = append(row.Trials, t), row.Cost+t.Cost
		row.conclude()
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
func (r *runner) healthyRun(ctx context.Context, bin string, m Mutant, seed uint64) *Trial {
	at, inputs := rowOf(m).control(seed), m.controlInputs()
	if c := r.controls[at]; c != nil && c.Inputs == inputs {
		return &c.Trial
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
	if ctx.Err() == nil {
		r.controls[at] = &Control{Plan: at.plan, With: at.with, Inputs: inputs, Trial: t}
	}
	return &t
}

// mutantRun is a mutant's build under its plan and a seed.
func (r *runner) mutantRun(ctx context.Context, bin builds, m Mutant, seed uint64) Trial {
	c := r.healthyRun(ctx, bin.healthy, m, seed)
	why := c.Why
	if unmet := m.unmet(c.Met); c.Outcome == Masked && len(unmet) > 0 {
		why = "it has not met " + strings.Join(unmet, ", ")
	}
	if why != "" {
		return Trial{Seed: seed, Outcome: Dirty, Why: "the healthy build under the same plan and seed: " + why, Run: c.Run}
	}
	var expect *verdict.Expectation
	if m.MaskedBy == "" {
		expect = &verdict.Expectation{Must: slices.Clone(m.Expect.Must), May: slices.Clone(m.Expect.May)}
	}
	v, w, cost, err := r.verify(ctx, bin.mutant, m, seed, expect)
	p, _ := m.plan(seed) // it was read before
	t := judge(m, len(p.Steps), v, w, err)
	t.Seed, t.Cost = seed, cost
	return t
}

// keep puts a row with a new outcome into the matrix, unless what it was run with is not what all others were.
func (r *runner) keep(row Row) error {
	if err := errors.Join(r.unlike, r.matrix.Sources.same(r.Root)); err != nil {
		return err
	}
	r.matrix.put(row)
	r.matrix.Cost = r.before + time.Since(r.began)
	return r.write()
}

// report lists the controls in the order of their plans and seeds: all that a mutant, as it is now, could be compared with,
// whether it was run or not. What is known of the healthy build is not forgotten.
func (r *runner) report() []Control {
	var all []Control
	listed := map[control]bool{}
	for _, x := range r.known {
		for _, seed := range x.Seeds {
			at := rowOf(x).control(seed)
			if c := r.controls[at]; c != nil && c.Inputs == x.controlInputs() && !listed[at] {
				listed[at] = true
				all = append(all, *c)
			}
		}
	}
	slices.SortFunc(all, func(a, b Control) int {
		return cmp.Or(strings.Compare(a.Plan, b.Plan), strings.Compare(a.With, b.With), cmp.Compare(a.Seed, b.Seed))
	})
	return all
}
