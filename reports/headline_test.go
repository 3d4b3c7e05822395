package reports

import (
	"strings"
	"testing"

	"fenceproof/checker/verdict"
)

func TestAFailedHarnessHidesNoViolationAndIsHiddenByNone(t *testing.T) {
	fallen := verdict.Invariant{ID: "INV-02", Status: verdict.Violated, Found: 1, Violations: []verdict.Violation{{Sentence: "the rail paid twice"}}}
	held := verdict.Invariant{ID: "INV-02", Status: verdict.Pass, Checked: 1}
	for name, c := range map[string]struct {
		invariant verdict.Invariant
		expect    *verdict.Expectation
		tone      string
		says      string
	}{
		"a violation": {fallen, nil, "violated", "The rail paid twice"},
		"none":        {held, nil, "broken", "no space left"},
		"a control":   {fallen, &verdict.Expectation{Must: []string{"INV-02"}}, "broken", "no space left"},
	} {
		run := verdict.Run{Invariants: []verdict.Invariant{c.invariant}, Expect: c.expect, Harness: "no space left"}
		run.Conclude()
		h := headlineOf(run, blows{})
		if h.Tone != c.tone || !strings.Contains(h.Sentence, c.says) || !strings.Contains(h.Sentence+h.More, "no space left") {
			t.Errorf("%s: %s: %s %s", name, h.Tone, h.Sentence, h.More)
		}
		if xml, err := JUnit(run); err != nil || strings.Contains(string(xml), `failures="0" errors="0"`) {
			t.Errorf("%s: JUnit says\n%s (%v)", name, xml, err)
		}
	}
}

func TestANemesisThatMayBreakSomethingIsTheHeadlineWhetherItHasOrNot(t *testing.T) {
	fallen := verdict.Invariant{ID: "INV-04", Status: verdict.Violated, Found: 1, Violations: []verdict.Violation{{Sentence: "token 7 was issued twice"}}}
	held := verdict.Invariant{ID: "INV-04", Status: verdict.Pass, Checked: 1}
	for word, c := range map[string]struct {
		invariant verdict.Invariant
		says      string
	}{
		"Violated as declared": {fallen, "INV-04 fell, and nothing else did"},
		"Not violated":         {held, "may break INV-04, and nothing fell"},
	} {
		run := verdict.Run{Invariants: []verdict.Invariant{c.invariant}, Expect: &verdict.Expectation{DeclaredBy: "failover-async", Must: []string{}, May: []string{"INV-04"}}}
		run.Conclude()
		if h := headlineOf(run, blows{}); h.Tone != "pass" || h.Word != word || !strings.Contains(h.Sentence, c.says) {
			t.Errorf("%s: %s: %s %s", h.Tone, h.Word, h.Sentence, h.More)
		}
	}
}
