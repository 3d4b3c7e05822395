package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// generator makes the steps of one nemesis for the load of p, from p's seed and nothing else. Each draws from a stream of
// its own, so that a mix holds the very steps of its parts.
type generator struct {
	name  string
	steps func(p Plan) ([]Step, error)
}

// generators are all nemeses that a plan can be generated for: another one is a file with its steps, and a line here.
func generators() []generator {
	return []generator{
		{string(Pause), pauses},
		{string(Kill), kills},
		{Partition, partitions},
		{string(Slow), slowness},
		{Flaky, flakiness},
		{string(Revoke), revokes},
		{Sweep, sweeps},
		{string(Clock), clocks},
		{string(DiskFull), diskFulls},
		{string(Restore), restores},
		{string(RestoreUnguarded), unguardedRestores},
		{string(Failover), failovers},
		{string(FailoverAsync), asynchronousFailovers},
	}
}

// None is the nemesis of a run in which nothing is broken.
const None = "none"

// Names lists the nemeses that Generate knows.
func Names() []string {
	names := []string{None}
	for _, g := range generators() {
		names = append(names, g.name)
	}
	return names
}

// Nemeses are the nemeses of p: one, or several at once, which p.Nemesis names with commas between them.
func (p Plan) Nemeses() []string { return strings.Split(p.Nemesis, ",") }

// validateNemesis says what is wrong with the nemeses of p.
func (p Plan) validateNemesis() error {
	names := p.Nemeses()
	for i, name := range names {
		if err := known("nemesis", name, append(Names(), Script)); err != nil {
			return err
		}
		switch {
		case len(names) > 1 && (name == None || name == Script):
			return fmt.Errorf("nemesis %s stands alone, and here it is one of %s", name, p.Nemesis)
		case slices.Contains(names[:i], name):
			return fmt.Errorf("nemesis %s stands there twice: %s", name, p.Nemesis)
		}
	}
	return p.validateMix()
}

// Generate fills in the steps of p for its nemeses, from its seed and nothing else. Where two of a mix would hit the same
// target at the same time, one of them gives way. Whether it refuses depends on everything but the seed.
func Generate(p Plan) (Plan, error) {
	p.Schema = Schema
	if err := errors.Join(append(p.validateLoad(), p.validateRoom())...); err != nil {
		return Plan{}, err
	}
	if p.Nemesis == Script {
		return Plan{}, fmt.Errorf("nemesis %s is written by hand; give the plan's file", Script)
	}
	if p.Nemesis != None {
		n, noun := p.holders()
		if p.Together = min(p.atOnce(), n-1); p.Together < 1 {
			return Plan{}, fmt.Errorf("nemesis %s with %d of the %s: nobody would be left to take over; use at least 2", p.Nemesis, n, noun)
		}
	}
	if slices.Contains(p.Nemeses(), Sweep) {
		p = sweepable(p)
	}
	for _, g := range generators() {
		if !slices.Contains(p.Nemeses(), g.name) {
			continue
		}
		steps, err := g.steps(p)
		if err != nil {
			return Plan{}, fmt.Errorf("nemesis %s: %w", g.name, err)
		}
		p.Steps = append(p.Steps, steps...)
	}
	slices.SortStableFunc(p.Steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	all := len(p.Steps)
	p.Steps = p.untangled()
	p.GivenWay = all - len(p.Steps)
	return p, errors.Join(p.validateMet(), p.Validate())
}
