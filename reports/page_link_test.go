package reports

import (
	"strings"
	"testing"
	"time"
)

func TestAViolationLeadsToThePageThatShowsMoreOfIt(t *testing.T) {
	for page, want := range map[string]string{
		"linear/1.html":       `<a href="linear/1.html">`,
		"javascript:alert(1)": `<a href="#ZgotmplZ">`, // a verdict of somebody else's is evidence, too
	} {
		s := play(3, true, 3, 3, 4*time.Second)
		run := verdictOf(s, "rail-off")
		accuse(&run, s)
		run.Invariants[1].Violations[0].Page = page
		html, err := build(run, inMemory(s.events), MaxBytes)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(html); strings.Count(text, want) != 1 || strings.Contains(text, `"javascript:`+`alert(1)">`) {
			t.Errorf("%s: the report has no link %s", page, want)
		}
	}
}
