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
	Run       string        `json:"run,omitempty"`      // the run's folder
}

// runner runs builds under plans.
type runner struct {
	healthy  string // folder of the healthy binaries
	runs     string
	controls map[control]*Trial
}

// control names a run of the healthy build.
type control struct {
	plan string
	seed uint64
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
		Plan: p, Fencing: run.FencingOn, Expect: expect, Command: "bin/fenceproof mutants --only " + m.Name, Runs: r.runs, Bin: bin,
		Watch: w, Out: io.Discard, Quiet: true,
	})
	return v, w, time.Since(began), err
}

// healthyRun is the healthy build under m's plan and a seed, once for all mutants that share them. It has to pass, and
// every step of a script has to have had its effect: otherwise the same plan proves nothing about the mutant.
func (r *runner) healthyRun(ctx context.Context, m Mutant, seed uint64) *Trial {
	c := control{m.Plan, seed}
	if t := r.controls[c]; t != nil {
		return t
	}
	v, w, cost, err := r.verify(ctx, r.healthy, m, seed, nil)
	t := &Trial{Seed: seed, Outcome: Masked, Cost: cost}
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
		t.Run = v.ID
	}
	if ctx.Err() == nil {
		r.controls[c] = t
	}
	return t
}

// mutantRun is a mutant's build under its plan and a seed.
func (r *runner) mutantRun(ctx context.Context, bin string, m Mutant, seed uint64) Trial {
	if c := r.healthyRun(ctx, m, seed); c.Outcome != Masked {
		return Trial{Seed: seed, Outcome: Dirty, Why: "the healthy build under the same plan and seed: " + c.Why, Run: c.Run}
	}
	var expect *verdict.Expectation
	if m.MaskedBy == "" {
		expect = &verdict.Expectation{Must: slices.Clone(m.Expect.Must), May: slices.Clone(m.Expect.May)}
	}
	v, w, cost, err := r.verify(ctx, bin, m, seed, expect)
	t := judge(m, v, w, err)
	t.Seed, t.Cost = seed, cost
	return t
}

// judge says what one run of a mutant has come to.
func judge(m Mutant, v *verdict.Run, w *run.Watch, err error) Trial {
	switch {
	case errors.Is(err, run.ErrBoot):
		return Trial{Outcome: NoBoot, Why: err.Error()}
	case err != nil:
		return Trial{Outcome: NoVerdict, Why: err.Error()}
	}
	t := Trial{Run: v.ID}
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
		t.Outcome = Masked
		if v.Exit != verdict.ExitPass {
			t.Outcome, t.Why = Unmasked, v.Reason
		}
		return t
	}
	x := m.Expect
	x.Evaluate(v.Invariants)
	switch {
	case len(x.Surplus) > 0:
		t.Outcome, t.Why = Unexpected, strings.Join(x.Surplus, ", ")+" fell, which may not"
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
