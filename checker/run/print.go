package run

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"
)

// Print writes the verdict for a person: a line per invariant, the first violation's sentence, what was refused, and
// how to see more. quiet leaves one line.
func Print(w io.Writer, v *verdict.Run, quiet bool) error {
	var b strings.Builder
	if !quiet {
		b.WriteString("\n")
		tw := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
		for _, i := range v.Invariants {
			fmt.Fprintf(tw, "  %s\t%s\t%d checked\t%s\n", i.ID, i.Status, i.Checked, detail(i))
		}
		_ = tw.Flush() // into memory
		if v.Settings.Workload == plan.LockWorkload {
			fmt.Fprintf(&b, "\n  calls completed: %s\n\n", counts(v.Operations))
		} else {
			fmt.Fprintf(&b, "\n  refused by FENCED_OUT: %s\n  payouts: %s\n\n", counts(v.Refusals), counts(v.Payouts))
		}
	}
	fmt.Fprintf(&b, "%s: %s\n", headword(v), v.Reason)
	if v.Expect != nil && !v.Expect.Met {
		fmt.Fprintf(&b, "the expectation %s is not met: %s\n", v.Expect, unmet(v.Expect))
	}
	if !quiet {
		for _, g := range verdict.ByReason(v.Gaps) { // also where no invariant rests on it: the logs, say, only explain
			fmt.Fprintf(&b, "not whole: %s: %s\n", strings.Join(g.Witnesses, ", "), g.Why)
		}
		if len(v.Unrecorded) > 0 {
			fmt.Fprintf(&b, "not recorded: %s\n", joined(v.Unrecorded))
		}
		fmt.Fprintf(&b, "again:  %s\n", v.Settings.Command)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// headword is the verdict in a word. A negative control is judged by its expectation: there a violation is what was asked.
func headword(v *verdict.Run) string {
	switch {
	case v.Expect == nil || v.Harness != "":
		return strings.ToUpper(string(v.Overall))
	case v.Expect.DeclaredBy != "" && v.Exit == verdict.ExitPass && v.Overall != verdict.Violated:
		return "NOT VIOLATED" // it might have been
	case v.Expect.DeclaredBy != "" && v.Exit == verdict.ExitPass:
		return "VIOLATED AS DECLARED"
	case v.Expect.DeclaredBy != "":
		return "NOT AS DECLARED"
	case v.Exit == verdict.ExitPass:
		return "CONTROL MET"
	default:
		return "CONTROL NOT MET"
	}
}

func unmet(x *verdict.Expectation) string {
	var why []string
	if len(x.Missing) > 0 {
		why = append(why, "not found violated: "+strings.Join(x.Missing, ", "))
	}
	if len(x.Surplus) > 0 {
		why = append(why, "violated but not expected: "+strings.Join(x.Surplus, ", "))
	}
	return cmp.Or(strings.Join(why, "; "), "see the reason above")
}

func detail(i verdict.Invariant) string {
	switch {
	case len(i.Violations) > 0:
		return fmt.Sprintf("%d found, the first: %s", i.Found, i.Violations[0].Sentence)
	case i.Reason != "":
		return i.Reason
	default:
		return counts(i.Danger)
	}
}

func joined(witnesses []history.Witness) string {
	names := make([]string, len(witnesses))
	for i, w := range witnesses {
		names[i] = string(w)
	}
	return strings.Join(names, ", ")
}

func counts(m map[string]int64) string {
	if len(m) == 0 {
		return "none"
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}
