package lockctl

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// show prints v as JSON, or else what table writes.
func (c *command) show(v any, table func(t *table)) error {
	if c.json {
		e := json.NewEncoder(c.Out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(v); err != nil {
			return fmt.Errorf("print the answer: %w", err)
		}
		return nil
	}
	t := newTable(c)
	table(t)
	if err := t.w.Flush(); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

// report shows what a deed has done. That it cannot be printed does not undo it, and whoever reads the exit status must not
// take it for undone.
func (c *command) report(v any, table func(t *table)) error {
	if err := c.show(v, table); err != nil {
		return &exit{Unknown, fmt.Errorf("it was done, but what was done could not be shown: %w", err)}
	}
	return nil
}

// table aligns its columns.
type table struct{ w *tabwriter.Writer }

func newTable(c *command) *table { return &table{tabwriter.NewWriter(c.Out, 0, 4, 2, ' ', 0)} }

func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, x := range cells {
		if at, ok := x.(time.Time); ok {
			x = clock(at)
		}
		texts[i] = fmt.Sprint(x)
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t")) // Flush tells of errors
}

// clock writes a time as tables and questions do, in UTC and to the millisecond.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
