package verdict

import (
	"fmt"
	"slices"
	"strings"

	"fenceproof/checker/contract"
)

// IDs lists all invariants that an expectation can name. A run judges those that its workload can exercise; one that
// must be violated and is not judged is missing; who asks for it is refused.
func IDs() []string {
	return []string{"INV-01", "INV-02", "INV-03", "INV-04", "INV-05", "INV-06", "INV-07", "INV-08", "LIVE-01", "SDK-01", "DUR-01", "LIN-01", "POOL-01", "POOL-02"}
}

// ParseExpectation reads what a negative control has to violate: ids separated by commas, each with a "?" where it may be
// violated but need not, for example "INV-02,INV-05,INV-03?". An error names the id that was probably meant.
func ParseExpectation(s string) (Expectation, error) {
	var x Expectation
	for field := range strings.SplitSeq(s, ",") {
		id := strings.ToUpper(strings.TrimSpace(field))
		id, may := strings.CutSuffix(id, "?")
		switch {
		case id == "":
			return Expectation{}, fmt.Errorf("read the expectation %q: an invariant's id is missing; write it like INV-02,INV-05,INV-03?", s)
		case !slices.Contains(IDs(), id):
			return Expectation{}, fmt.Errorf("read the expectation %q: %q is no invariant%s", s, strings.TrimSpace(field), contract.Meant(id, IDs()))
		case slices.Contains(x.Must, id) || slices.Contains(x.May, id):
			return Expectation{}, fmt.Errorf("read the expectation %q: %s stands there twice", s, id)
		case may:
			x.May = append(x.May, id)
		default:
			x.Must = append(x.Must, id)
		}
	}
	if len(x.Must) == 0 {
		return Expectation{}, fmt.Errorf("read the expectation %q: at least one invariant must be violated, so one needs to stand there without a ?", s)
	}
	return x, nil
}

// String is x as ParseExpectation reads it.
func (x *Expectation) String() string {
	parts := slices.Clone(x.Must)
	for _, id := range x.May {
		parts = append(parts, id+"?")
	}
	return strings.Join(parts, ",")
}

// Evaluate compares x with what was violated and fills in Met, Missing and Surplus.
func (x *Expectation) Evaluate(invariants []Invariant) {
	x.Missing, x.Surplus = nil, nil
	violated := map[string]bool{}
	for _, inv := range invariants {
		if inv.Status != Violated {
			continue
		}
		violated[inv.ID] = !slices.Contains(x.Across, inv.ID) || inv.Across > 0
		if !x.Excuses(inv) {
			x.Surplus = append(x.Surplus, inv.ID)
		}
	}
	for _, id := range x.Must {
		if !violated[id] {
			x.Missing = append(x.Missing, id)
		}
	}
	x.Met = len(x.Missing) == 0 && len(x.Surplus) == 0
}

// Names tells whether id must or may be violated.
func (x *Expectation) Names(id string) bool {
	return x != nil && (slices.Contains(x.Must, id) || slices.Contains(x.May, id))
}

// Excuses tells whether x names all that was found of inv, which is violated. It excuses nothing where it is nil.
func (x *Expectation) Excuses(inv Invariant) bool {
	return x.Names(inv.ID) && (!slices.Contains(x.Across, inv.ID) || inv.Found == inv.Across)
}

// beyond is the first violation of a named invariant that x does not excuse, in a sentence; "" where there is none.
func (x *Expectation) beyond(invariants []Invariant) string {
	for _, inv := range invariants {
		if inv.Status != Violated || !x.Names(inv.ID) || x.Excuses(inv) {
			continue
		}
		told := fmt.Sprintf("%s is violated %s of %d where %s is no reason for it", inv.ID, plural(inv.Found-inv.Across, "time"), inv.Found, x.DeclaredBy)
		if n := slices.IndexFunc(inv.Violations, func(v Violation) bool { return !v.Across }); n >= 0 {
			told += ": " + inv.Violations[n].Sentence
		}
		return told
	}
	return ""
}

// control tells whether x is a negative control's: somebody asked to see what falls.
func (x *Expectation) control() bool { return x != nil && x.DeclaredBy == "" }

// exit is the exit status of a run with an expectation, and the sentence for it. Where it is met, a control needs that what
// it does not name has passed besides: a fence point that was left on has to have refused. That nobody can know yet how
// something would have ended, with all the evidence there, is no objection: a control asks what falls. Where a nemesis
// declares what it breaks, everything that was not violated must have passed, what it may break included: nothing says
// otherwise that the danger was met and that anybody can know. What fell as it declares is asked for the dangers of a pass as
// well: in a mix those are another nemesis' too, and that one may have done nothing.
func (x *Expectation) exit(invariants []Invariant, s Settings) (int, string) {
	switch {
	case len(x.Surplus) > 0 && x.beyond(invariants) != "":
		told := x.beyond(invariants)
		if others := slices.DeleteFunc(slices.Clone(x.Surplus), x.Names); len(others) > 0 {
			told = fmt.Sprintf("%s violated, which the expectation %s does not name; besides, %s", strings.Join(others, ", "), x, told)
		}
		return ExitViolated, told
	case len(x.Surplus) > 0:
		return ExitViolated, fmt.Sprintf("%s violated, which the expectation %s does not name", strings.Join(x.Surplus, ", "), x)
	case len(x.Missing) > 0 && x.DeclaredBy != "":
		return ExitOpen, fmt.Sprintf("%s not violated, although %s breaks it on purpose", strings.Join(x.Missing, ", "), x.DeclaredBy)
	case len(x.Missing) > 0:
		return ExitOpen, fmt.Sprintf("%s not violated, as the expectation %s asks for", strings.Join(x.Missing, ", "), x)
	}
	for _, inv := range invariants {
		if inv.Status != Pass && inv.Status != Violated && !x.bears(inv) {
			return ExitOpen, fmt.Sprintf("nothing but what the expectation names was violated (%s), but %s is %s: %s", x, inv.ID, inv.Status, inv.Reason)
		}
	}
	if idle := x.idle(invariants, s); idle != "" {
		return ExitOpen, idle
	}
	return ExitPass, x.met(invariants)
}

// idle says which danger of a pass was not met by what fell as a nemesis declares; "" where there is none.
func (x *Expectation) idle(invariants []Invariant, s Settings) string {
	for _, inv := range invariants {
		if short := lacking(inv, s); inv.Status == Violated && !x.control() && len(short) > 0 {
			return fmt.Sprintf("%s fell as %s declares (%s), but is %s otherwise: %s", inv.ID, x.DeclaredBy, x, NotExercised, strings.Join(short, "; "))
		}
	}
	return ""
}

// bears tells whether inv, which neither passed nor was violated, is no objection.
func (x *Expectation) bears(inv Invariant) bool {
	return x.control() && (x.Names(inv.ID) || inv.Status == Inconclusive && inv.Doubt != "")
}

// met is the sentence of an expectation that was met. What a nemesis has broken on purpose is told with it: that it was
// found, and how, is what such a run is about, and so is how much was lost.
func (x *Expectation) met(invariants []Invariant) string {
	if x.DeclaredBy == "" {
		return fmt.Sprintf("violated exactly as expected (%s)", x)
	}
	told := x.declared(invariants)
	if lost := Losses(invariants); lost != "" {
		told += "; " + lost
	}
	return told
}

// declared says which of what a nemesis declares was found.
func (x *Expectation) declared(invariants []Invariant) string {
	told := fmt.Sprintf("nothing was violated, although %s may break something (%s)", x.DeclaredBy, x)
	for _, inv := range invariants {
		if inv.Status != Violated {
			continue
		}
		told = fmt.Sprintf("violated as %s declares (%s)", x.DeclaredBy, x)
		if len(inv.Violations) > 0 && (len(x.Must) == 0 || slices.Contains(x.Must, inv.ID)) {
			return told + ": " + inv.Violations[0].Sentence
		}
	}
	return told
}
