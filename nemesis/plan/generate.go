package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// generator makes the steps of one nemesis for the load of p, from p's seed and nothing else. Each draws from a stream of
// its own, so that a mix holds the very steps of its parts.
type generator struct {
	name  string
	steps func(p Plan) ([]Step, error)
	makes []Fault // what its steps do, and nothing else
}

// generators are all nemeses that a plan can be generated for: another one is a file with its steps, and a line here.
func generators() []generator {
	return []generator{
		{string(Pause), pauses, []Fault{Pause}},
		{string(Kill), kills, []Fault{Kill}},
		{Partition, partitions, []Fault{Cut, Hold}},
		{string(Slow), slowness, []Fault{Slow}},
		{Flaky, flakiness, []Fault{Delay, Drop, Duplicate, Reorder, Reset}},
		{string(Revoke), revokes, []Fault{Revoke}},
		{Sweep, sweeps, []Fault{Delay, Drop, Duplicate}},
		{string(Clock), clocks, []Fault{Clock}},
		{string(DiskFull), diskFulls, []Fault{DiskFull}},
		{string(Restore), restores, []Fault{Restore}},
		{string(RestoreUnguarded), unguardedRestores, []Fault{RestoreUnguarded}},
		{string(Failover), failovers, []Fault{Failover}},
		{string(FailoverAsync), asynchronousFailovers, []Fault{FailoverAsync}},
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

// validateFaults refuses steps that no nemesis of p makes: their run would stand under a name that says something else.
func (p Plan) validateFaults() error {
	foreign := map[Fault]bool{}
	for _, s := range p.Steps {
		if slices.Contains(Faults(), s.Fault) {
			foreign[s.Fault] = true
		}
	}
	for _, name := range p.Nemeses() {
		if !slices.Contains(Names(), name) { // one of their own, or one that is not known, which is said already
			return nil
		}
	}
	for _, g := range generators() {
		if slices.Contains(p.Nemeses(), g.name) {
			maps.DeleteFunc(foreign, func(f Fault, _ bool) bool { return slices.Contains(g.makes, f) })
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	return fmt.Errorf("nemesis %s has steps of another kind (%s); a plan of your own is of nemesis %s", p.Nemesis, joined(slices.Sorted(maps.Keys(foreign))), Script)
}

func joined(faults []Fault) string {
	words := make([]string, len(faults))
	for i, f := range faults {
		words[i] = string(f)
	}
	return strings.Join(words, ", ")
}

// Generate fills in the steps of p for its nemeses, from its seed and nothing else. Where two of a mix would hit the same
// target at the same time, one of them gives way. What it refuses before it draws, it refuses under every seed. What was
// drawn is checked as well, for what a pass needs and for what a plan must be, and that may depend on the seed: whoever asks
// under one seed and runs under others asks again for each.
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
