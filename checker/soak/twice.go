package soak

import (
	"fmt"

	"fenceproof/checker/verdict"
)

// place is where a run stands among the lines of a summary, and which folder it is of.
type place struct{ line, folder int }

// once adds a line of the n-th folder, or puts the worse of the two in the place of one with the same cell, nemeses and seed that
// was of the same sort. Where the sort is not known, lines of one folder that name the same run are of one run all the same.
func (s *Summary) once(lines []Line, l Line, f *Folder, n int, at map[string]place) []Line {
	key := l.key() + "|" + f.sort(l)
	if f.sort(l) == "" {
		key = fmt.Sprintf("%s|folder %d|%s", l.key(), n, l.Run)
	}
	first, twice := at[key]
	if !twice {
		at[key] = place{len(lines), n}
		return append(lines, l)
	}
	if verdict.Worse(lines[first.line].Status, l.Status) != lines[first.line].Status {
		lines[first.line] = l
	}
	if first.folder == n {
		s.Twice++
	} else {
		s.Repeated++
	}
	return lines
}
