package contract

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest is the one of names that is spelled most like s; "" of none.
func Nearest[S ~string](s string, names []S) S {
	best, _ := nearest(s, names)
	return best
}

func nearest[S ~string](s string, names []S) (best S, distance int) {
	distance = -1
	for _, n := range names {
		if d := levenshtein.ComputeDistance(s, string(n)); distance < 0 || d < distance {
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
	best, distance := nearest(s, names)
	alike := distance <= max(2, len(best)/3)
	if n := slices.IndexFunc(names, func(n S) bool { return s != "" && strings.HasPrefix(string(n), s) }); n >= 0 && !alike {
		best, alike = names[n], true
	}
	if alike || len(names) == 1 || len(names) > fewNames {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return "; there are " + strings.Join(quoted, ", ")
}
