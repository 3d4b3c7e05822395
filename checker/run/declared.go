package run

import (
	"cmp"
	"slices"

	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"
)

// declared is what the steps of a plan break on purpose, nil where they break nothing: such a run is judged as a negative
// control is. A store that was put back without care grants tokens twice. Workers may not come to an end in time then:
// with a low token they are late from the start, and wait for the tokens to come past the fences again.
func declared(p plan.Plan) *verdict.Expectation {
	if !slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Fault == plan.RestoreUnguarded }) {
		return nil
	}
	return &verdict.Expectation{DeclaredBy: string(plan.RestoreUnguarded), Must: []string{"INV-04"}, May: []string{"LIVE-01"}}
}

// expecting is c with the expectation that its plan declares, where nobody gave another.
func (c Config) expecting() Config {
	c.Expect = cmp.Or(c.Expect, declared(c.Plan))
	return c
}
