package run

import (
	"strings"
	"testing"

	"fenceproof/checker/verdict"
)

func TestAPrintedVerdictSaysOnceWhySeveralWitnessesAreNotWhole(t *testing.T) {
	v := &verdict.Run{Gaps: map[string]string{"wiretap": "torn", "journal": "the file is missing", "paydb": "torn"}}
	var out strings.Builder
	if err := Print(&out, v, false); err != nil {
		t.Fatal(err)
	}
	if want := "not whole: journal: the file is missing\nnot whole: paydb, wiretap: torn\n"; !strings.Contains(out.String(), want) {
		t.Errorf("printed:\n%s\nwant in it:\n%s", out.String(), want)
	}
}

// A run that was broken off has a reason of its own, which says nothing of what was expected.
func TestWhatIsPrintedOfAnExpectationThatIsNotMetIsASentence(t *testing.T) {
	for want, v := range map[string]*verdict.Run{
		"\nthe expectation INV-04,LIVE-01? is not met: not found violated: INV-04\n": {Reason: "the run was broken off",
			Expect: &verdict.Expectation{Must: []string{"INV-04"}, May: []string{"LIVE-01"}, Missing: []string{"INV-04"}}},
		"\nthe expectation INV-04 is not met: not found violated: INV-04; violated but not expected: INV-02\n": {Expect: &verdict.Expectation{
			Must: []string{"INV-04"}, Missing: []string{"INV-04"}, Surplus: []string{"INV-02"}}},
	} {
		var out strings.Builder
		if err := Print(&out, v, true); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v; it prints\n%s\nwant%s", err, out.String(), want)
		}
	}
}
