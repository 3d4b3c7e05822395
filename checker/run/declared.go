package run

import (
	"cmp"
	"slices"

	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"
)

// Declared is what the steps of a plan, or the nemeses that it is of, break on purpose, nil where they break nothing. By its name
// a plan without the step that it is about is none that passes. A store that was put back without care grants tokens twice; what
// else its tokens do wrong, within its life before or after, it does not explain. Payouts may not come to their ends in time
// then, while workers with a low token wait for the tokens to come past the fences again; where there is no fence nobody waits.
// A standby that nobody waited for may do the same, and does not where it lacks fewer tokens than a sequence is ahead of itself
// in the log.
func Declared(p plan.Plan) *verdict.Expectation {
	has := func(f plan.Fault) bool {
		return slices.Contains(p.Nemeses(), string(f)) || slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Fault == f })
	}
	x := &verdict.Expectation{Must: []string{}, Across: []string{"INV-04"}}
	switch {
	case has(plan.RestoreUnguarded):
		x.DeclaredBy, x.Must = string(plan.RestoreUnguarded), []string{"INV-04"}
	case has(plan.FailoverAsync):
		x.DeclaredBy, x.May = string(plan.FailoverAsync), []string{"INV-04"}
	default:
		return nil
	}
	if p.Workload != plan.LockWorkload {
		x.May, x.Across = append(x.May, "LIVE-01"), append(x.Across, "LIVE-01")
	}
	return x
}

// expecting is c with the expectation that its plan declares, where nobody gave another.
func (c Config) expecting() Config {
	c.Expect = cmp.Or(c.Expect, Declared(c.Plan))
	return c
}
