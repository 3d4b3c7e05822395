package soak

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"path/filepath"
	"strings"
	"time"

	"fenceproof/checker/verdict"
	"fenceproof/reports"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	pageStyle string

	page = template.Must(template.New("soak").Funcs(template.FuncMap{
		"bytes": bytesOf, "seconds": seconds, "ranges": ranges, "tone": tone, "name": Line.name, "dangers": dangersInShort,
		"date":  func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") },
		"hours": func(d time.Duration) string { return d.Round(time.Second).String() },
		"mix":   func(s string) string { return strings.ReplaceAll(s, ",", " + ") },
		"toneOf": func(l Line) string {
			if l.Failed != "" {
				return "broken"
			}
			return tone(l.Status)
		},
	}).Parse(pageText))
)

// view is what the page shows.
type view struct {
	*Summary
	Policy     template.HTMLAttr
	Style      template.CSS
	Tone, Word string
	Headline   string
	First      *Session
	KeptOpen   int
}

// tone is a status as the page's style knows it.
func tone(s verdict.Status) string {
	switch s {
	case verdict.Pass, verdict.Violated, verdict.Inconclusive:
		return string(s)
	}
	return "idle"
}

// writePage writes summary.html into dir: one file that opens offline, in the style of a run's report.
func (s *Summary) writePage(dir string) error {
	v := view{Summary: s, Tone: tone(s.Status), Word: capital(string(s.Status)), Headline: capital(s.Reason), KeptOpen: KeptOpen}
	v.Style, v.Policy = reports.Sheet(pageStyle)
	if len(s.Failures) > 0 && s.Exit == verdict.ExitHarness {
		v.Tone, v.Word = "broken", "The harness failed"
	}
	if len(s.Sessions) > 0 {
		v.First = &s.Sessions[0]
	}
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		return fmt.Errorf("put the summary's page together: %w", err)
	}
	return replace(filepath.Join(dir, pageFile), b.Bytes())
}

// dangersInShort says how many of a cell's dangers all of its runs met.
func dangersInShort(c CellSummary) string {
	met := 0
	for _, d := range c.Dangers {
		if d.Met == d.Runs {
			met++
		}
	}
	return fmt.Sprintf("%d of %s met by every run", met, number(len(c.Dangers), "danger"))
}

// capital is s as a sentence begins.
func capital(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
