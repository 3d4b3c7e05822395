package contract

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest is the one of names that is spelled most like s, and whether it is so much like it that it was probably meant;
// "" and false of none.
func Nearest[S ~string](s string, names []S) (best S, alike bool) {
	best, distance := nearest(s, names)
	alike = len(names) > 0 && distance <= max(2, len(best)/3)
	if n := slices.IndexFunc(names, func(n S) bool { return s != "" && strings.HasPrefix(string(n), s) }); n >= 0 && !alike {
		best, alike = names[n], true
	}
	return best, alike
}

func nearest[S ~string](s string, names []S) (best S, distance int) {
	distance = -1
	for _, n := range names {
		d := levenshtein.ComputeDistance(s, string(n))
		if begun := strings.HasPrefix(string(n), s); distance < 0 || d < distance || d == distance && begun && !strings.HasPrefix(string(best), s) {
			best, distance = n, d
		}
	}
	return best, distance
}

// fewNames are so few that they can all be named.
const fewNames = 12

// Meant is the end of a sentence that says that s is none of names: what was probably meant, or, where s resembles none of
// them, what there is.
func Meant[S ~string](s string, names []S) string {
	best, alike := Nearest(s, names)
	if alike || len(names) == 1 || len(names) > fewNames {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return "; there are " + strings.Join(quoted, ", ")
}
