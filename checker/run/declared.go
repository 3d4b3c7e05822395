package run

import (
	"cmp"
	"slices"

	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"
)

// declared is what the steps of a plan, or the nemeses that it is of, break on purpose, nil where they break nothing: such a run is
// judged as a negative control is. By its name a plan without the step that it is about is none that passes. A store that was
// put back without care grants tokens twice; what else its tokens do wrong, within its life before or after, it does not
// explain. Workers may not come to an end in time then: with a low token they are late from the start, and wait for the tokens
// to come past the fences again. A standby that nobody waited for may do the same, and does not where it lacks fewer tokens
// than a sequence is ahead of itself in the log.
func declared(p plan.Plan) *verdict.Expectation {
	has := func(f plan.Fault) bool {
		return slices.Contains(p.Nemeses(), string(f)) || slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Fault == f })
	}
	switch {
	case has(plan.RestoreUnguarded):
		return &verdict.Expectation{DeclaredBy: string(plan.RestoreUnguarded), Must: []string{"INV-04"}, May: []string{"LIVE-01"}, Across: []string{"INV-04"}}
	case has(plan.FailoverAsync):
		return &verdict.Expectation{DeclaredBy: string(plan.FailoverAsync), Must: []string{}, May: []string{"INV-04", "LIVE-01"}, Across: []string{"INV-04"}}
	}
	return nil
}

// unnamed tells whether something was violated that x does not name, or not so: nobody has asked for that.
func unnamed(invariants []verdict.Invariant, x *verdict.Expectation) bool {
	return slices.ContainsFunc(invariants, func(inv verdict.Invariant) bool { return !x.Excuses(inv) })
}

// expecting is c with the expectation that its plan declares, where nobody gave another.
func (c Config) expecting() Config {
	c.Expect = cmp.Or(c.Expect, declared(c.Plan))
	return c
}
