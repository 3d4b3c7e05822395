package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// undone are the runs that came to nothing in one way, and that were not done since.
func (f *Folder) undone(is func(Line) bool) []Line {
	done, told := f.done(), map[string]bool{}
	var all []Line
	for _, l := range slices.Backward(f.Lines) {
		if is(l) && !done[l.key()] && !told[l.key()] {
			told[l.key()] = true
			all = append(all, l)
		}
	}
	slices.Reverse(all)
	return all
}

// named tells whether l is of a drawn mix that the machine of the last start cannot do: it is among what was left out from the
// start, and is not tried again before the soak goes on elsewhere.
func (f *Folder) named(l Line) bool {
	return l.LeftOut != "" && l.Cell.Nemesis == MixOfTwo && slices.ContainsFunc(f.head.LeftOut, func(o LeftOut) bool {
		return o.NotHere && o.Cell == Cell{strings.ReplaceAll(l.With, ",", "+"), l.Backend, l.Workload}
	})
}

// cells are those that the soak is to run, and the mix cells that are left out of them: this machine can do none of the mixes
// that their seeds have drawn. As with any other cell that it cannot do, nothing but another machine could have run them.
func (f *Folder) cells() (here []Cell, not []LeftOut) {
	for _, c := range f.head.Cells {
		if why := f.cannot(c); why != "" {
			not = append(not, LeftOut{c, why, true})
		} else {
			here = append(here, c)
		}
	}
	return here, not
}

// cannot is why nothing was run of a mix cell where the machine is to blame alone, else "". Where a seed has drawn more mixes
// than were left out, the time was up before one that could have been run.
func (f *Folder) cannot(c Cell) string {
	mixes, drawn, why := map[string]bool{}, map[uint64]map[string]bool{}, ""
	for _, l := range f.Lines {
		if l.Cell != c {
			continue
		}
		if !f.named(l) {
			return ""
		}
		if drawn[l.Seed] == nil {
			drawn[l.Seed] = map[string]bool{}
		}
		mix := strings.ReplaceAll(l.With, ",", "+")
		mixes[mix], drawn[l.Seed][mix], why = true, true, l.LeftOut
	}
	for _, of := range drawn {
		if len(of) < f.head.Settings.Mixes {
			return ""
		}
	}
	if len(drawn) == 0 {
		return ""
	}
	return fmt.Sprintf("its seeds drew %s: %s", few(slices.Sorted(maps.Keys(mixes))), why)
}

// lacks says what was not run although it could have been elsewhere, or at another time.
func (s *Summary) lacks() string {
	var names []string
	for _, l := range s.LeftOut {
		if l.NotHere {
			names = append(names, l.Cell.String())
		}
	}
	text := ""
	if len(names) > 0 {
		text = fmt.Sprintf("; this machine cannot do, and so has not run, %s", few(names))
	}
	if n := len(s.NotBegun); n > 0 {
		text += fmt.Sprintf("; %s left out, the last of them %s: %s", number(n, "run"), s.NotBegun[n-1].name(), s.NotBegun[n-1].LeftOut)
	}
	return text
}
