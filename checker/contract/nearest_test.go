package contract

import (
	"strings"
	"testing"
)

func TestAMistypedNameIsAnsweredWithTheNearestAndAStrangeOneWithAllThereAre(t *testing.T) {
	names := []string{"verify", "recheck", "clean"}
	many := strings.Fields("a1 b2 c3 d4 e5 f6 g7 h8 i9 j10 k11 l12 m13")
	for _, c := range []struct {
		s     string
		names []string
		want  string
	}{
		{"verfy", names, `; did you mean "verify"?`},
		{"cleen", names, `; did you mean "clean"?`},
		{"re", names, `; did you mean "recheck"?`},
		{"of", []string{"on", "off"}, `; did you mean "off"?`}, // as far from both, and the beginning of one
		{"bogus", names, `; there are "verify", "recheck", "clean"`},
		{"", names, `; there are "verify", "recheck", "clean"`},
		{"transfer", []string{"submit"}, `; did you mean "submit"?`},
		{"something else", many, `; did you mean "`},
	} {
		if got := Meant(c.s, c.names); !strings.HasPrefix(got, c.want) {
			t.Errorf("%q: %s, want %s", c.s, got, c.want)
		}
	}
}
