package run

import (
	"fmt"
	"strings"

	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
	"fenceproof/nemesis"
	"fenceproof/nemesis/plan"
)

// flaws is what a history tells of a run that no invariant judges: processes that ended although nobody had asked them
// to, an operator's program that failed, faults that did not have their effect, and a lock store that was put back and grants
// nobody anything.
type flaws struct {
	// script tells that somebody wrote each step of the plan for what it shows: one that did not take place is a flaw as
	// well. A generated plan has more steps that wait for an event than find it within the drive.
	script   bool
	failing  []string               // of the system itself: nobody knows what it would have done
	injected map[int]*history.Event // by window, until the effect was seen
	seen     map[int]bool           // by window
	unseen   []string
}

func newFlaws(script bool) *flaws {
	return &flaws{script: script, injected: map[int]*history.Event{}, seen: map[int]bool{}}
}

func (f *flaws) observe(e *history.Event) {
	switch {
	case e.W == history.Run && e.Op == history.OpEnded:
		f.failing = append(f.failing, e.Msg)
	case e.W != history.Nemesis:
	case e.Phase == nemesis.PhaseFailed && e.Attrs[nemesis.AttrKeptOut] != "":
		f.failing = append(f.failing, fmt.Sprintf("the %s did not come to its end (window %d): %s", e.Op, e.Window, inLine(e.Msg)))
	case e.Phase == nemesis.PhaseInject:
		f.injected[e.Window] = e
	case e.Phase == nemesis.PhaseSeen:
		f.seen[e.Window] = true
		delete(f.injected, e.Window)
	case e.Phase == nemesis.PhaseFailed && f.injected[e.Window] != nil && e.Attrs[nemesis.AttrHeld] != "" && !f.script:
		delete(f.injected, e.Window) // two steps of a generated plan met, and nobody can tell
	case e.Phase == nemesis.PhaseFailed && f.injected[e.Window] != nil:
		delete(f.injected, e.Window)
		f.unseen = append(f.unseen, fmt.Sprintf("the effect of %s on %s was not seen (window %d): %s", e.Op, e.Target, e.Window, e.Msg))
	case e.Phase == nemesis.PhaseFailed && f.seen[e.Window] && plan.Fault(e.Op) == plan.Restore && e.Attrs[nemesis.AttrUnasked] == "": // that new holders work at once is what the procedure is for
		f.unseen = append(f.unseen, fmt.Sprintf("the %s was not seen to be over (window %d): %s", e.Op, e.Window, e.Msg))
	case e.Phase == nemesis.PhaseFailed && f.seen[e.Window] && (plan.Fault(e.Op) == plan.DiskFull || plan.Fault(e.Op) == plan.Clock):
		f.unseen = append(f.unseen, fmt.Sprintf("the effect of %s on %s did not last, or was not seen to be over (window %d): %s", e.Op, e.Target, e.Window, e.Msg))
	case e.Phase == nemesis.PhaseFailed && f.script && !f.seen[e.Window]:
		f.unseen = append(f.unseen, fmt.Sprintf("the %s on %s did not take place (window %d): %s", e.Op, e.Target, e.Window, e.Msg))
	}
}

// qualify says what the invariants alone do not: that nobody knows how the run ended, that the system did not stay alive
// of itself, that what was to break it did not, or that the run was cut short. A violation stays one.
func qualify(v *verdict.Run, cut string, f *flaws) {
	if len(f.unseen) > 0 {
		v.Lack(strings.Join(f.unseen, "; "))
	}
	if why := strings.Join(f.failing, "; "); v.Exit == verdict.ExitViolated && why != "" {
		v.Reason += "; besides, " + why // and that may be why
	} else if why != "" {
		v.Doubt(why)
	}
	if why := v.Gaps[string(history.Run)]; why != "" {
		v.Doubt("nobody knows how the run ended: its own file is not whole: " + why)
	}
	if f := Fencing(v.Settings.Fencing); v.Exit == verdict.ExitPass && !control(v.Expect) && f != "" && f != FencingOn {
		v.Reason += fmt.Sprintf(", although the fences were not all on (%s): nobody came who would have been refused", f)
	}
	switch {
	case cut == "":
	case v.Exit == verdict.ExitOpen, v.Exit == verdict.ExitPass && !control(v.Expect): // what it was asked for it did not do
		v.Doubt(cut)
	default:
		v.Reason = cut + "; " + v.Reason
	}
}

// inLine is text that a program printed in lines, in one: a reason is a sentence.
func inLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// control tells whether x is a negative control's, which has shown what it was asked for as soon as that fell. A run whose
// nemesis declares what it breaks is about everything else as well.
func control(x *verdict.Expectation) bool { return x != nil && x.DeclaredBy == "" }
