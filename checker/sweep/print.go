package sweep

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Print writes the table for a terminal.
func (t *Table) Print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "\n"+strings.Join(headings, "\t"))
	for _, c := range t.Cells {
		fmt.Fprintln(tw, strings.Join(c.columns(), "\t"))
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// Markdown is the table as documentation shows it.
func (t *Table) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "`bin/fenceproof sweep --backend %s --seed %d`:\n\n", t.Backend, t.Seed)
	row := func(columns []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(columns, " | ")) }
	row(headings)
	fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(headings)))
	for _, c := range t.Cells {
		row(c.columns())
	}
	return b.String()
}

var headings = []string{"endpoint", "fault", "met", "requests at the server", "effects in the logs", "answers"}

func (c *Cell) columns() []string {
	verdict := ""
	if !c.Good() {
		verdict = " **wrong**"
		if c.Met == 0 {
			verdict = " **never met**"
		}
	}
	return []string{fmt.Sprintf("%s %s", endpointOf(c.Op).row, c.Op), name(c.Fault) + verdict, fmt.Sprintf("%d of %d", c.Met, c.Planned),
		fmt.Sprintf("%d, must be %d", c.Requests, c.Due), c.effects(), c.answers()}
}

func (c *Cell) effects() string {
	switch {
	case c.Op.Read():
		return "none to have"
	case c.Unlogged:
		return "not in this log"
	case c.Least == c.Most:
		return fmt.Sprintf("%d, must be %d", c.Effects, c.Least)
	}
	return fmt.Sprintf("%d, must be %d to %d", c.Effects, c.Least, c.Most)
}

func (c *Cell) answers() string {
	var parts []string
	for _, a := range slices.Sorted(maps.Keys(c.Answers)) {
		parts = append(parts, fmt.Sprintf("%d × %s", c.Answers[a], a))
	}
	return strings.Join(parts, ", ")
}

// begins and ends are the lines between which a document has the table of a backend.
func begins(backend string) string { return "<!-- sweep on " + backend + " begins -->\n" }
func ends(backend string) string   { return "<!-- sweep on " + backend + " ends -->\n" }

// Into is doc with the table in its place: between the two lines that say so.
func (t *Table) Into(doc string) (string, error) {
	before, rest, begun := strings.Cut(doc, begins(t.Backend))
	_, after, ended := strings.Cut(rest, ends(t.Backend))
	if !begun || !ended {
		return "", fmt.Errorf("put the table into the document: it has no lines %q and %q", strings.TrimSpace(begins(t.Backend)), strings.TrimSpace(ends(t.Backend)))
	}
	return before + begins(t.Backend) + "\n" + t.Markdown() + "\n" + ends(t.Backend) + after, nil
}
