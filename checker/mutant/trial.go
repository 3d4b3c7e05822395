package mutant

import (
	"errors"
	"fmt"
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

// control names a run of the healthy build.
type control struct {
	plan string
	seed uint64
	with string // the mutant of whose patch it has a part, "" for a build as it is
}

// builds are the folders of a mutant's binaries, and of those that it is compared with.
type builds struct{ mutant, healthy string }

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
	t := Trial{Steps: w.Steps, Met: dangers(v)}
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
