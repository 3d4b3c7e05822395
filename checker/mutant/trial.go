package mutant

import (
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

// Outcome is what became of a mutant, in one run or in all of them.
type Outcome string

// The outcomes. Only the first two are what they should be.
const (
	Killed     Outcome = "killed"            // all that had to fall fell, and nothing fell that may not
	Masked     Outcome = "masked"            // nothing fell, as its header says
	Survived   Outcome = "survived"          // something that had to fall did not
	Unexpected Outcome = "something else"    // something fell that may not
	Unmasked   Outcome = "not masked"        // its header says that nothing falls, and something did
	NoApply    Outcome = "does not apply"    // the sources have changed
	NoBuild    Outcome = "does not build"    //
	NoBoot     Outcome = "does not boot"     //
	Dirty      Outcome = "control not clean" // the healthy build did not pass under the same plan and seed
	NoVerdict  Outcome = "no verdict"        // the harness failed
)

// Good tells whether o is what a mutant should come to.
func (o Outcome) Good() bool { return o == Killed || o == Masked }

// Trial is one run of a mutant.
type Trial struct {
	Seed    uint64  `json:"seed,string"`
	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why,omitempty"` // in words, unless it is what it should be
	// Violated are the invariants that fell.
	Violated []string `json:"violated,omitempty"`
	// Detection is the time from the beginning of the drive until the last of those that had to fall was found violated;
	// Cost that of the whole run.
	Detection time.Duration `json:"detection"` // nanoseconds, as all durations here
	Cost      time.Duration `json:"cost"`
	Sentence  string        `json:"sentence,omitempty"` // of the first violation of the first invariant that had to fall
	// Steps is how many of the plan's steps had had their effect when the run ended: a kill ends it.
	Steps int    `json:"steps"`
	Run   string `json:"run,omitempty"` // the run's folder
	// Met are the dangers that came up, by their names, and how often.
	Met map[string]int64 `json:"met,omitempty"`
}

// runner runs builds under plans.
type runner struct {
	healthy  string // folder of the healthy binaries
	runs     string
	controls map[control]*Control
}

// control names a run of the healthy build.
type control struct {
	plan string
	seed uint64
	with string // the mutant of whose patch it has a part, "" for a build as it is
}

// builds are the folders of a mutant's binaries, and of those that it is compared with.
type builds struct{ mutant, healthy string }

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
		Plan: p, Fencing: run.FencingOn, Expect: expect, Command: "bin/fenceproof mutants --only " + m.Name, Runs: r.runs, Bin: bin,
		Watch: w, Out: io.Discard, Quiet: true,
	})
	return v, w, time.Since(began), err
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

// dangers are all that v counts, under all of its invariants.
func dangers(v *verdict.Run) map[string]int64 {
	all := map[string]int64{}
	for _, i := range v.Invariants {
		for name, n := range i.Danger {
			all[name] = max(all[name], n)
		}
	}
	return all
}

// judge says what one run of a mutant, under a plan of so many steps, has come to.
func judge(m Mutant, steps int, v *verdict.Run, w *run.Watch, err error) Trial {
	switch {
	case errors.Is(err, run.ErrBoot):
		return Trial{Outcome: NoBoot, Why: err.Error()}
	case err != nil:
		return Trial{Outcome: NoVerdict, Why: err.Error()}
	}
	t := Trial{Run: v.ID, Steps: w.Steps, Met: dangers(v)}
	for _, i := range v.Invariants {
		if i.Status != verdict.Violated {
			continue
		}
		t.Violated = append(t.Violated, i.ID)
		if len(m.Expect.Must) > 0 && i.ID == m.Expect.Must[0] && len(i.Violations) > 0 {
			t.Sentence = i.Violations[0].Sentence
		}
	}
	if m.MaskedBy != "" {
		t.Outcome, t.Why = masked(m, steps, v, t)
		return t
	}
	x := m.Expect
	x.Evaluate(v.Invariants)
	switch {
	case len(x.Surplus) > 0:
		t.Outcome, t.Why = Unexpected, strings.Join(x.Surplus, ", ")+" fell, which may not"
	case len(x.Missing) > 0 && slices.ContainsFunc(v.Invariants, func(i verdict.Invariant) bool {
		return i.Status == verdict.Inconclusive && slices.Contains(x.Missing, i.ID)
	}):
		t.Outcome, t.Why = NoVerdict, v.Reason
	case len(x.Missing) > 0:
		t.Outcome, t.Why = Survived, strings.Join(x.Missing, ", ")+" did not fall"
	default:
		t.Outcome = Killed
		for _, id := range m.Expect.Must {
			t.Detection = max(t.Detection, w.Found[id])
		}
	}
	return t
}

// masked says what a run of a masked mutant has come to. That nothing fell shows something only where the run was put to
// the test: every step of its plan had its effect, and the dangers that the mask guards against were met.
func masked(m Mutant, steps int, v *verdict.Run, t Trial) (o Outcome, why string) {
	switch unmet := m.unmet(t.Met); {
	case len(t.Violated) > 0:
		return Unmasked, v.Reason
	case v.Exit != verdict.ExitPass:
		return NoVerdict, v.Reason
	case t.Steps < steps:
		return NoVerdict, fmt.Sprintf("nothing fell, but %d of the plan's %d steps had their effect", t.Steps, steps)
	case len(unmet) > 0:
		return NoVerdict, "nothing fell, but it has not met " + strings.Join(unmet, ", ")
	}
	return Masked, ""
}
