package reports

import (
	"fmt"
	"strings"

	"fenceproof/checker/verdict"
)

// Summary is the run in a few lines of Markdown, for the page that a CI job shows. Everything from the evidence is
// escaped.
func Summary(run verdict.Run) string {
	h := headlineOf(run, blows{})
	var b strings.Builder
	fmt.Fprintf(&b, "## %s %s", h.glyph(), escape(h.Word))
	if h.Which != "" {
		fmt.Fprintf(&b, ": %s", escape(h.Which))
	}
	fmt.Fprintf(&b, "\n\n%s\n\n", escape(h.Sentence))
	if h.More != "" {
		fmt.Fprintf(&b, "%s\n\n", escape(h.More))
	}
	b.WriteString("| invariant | status | checked | danger met | violations |\n|---|---|--:|---|--:|\n")
	for _, inv := range run.Invariants {
		word, _ := statusWord(inv.Status)
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %d |\n", escape(inv.ID), word, inv.Checked, escape(dangers(inv)), inv.Found)
	}
	if down := fallen(run); len(down) > 0 {
		b.WriteString("\n")
		for _, inv := range down {
			for _, v := range inv.Violations[:min(len(inv.Violations), 1)] {
				fmt.Fprintf(&b, "- **%s**: %s\n", escape(inv.ID), escape(tell(v, subjectsOf(run))))
			}
		}
	}
	if run.Settings.Command != "" {
		fence := codeFence(run.Settings.Command)
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n", fence, oneLine(run.Settings.Command), fence)
	}
	return b.String()
}

// glyph is a sign that is read in plain text, too.
func (h headline) glyph() string {
	switch h.Tone {
	case "pass":
		return "✓"
	case "violated":
		return "✕"
	case "idle":
		return "–"
	}
	return "?"
}

func dangers(inv verdict.Invariant) string {
	var parts []string
	for _, d := range sortedKeys(inv.Danger) {
		parts = append(parts, fmt.Sprintf("%d %s", inv.Danger[d], dangerName(d)))
	}
	return strings.Join(parts, ", ")
}

// escape takes from a text all that Markdown or HTML would read as markup.
func escape(s string) string {
	var b strings.Builder
	for _, r := range oneLine(s) {
		switch r {
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '&':
			b.WriteString("&amp;")
		case '\\', '`', '*', '_', '[', ']', '|', '#', '!', '~', '@':
			b.WriteRune('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// codeFence is a fence of backticks that text cannot close.
func codeFence(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
