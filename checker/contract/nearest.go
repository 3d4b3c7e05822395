package contract

import "github.com/agnivade/levenshtein"

// Nearest is the one of names that is spelled most like s, for errors that say what was probably meant; "" of none.
func Nearest[S ~string](s string, names []S) S {
	var best S
	bestD := -1
	for _, n := range names {
		if d := levenshtein.ComputeDistance(s, string(n)); bestD < 0 || d < bestD {
			best, bestD = n, d
		}
	}
	return best
}
