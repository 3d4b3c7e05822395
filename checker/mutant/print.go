package mutant

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Print writes the matrix as a table for a terminal.
func (m *Matrix) Print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "\nmutant\toutcome\tseeds\tdetection, median\tworst\tcost")
	for _, r := range m.Rows {
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\t%s\t%s\n", r.Name, r.summary(), len(r.Trials), seconds(r.Median), seconds(r.Worst), seconds(r.Cost))
	}
	fmt.Fprintf(tw, "\n%s\n", m.conditions())
	return tw.Flush()
}

// summary is a row's outcome in a few words.
func (r Row) summary() string {
	switch r.Outcome {
	case Killed:
		s := "killed by " + strings.Join(r.KilledBy, ", ")
		if len(r.Also) > 0 {
			s += "; also " + strings.Join(r.Also, ", ")
		}
		return s
	case Masked:
		return "masked; see " + r.Unmasked
	}
	return fmt.Sprintf("NOT KILLED, %s: %s", r.Outcome, firstLine(r.Why))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func seconds(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// conditions is when and on what the matrix was made.
func (m *Matrix) conditions() string {
	dirty := 0
	for _, c := range m.Controls {
		if c.Outcome != Masked {
			dirty++
		}
	}
	return fmt.Sprintf("%s, %s; %d runs of the healthy build, %d not clean; %s in all", m.when(), m.Machine, len(m.Controls), dirty, m.Cost.Round(time.Second))
}

// when is the days on which the matrix was made.
func (m *Matrix) when() string {
	const day = "2 January 2006"
	if len(m.Parts) == 0 {
		return "nothing was run"
	}
	first, last := m.Parts[0].UTC().Format(day), m.Parts[len(m.Parts)-1].UTC().Format(day)
	switch {
	case len(m.Parts) == 1:
		return first
	case first == last:
		return fmt.Sprintf("%s, in %d parts", first, len(m.Parts))
	}
	return fmt.Sprintf("%s, in %d parts until %s", first, len(m.Parts), last)
}

// Markdown is the matrix as docs/mutants.md.
func (m *Matrix) Markdown() string {
	var b strings.Builder
	b.WriteString(`# Mutants

An assertion that was never seen red is decoration. A mutant is a deliberately broken build of the system, made with
` + "`go build -overlay`" + ` from a patch in ` + "`checker/mutant/patches`" + `, run under a plan that exposes the mistake. It counts as killed only
if under every seed all invariants that had to fall fell and none fell that may not, and if the healthy build passes
under the same plan and seed with every step of the plan having had its effect. A patch that does not apply, a build that
fails, a service that does not start, and a control that is not clean are no kill. Where another guard masks a mistake
under its plan nothing falls, although every step of the plan had its effect and the danger was met; then the mutant without
both guards shows that the suite would have seen it.

` + "`make mutants`" + ` makes this page; ` + "`make mutants ONLY=name`" + ` runs one. Detection is the time from the beginning of the drive
until the last of the invariants that had to fall was found violated. A matrix that was cut short, or in which a patch or a plan
had to be mended, is gone on with by ` + "`INTO=`" + ` and its folder: what was run there with the same patch and plan stays, whatever it
came to.

`)
	fmt.Fprintf(&b, "%s.\n\n", m.conditions())
	b.WriteString("| mutant | outcome | seeds | detection, median | worst | cost |\n|---|---|---|---|---|---|\n")
	for _, r := range m.Rows {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %d | %s | %s | %s |\n", r.Name, r.Name, cell(r.summary()), len(r.Trials), seconds(r.Median), seconds(r.Worst), seconds(r.Cost))
	}
	for _, r := range m.Rows {
		r.section(&b)
	}
	return b.String()
}

// section is all there is to say about one mutant.
func (r Row) section(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s. %s\n\n", r.Name, r.Title, r.Breaks)
	fmt.Fprintf(b, "- Source: %s\n- Built from it: %s; plan `%s`\n", r.Source, strings.Join(r.Services, ", "), r.Plan)
	if len(r.ControlHas) > 0 {
		fmt.Fprintf(b, "- The healthy build beside it has the change of %s as well\n", strings.Join(r.ControlHas, ", "))
	}
	if len(r.Meets) > 0 {
		fmt.Fprintf(b, "- Has to be met: %s\n", strings.Join(r.Meets, ", "))
	}
	if r.MaskedBy != "" {
		fmt.Fprintf(b, "- Masked by %s. Without the mask: [%s](#%s)\n", r.MaskedBy, r.Unmasked, r.Unmasked)
		return
	}
	fmt.Fprintf(b, "- Must fall: %s", strings.Join(r.Must, ", "))
	if len(r.May) > 0 {
		fmt.Fprintf(b, "; may fall: %s", strings.Join(r.May, ", "))
	}
	b.WriteString("\n")
	for _, t := range r.Trials {
		if t.Outcome == Killed {
			fmt.Fprintf(b, "- Under seed %d: “%s”\n", t.Seed, t.Sentence)
			return
		}
	}
}

// cell keeps a text inside its cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
