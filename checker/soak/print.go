package soak

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Print writes the summary for a terminal.
func (s *Summary) Print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "\nnemesis\tworkload\tbackend\tseeds\truns\tpass\tviolated\tinconclusive\tnot exercised\tmedian")
	for _, c := range s.Cells {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n", c.Nemesis, c.Workload, c.Backend, ranges(c.Seeds), c.Runs, c.Pass, c.Violated, c.Inconclusive, c.NotExercised, seconds(c.Took))
	}
	fmt.Fprintln(tw, "\ndanger\t\t\tmet in\tleast\tmedian\twhat")
	for _, c := range s.Cells {
		for _, d := range c.Dangers {
			fmt.Fprintf(tw, "%s, %s, %s\t%s\t\t%d of %d\t%d\t%d\t%s\n", c.Nemesis, c.Workload, c.Backend, d.Name, d.Met, d.Runs, d.Least, d.Median, d.What)
		}
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print the summary: %w", err)
	}
	if s.Repeated > 0 {
		fmt.Fprintf(w, "\nleft out: %s that another folder has with the same build\n", number(s.Repeated, "run"))
	}
	if s.Twice > 0 {
		fmt.Fprintf(w, "\nleft out: %s of a run that another line of the same folder tells of\n", number(s.Twice, "line"))
	}
	_, err := fmt.Fprintf(w, "\nmemory: %s at most, median of the first quarter %s, of the last %s; disk: %s kept, the largest run had %s\n\n%s: %s\n",
		bytesOf(s.Memory.Most), bytesOf(s.Memory.First), bytesOf(s.Memory.Last), bytesOf(s.Disk.Now), bytesOf(s.Disk.Largest), strings.ToUpper(string(s.Status)), s.Reason)
	return err
}

func seconds(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// bytesOf writes a number of bytes for people.
func bytesOf(n int64) string {
	switch {
	case n < 1e3:
		return fmt.Sprintf("%d B", n)
	case n < 1e6:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	case n < 1e9:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

// Markdown is the matrix as documentation shows it.
func (s *Summary) Markdown() string {
	var b strings.Builder
	for _, n := range s.nemeses() {
		fmt.Fprintf(&b, "### %s\n\n| workload | backend | seeds | runs | pass | other | stale writes refused | dangers |\n|---|---|---|---|---|---|---|---|\n", n)
		for _, c := range s.Cells {
			if c.Nemesis == n {
				fmt.Fprintf(&b, "| %s |\n", strings.Join(c.columns(), " | "))
			}
		}
		b.WriteString("\n")
	}
	for _, l := range s.LeftOut {
		none := "There is no"
		if l.NotHere {
			none = "Not run, as the machine could not do it:"
		}
		fmt.Fprintf(&b, "%s %s: %s.\n", none, l.Cell, strings.TrimSuffix(l.Why, "."))
	}
	if len(s.LeftOut) > 0 {
		b.WriteString("\n")
	}
	if n := len(s.Gone); n > 0 {
		fmt.Fprintf(&b, "**Of %s the evidence is gone**, and nothing bears out what is said of them here.\n\n", number(n, "run"))
	}
	if text := s.outspoken(); text != "" {
		fmt.Fprintf(&b, "**%s.**\n\n", strings.TrimPrefix(text, "; "))
	}
	b.WriteString(s.conditions())
	return b.String()
}

// nemeses are those of the cells, in their order.
func (s *Summary) nemeses() []string {
	var all []string
	for _, c := range s.Cells {
		if !slices.Contains(all, c.Nemesis) {
			all = append(all, c.Nemesis)
		}
	}
	return all
}

func (c CellSummary) columns() []string {
	var dangers []string
	for _, d := range c.Dangers {
		text := fmt.Sprintf("%s %d / %d", d.Name, d.Least, d.Median)
		if d.Met < d.Runs || d.Runs < c.Runs {
			text += fmt.Sprintf(" (met in %d of %d)", d.Met, d.Runs)
		}
		dangers = append(dangers, text)
	}
	pass := fmt.Sprint(c.Pass)
	if c.Declared > 0 {
		pass += fmt.Sprintf(", %d with the declared violation", c.Declared)
	}
	return []string{c.Workload, c.Backend, ranges(c.Seeds), fmt.Sprint(c.Runs), pass, c.other(), fmt.Sprintf("%d / %d", c.Refused.Least, c.Refused.Median), strings.Join(dangers, "; ")}
}

// other says how the runs ended that did not pass.
func (c CellSummary) other() string {
	var parts []string
	for _, x := range []struct {
		n    int
		what string
	}{{c.Violated, "**violated**"}, {c.Inconclusive, "inconclusive"}, {c.NotExercised, "not exercised"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}

// conditions are when, on what and with which commands the matrix was made.
func (s *Summary) conditions() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in %s of running. Made by:\n\n", number(s.Counts.Runs, "run"), s.Took.Round(time.Second))
	for _, x := range s.Sessions {
		fmt.Fprintf(&b, "- `%s` on %s, %s with %s, %s", x.Command, x.Started.UTC().Format("2 January 2006"), x.OS, number(x.Cores, "core"), x.Go)
		if x.Commit != "" {
			fmt.Fprintf(&b, ", commit %s", x.Commit)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// The lines between which a document has the matrix.
const (
	begins = "<!-- matrix begins -->\n"
	ends   = "<!-- matrix ends -->\n"
)

// Into is doc with the matrix in its place: between the two lines that say so.
func (s *Summary) Into(doc string) (string, error) {
	before, rest, begun := strings.Cut(doc, begins)
	_, after, ended := strings.Cut(rest, ends)
	if !begun || !ended {
		return "", fmt.Errorf("put the matrix into the document: it has no lines %q and %q", strings.TrimSpace(begins), strings.TrimSpace(ends))
	}
	return before + begins + "\n" + s.Markdown() + "\n" + ends + after, nil
}

// Placed tells whether the document in a file has a place for the matrix.
func Placed(file string) error {
	doc, err := readFile(file)
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	if _, err := (&Summary{}).Into(string(doc)); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// WriteInto puts the matrix into the document in a file.
func (s *Summary) WriteInto(file string) error {
	doc, err := readFile(file)
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	text, err := s.Into(string(doc))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return replace(file, []byte(text))
}
