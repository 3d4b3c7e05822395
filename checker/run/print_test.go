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
