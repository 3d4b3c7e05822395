package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fenceproof/checker/history"
)

// Decide gives inv its status and the reason for it. missing says which of the witnesses that the invariant rests on are
// not whole, and why. A violation that was found stays one, whatever is missing.
func Decide(inv Invariant, missing map[history.Witness]string, s Settings) Invariant {
	switch {
	case inv.Found > 0:
		inv.Status = Violated
		inv.Reason = fmt.Sprintf("%s found", plural(inv.Found, "violation"))
		if len(inv.Violations) > 0 {
			inv.Reason = inv.Violations[0].Sentence
		}
	case len(missing) > 0:
		inv.Status, inv.Reason = Inconclusive, notWhole(missing)
	case len(inv.Unrecorded) > 0:
		inv.Status, inv.Reason = NotExercised, notRecorded(inv.Unrecorded)
	case inv.Doubt != "":
		inv.Status, inv.Reason = Inconclusive, inv.Doubt
	case inv.Checked == 0:
		inv.Status, inv.Reason = NotExercised, "the history holds nothing that it could be judged by"
	default:
		inv.Status, inv.Reason = Pass, ""
		if short := lacking(inv, s); len(short) > 0 {
			inv.Status, inv.Reason = NotExercised, strings.Join(short, "; ")
		}
	}
	return inv
}

// notWhole says of each witness why it is not whole, of several at once where the reason is the same.
func notWhole(missing map[history.Witness]string) string {
	var parts []string
	for _, g := range ByReason(missing) {
		noun := "witness"
		if len(g.Witnesses) > 1 {
			noun = "witnesses"
		}
		parts = append(parts, fmt.Sprintf("the evidence of the %s %s is not whole: %s", strings.Join(g.Witnesses, ", "), noun, g.Why))
	}
	return strings.Join(parts, "; ")
}

// notRecorded says which witnesses a history never had. That is no gap: whoever recorded it had no such witness.
func notRecorded(witnesses []history.Witness) string {
	names := make([]string, len(witnesses))
	for i, w := range witnesses {
		names[i] = string(w)
	}
	return "not recorded: the history has no witness " + strings.Join(names, ", ")
}

// Gap is a reason why evidence is not whole, and the witnesses that share it, in the order of their names.
type Gap struct {
	Why       string
	Witnesses []string
}

// ByReason groups gaps, witness to reason, so that a reason that witnesses share is said once. The groups are in the order
// of their first witnesses.
func ByReason[W ~string](gaps map[W]string) []Gap {
	var groups []Gap
	for _, w := range slices.Sorted(maps.Keys(gaps)) {
		i := slices.IndexFunc(groups, func(g Gap) bool { return g.Why == gaps[w] })
		if i < 0 {
			i, groups = len(groups), append(groups, Gap{Why: gaps[w]})
		}
		groups[i].Witnesses = append(groups[i].Witnesses, string(w))
	}
	return groups
}

// lacking says what danger a pass of inv still needed.
func lacking(inv Invariant, s Settings) []string {
	var short []string
	for _, n := range Needs(s) {
		if n.Invariant == inv.ID && inv.Danger[n.Counter] < n.Min {
			short = append(short, fmt.Sprintf("%s: %d, a pass needs %d", n.What, inv.Danger[n.Counter], n.Min))
		}
	}
	return short
}

// Conclude fills in what follows from the invariants and from Harness: Overall, Reason, the expectation's outcome, and
// Exit.
func (r *Run) Conclude() {
	r.Schema = SchemaVersion
	r.Overall, r.Reason = overall(r.Invariants)
	if r.Harness != "" {
		r.Overall = Worse(r.Overall, Inconclusive)
	}
	r.Exit, r.Open = exitOf(r.Overall), ""
	if r.Expect != nil {
		r.Expect.Evaluate(r.Invariants)
		r.Exit, r.Reason = r.Expect.exit(r.Invariants, r.Settings)
		if r.declares() && r.Exit == ExitOpen {
			r.Open = open(r.Invariants)
		}
	}
	if r.Harness != "" && r.Exit != ExitViolated {
		r.Open = ""
		r.Exit, r.Reason = ExitHarness, "the harness itself failed, so the run proves nothing: "+r.Harness
	}
}

// open is what a run is that ended with ExitOpen by what its nemesis declares: the worst status of what was not violated. What had
// to fall and passed has met nothing that breaks it, and neither has what fell and lacks a danger: not exercised.
func open(invariants []Invariant) Status {
	worst := NotExercised
	for _, inv := range invariants {
		if inv.Status != Violated {
			worst = Worse(worst, inv.Status)
		}
	}
	return worst
}

// Doubt makes of a verdict that would be better an inconclusive one, because of why. A violation stays one.
func (r *Run) Doubt(why string) {
	if !r.Expect.control() {
		r.Overall = Worse(r.Overall, Inconclusive)
	}
	r.stayOpen(Inconclusive, why)
}

// stayOpen leaves a run that would be better, or is open already, with ExitOpen, as status, because of why.
func (r *Run) stayOpen(status Status, why string) {
	if r.Exit != ExitPass && r.Exit != ExitOpen {
		return
	}
	r.Exit, r.Reason = ExitOpen, why+"; "+r.Reason
	if r.declares() {
		r.Open = Worse(cmp.Or(r.Open, status), status)
	}
}

// declares tells whether a nemesis of the run declares what it breaks.
func (r *Run) declares() bool { return r.Expect != nil && r.Expect.DeclaredBy != "" }

// Lack makes of a pass a run that is not exercised, because of why. A negative control is judged by what fell. A run whose
// nemesis declares what it breaks is none: it has other faults as well, or the same one several times.
func (r *Run) Lack(why string) {
	if r.Expect.control() {
		return
	}
	r.Overall = Worse(r.Overall, NotExercised)
	r.stayOpen(NotExercised, why)
}

// Exit statuses of a run that came to a verdict. 253 (the machine cannot do what the run takes) and 254
// (wrong usage) are the command's own.
const (
	ExitPass     = 0
	ExitViolated = 1
	ExitOpen     = 2   // inconclusive or not exercised
	ExitHarness  = 255 // the harness itself failed, and no violation had been found
)

func exitOf(s Status) int {
	switch s {
	case Pass:
		return ExitPass
	case Violated:
		return ExitViolated
	}
	return ExitOpen
}

// overall is the worst status of all, and a sentence that names the invariants that have it.
func overall(invariants []Invariant) (Status, string) {
	if len(invariants) == 0 {
		return NotExercised, "no invariant was judged"
	}
	worst := Pass
	for _, inv := range invariants {
		worst = Worse(worst, inv.Status)
	}
	var ids, why []string
	for _, inv := range invariants {
		if inv.Status == worst {
			ids, why = append(ids, inv.ID), append(why, inv.Reason)
		}
	}
	names := strings.Join(ids, ", ")
	switch worst {
	case Pass:
		return worst, names + " held"
	case Violated:
		return worst, names + " violated: " + why[0]
	}
	reason := why[0]
	if lacking := unrecorded(invariants); worst == NotExercised && len(lacking) > 0 {
		reason = notRecorded(lacking)
	}
	return worst, held(invariants) + fmt.Sprintf("%s %s: %s", names, worst, reason)
}

// unrecorded lists the witnesses that the invariants lack which are not exercised, where that is why each of them is not.
func unrecorded(invariants []Invariant) (lacking []history.Witness) {
	lacks := map[history.Witness]bool{}
	for _, inv := range invariants {
		if inv.Status != NotExercised {
			continue
		}
		if len(inv.Unrecorded) == 0 {
			return nil
		}
		for _, w := range inv.Unrecorded {
			lacks[w] = true
		}
	}
	for _, w := range history.Witnesses() {
		if lacks[w] {
			lacking = append(lacking, w)
		}
	}
	return lacking
}

// held names what held where nothing speaks against a pass but that the rest was not recorded: that is what a history of
// somebody else's lock is judged for.
func held(invariants []Invariant) string {
	var ids []string
	for _, inv := range invariants {
		switch {
		case inv.Status == Pass:
			ids = append(ids, inv.ID)
		case len(inv.Unrecorded) == 0:
			return ""
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return strings.Join(ids, ", ") + " held; "
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
