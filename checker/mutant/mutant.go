// Package mutant proves that the suite can see. A mutant is a deliberately broken build of the system: one patch file
// that says what it breaks, under which plan that shows, and which invariants must fall then. It is built with
// go build -overlay, so that the product holds no switch for it. The same plan and seed on the healthy build must pass.
//
// The system's sources are files to this package, nothing that it imports.
package mutant

import (
	"bufio"
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"net/textproto"
	"path"
	"slices"
	"strconv"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/run"
	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

//go:embed patches/*.patch
var patches embed.FS

//go:embed plans/*.json
var plans embed.FS

// Mutant is one broken build.
type Mutant struct {
	Name     string   // of its file, without .patch
	Title    string   // what it is, in a few words
	Breaks   string   // what goes wrong with it
	Source   string   // where such a mistake is warned of, or was made
	Services []string // the binaries that are built from it
	Plan     string   // the name of the plan that exposes it
	Seeds    []uint64
	// Expect is what must fall and what may. Nothing must fall where another guard masks the mistake.
	Expect verdict.Expectation
	// MaskedBy is the guard that keeps the mistake from having an effect, "" where nothing does; Unmasked is then the
	// mutant without that guard as well.
	MaskedBy, Unmasked string
	// Meets are dangers, by the names that the verdict counts them under, without which a run shows nothing: the healthy
	// build has to have met each of them, and the mutant as well where nothing falls.
	Meets []string
	// ControlHas are files of the patch that the healthy build is made with, too. They break nothing; they bring the system
	// to where the rest of the patch does.
	ControlHas []string

	files []*gitdiff.File
	text  []byte // the patch file as it is
}

// binaries lists the programs that a mutant can be a build of: the services, and the operator's.
var binaries = []string{"lock-server", "payment-resource", "rail-proxy", "rail-stub", "payout-executor", "reconciler", "lockctl"}

// All reads every mutant, in the order of their names.
func All() ([]Mutant, error) { return read(patches) }

// read reads the mutants of a folder patches.
func read(from fs.FS) ([]Mutant, error) {
	names, err := fs.Glob(from, "patches/*.patch")
	if err != nil {
		return nil, fmt.Errorf("list the mutants: %w", err)
	}
	var all []Mutant
	for _, name := range names {
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, fmt.Errorf("read mutant %s: %w", name, err)
		}
		m, err := parse(strings.TrimSuffix(path.Base(name), ".patch"), text)
		if err != nil {
			return nil, fmt.Errorf("mutant %s: %w", name, err)
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Mutant) int { return strings.Compare(a.Name, b.Name) }) // that of the files' names is another
	for _, m := range all {
		if m.Unmasked != "" && !slices.ContainsFunc(all, func(o Mutant) bool { return o.Name == m.Unmasked && o.MaskedBy == "" }) {
			return nil, fmt.Errorf("mutant %s: %q is no mutant without a mask", m.Name, m.Unmasked)
		}
	}
	return all, nil
}

// Select finds the mutants that only names, separated by commas; all of them where it is empty. A masked mutant brings
// the one without the mask along.
func Select(all []Mutant, only string) ([]Mutant, error) {
	if only == "" {
		return all, nil
	}
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.Name
	}
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(only, ",") {
		name = strings.TrimSpace(name)
		i := slices.Index(names, name)
		if i < 0 {
			return nil, fmt.Errorf("%q is no mutant%s", name, contract.Meant(name, names))
		}
		wanted[name] = true
		wanted[all[i].Unmasked] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(m Mutant) bool { return !wanted[m.Name] }), nil
}

// parse reads a patch file: a header as in a mail, an empty line, and the differences.
func parse(name string, text []byte) (Mutant, error) {
	r := bufio.NewReader(bytes.NewReader(text))
	h, err := textproto.NewReader(r).ReadMIMEHeader()
	if err != nil {
		return Mutant{}, fmt.Errorf("read its header: %w", err)
	}
	m := Mutant{Name: name, text: text}
	fields := map[string]func(string) error{
		"Title":  func(v string) error { m.Title = v; return nil },
		"Breaks": func(v string) error { m.Breaks = v; return nil },
		"Source": func(v string) error { m.Source = v; return nil },
		"Service": func(v string) error {
			m.Services = words(v)
			for _, s := range m.Services {
				if !slices.Contains(binaries, s) {
					return fmt.Errorf("%q is no service%s", s, contract.Meant(s, binaries))
				}
			}
			return nil
		},
		"Plan":      func(v string) error { m.Plan = v; return nil },
		"Seeds":     func(v string) (err error) { m.Seeds, err = numbers(v); return err },
		"Must-Fall": func(v string) (err error) { m.Expect.Must, err = invariants(v); return err },
		"May-Fall":  func(v string) (err error) { m.Expect.May, err = invariants(v); return err },
		"Masked-By": func(v string) error { m.MaskedBy = v; return nil },
		"Unmasked":  func(v string) error { m.Unmasked = v; return nil },

		"Meets":       func(v string) error { m.Meets = words(v); return nil },
		"Control-Has": func(v string) error { m.ControlHas = words(v); return nil },
	}
	for key, values := range h {
		set, ok := fields[key]
		switch {
		case !ok:
			known := make([]string, 0, len(fields))
			for k := range fields {
				known = append(known, k)
			}
			slices.Sort(known)
			return Mutant{}, fmt.Errorf("%q is no field of its header%s", key, contract.Meant(key, known))
		case len(values) != 1:
			return Mutant{}, fmt.Errorf("its header has %s twice", key)
		}
		if err := set(values[0]); err != nil {
			return Mutant{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	if err := m.complete(); err != nil {
		return Mutant{}, err
	}
	var preamble string
	if m.files, preamble, err = gitdiff.Parse(r); err != nil {
		return Mutant{}, fmt.Errorf("read the differences: %w", err)
	}
	if strings.TrimSpace(preamble) != "" || len(m.files) == 0 {
		return Mutant{}, fmt.Errorf("after the header there must be differences and nothing else, not %q", preamble)
	}
	return m, m.controllable()
}

// controllable says what is wrong with what the healthy build is to have of the patch.
func (m Mutant) controllable() error {
	names := make([]string, len(m.files))
	for i, f := range m.files {
		names[i] = f.OldName
	}
	for _, f := range m.ControlHas {
		if !slices.Contains(names, f) {
			return fmt.Errorf("Control-Has: %q is no file of the patch%s", f, contract.Meant(f, names))
		}
	}
	if len(m.ControlHas) >= len(m.files) {
		return fmt.Errorf("Control-Has: with all of the patch the healthy build would be the mutant")
	}
	return nil
}

// control is what the healthy build has of the patch.
func (m Mutant) control() Mutant {
	m.files = slices.DeleteFunc(slices.Clone(m.files), func(f *gitdiff.File) bool { return !slices.Contains(m.ControlHas, f.OldName) })
	m.Name += "-control"
	return m
}

// unmet is which of the dangers that m has to meet were not met.
func (m Mutant) unmet(met map[string]int64) []string {
	return slices.DeleteFunc(slices.Clone(m.Meets), func(name string) bool { return met[name] > 0 })
}

// complete says what the header lacks.
func (m Mutant) complete() error {
	for field, v := range map[string]string{"Title": m.Title, "Breaks": m.Breaks, "Source": m.Source, "Plan": m.Plan} {
		if v == "" {
			return fmt.Errorf("its header has no %s", field)
		}
	}
	switch {
	case len(m.Services) == 0:
		return fmt.Errorf("its header has no Service")
	case len(m.Seeds) == 0:
		return fmt.Errorf("its header has no Seeds")
	case (m.MaskedBy == "") != (m.Unmasked == ""):
		return fmt.Errorf("Masked-By and Unmasked go together: a guard that masks a mistake needs the mutant without it")
	case (m.MaskedBy == "") == (len(m.Expect.Must) == 0):
		return fmt.Errorf("it needs either Must-Fall or, where another guard masks it, Masked-By")
	case m.MaskedBy != "" && len(m.Expect.May) > 0:
		return fmt.Errorf("a masked mutant breaks nothing, so nothing may fall")
	}
	_, err := m.plan(m.Seeds[0])
	return err
}

// plan is the mutant's plan under a seed.
func (m Mutant) plan(seed uint64) (plan.Plan, error) {
	text, err := fs.ReadFile(plans, m.planFile())
	if err != nil {
		return plan.Plan{}, fmt.Errorf("read its plan: %w", err)
	}
	p, err := planOf(text, seed)
	if err != nil {
		return plan.Plan{}, fmt.Errorf("read its plan %s: %w", m.Plan, err)
	}
	return p, nil
}

// planOf is the plan that text says, under a seed. One without steps whose nemesis is one of the generated ones is filled in from
// the seed. One that breaks an invariant on purpose is refused: whatever the mutant does, its nemesis would kill it.
func planOf(text []byte, seed uint64) (plan.Plan, error) {
	p, err := plan.Parse(text)
	if err != nil {
		return plan.Plan{}, err
	}
	if x := run.Declared(p); x != nil {
		return plan.Plan{}, fmt.Errorf("its nemesis %s violates %s of a healthy build as well, so a mutant that falls there is not killed by it: take a plan that breaks nothing on purpose", x.DeclaredBy, x)
	}
	p.Seed = seed
	if p.Nemesis != plan.Script && len(p.Steps) == 0 {
		return plan.Generate(p)
	}
	return p, nil
}

// planFile is where the mutant's plan is among the plans.
func (m Mutant) planFile() string { return "plans/" + m.Plan + ".json" }

func words(v string) []string {
	return strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
}

func numbers(v string) ([]uint64, error) {
	var all []uint64
	for _, w := range words(v) {
		n, err := strconv.ParseUint(w, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no seed", w)
		}
		all = append(all, n)
	}
	return all, nil
}

func invariants(v string) ([]string, error) {
	all := words(v)
	for _, id := range all {
		if !slices.Contains(verdict.IDs(), id) {
			return nil, fmt.Errorf("%q is no invariant%s", id, contract.Meant(id, verdict.IDs()))
		}
	}
	return all, nil
}
