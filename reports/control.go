package reports

import (
	"fmt"
	"slices"
	"strings"

	"fenceproof/checker/verdict"
)

// control is the headline of a negative control: the experiment has worked when the named invariants fell, and the rest passed.
func control(run verdict.Run, h headline, down []verdict.Invariant) headline {
	x := run.Expect
	switch status := open(run); {
	case x.DeclaredBy != "" && run.Exit == verdict.ExitPass:
		return declared(run, h, down)
	case run.Exit == verdict.ExitPass:
		h.Tone, h.Word = "pass", "Control met"
		h.Sentence = fmt.Sprintf("With fencing %s, %s fell, as %s must.", run.Settings.Fencing, list(slices.Sorted(slices.Values(ids(down)))), pronoun(len(down)))
		if len(down) > 0 && len(down[0].Violations) > 0 {
			h.More = down[0].ID + ", for example: " + tell(down[0].Violations[0], subjectsOf(run)) + ". " + writers(down[0].Violations[0])
		}
		return h
	case x.DeclaredBy != "" && len(x.Surplus) == 0 && status != verdict.Pass:
		h.Word, h.Tone = statusWord(status)
		h.Sentence = sentenceCase(brief(firstOf(run.Reason, "The evidence does not suffice for a verdict.")))
		h.More = strings.TrimSpace(gapSentence(run) + " " + sentenceCase(promises(x)))
		return h
	case x.Met, len(x.Surplus) == 0 && undecided(run):
		h.Word = "Control not met"
		_, h.Tone = statusWord(status)
		h.Sentence, h.More = sentenceCase(brief(run.Reason)), gapSentence(run)
		return h
	}
	h.Tone, h.Word = "violated", "Control not met"
	h.More = "The suite expected " + list(x.Must) + " to be violated with fencing " + run.Settings.Fencing + "."
	if x.DeclaredBy != "" {
		h.Word, h.More = "Not as declared", sentenceCase(promises(x))
	}
	var parts []string
	if len(x.Missing) > 0 {
		parts = append(parts, list(x.Missing)+" had to fall and did not")
	}
	var unnamed []string
	for _, id := range x.Surplus {
		if n := slices.IndexFunc(down, func(i verdict.Invariant) bool { return i.ID == id }); n >= 0 && x.Names(id) {
			parts = append(parts, fmt.Sprintf("%s fell %s of %d where %s is no reason for it", id, times(down[n].Found-down[n].Across), down[n].Found, x.DeclaredBy))
			continue
		}
		unnamed = append(unnamed, id)
	}
	if len(unnamed) > 0 {
		parts = append(parts, list(unnamed)+" fell without being named")
	}
	h.Sentence = firstOf(strings.Join(parts, "; "), strings.TrimSuffix(run.Reason, ".")) + "."
	return h
}

// undecided tells whether something that had to fall may have, for all anybody knows.
func undecided(run verdict.Run) bool {
	return slices.ContainsFunc(run.Invariants, func(i verdict.Invariant) bool {
		return i.Status == verdict.Inconclusive && slices.Contains(run.Expect.Missing, i.ID)
	})
}

// open is the worst status of what was not violated, of the run's own where all of that passed and the run did not. What a
// nemesis declares may have fallen, and the rest not be known.
func open(run verdict.Run) verdict.Status {
	worst := verdict.Pass
	for _, inv := range run.Invariants {
		if inv.Status != verdict.Violated {
			worst = verdict.Worse(worst, inv.Status)
		}
	}
	switch {
	case len(run.Expect.Missing) > 0 || run.Exit != verdict.ExitOpen:
		return worst
	case run.Open != "":
		return run.Open
	case worst != verdict.Pass:
		return worst
	case run.Overall != verdict.Violated:
		return run.Overall
	}
	return verdict.Inconclusive
}

// promises says what a nemesis declares.
func promises(x *verdict.Expectation) string {
	var parts []string
	if len(x.Must) > 0 {
		parts = append(parts, "breaks "+list(x.Must))
	}
	if len(x.May) > 0 {
		parts = append(parts, "may break "+list(x.May))
	}
	return fmt.Sprintf("nemesis %s %s, and nothing else", x.DeclaredBy, strings.Join(parts, ", "))
}

// declared is the headline of a run whose nemesis breaks something on purpose, and has broken that or nothing.
func declared(run verdict.Run, h headline, down []verdict.Invariant) headline {
	h.Tone, h.Word = "pass", "Violated as declared"
	h.Sentence = fmt.Sprintf("Nemesis %s has broken what it may break: %s fell, and nothing else did.", run.Expect.DeclaredBy, list(slices.Sorted(slices.Values(ids(down)))))
	if len(down) == 0 {
		h.Word, h.Sentence = "Not violated", fmt.Sprintf("Nemesis %s may break %s, and nothing fell.", run.Expect.DeclaredBy, list(run.Expect.May))
	} else if len(down[0].Violations) > 0 {
		h.More = down[0].ID + ": " + tell(down[0].Violations[0], subjectsOf(run)) + ". " + writers(down[0].Violations[0])
	}
	if lost := verdict.Losses(run.Invariants); lost != "" {
		h.More = strings.TrimSpace(h.More + " " + sentenceCase(lost))
	}
	return h
}

func pronoun(n int) string {
	if n == 1 {
		return "it"
	}
	return "they"
}
