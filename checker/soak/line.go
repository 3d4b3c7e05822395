package soak

import (
	"fmt"
	"slices"
	"time"

	"fenceproof/checker/run"
	"fenceproof/checker/verdict"
)

// Line is one finished run, as soak.ndjson has it; everything that a summary says follows from the lines.
type Line struct {
	Cell
	With    string    `json:"with"` // the nemeses of this run, as verify takes them
	Seed    uint64    `json:"seed,string"`
	Run     string    `json:"run"` // the run's folder under runs/
	Started time.Time `json:"started"`
	// Took is how long the whole run took, judging included, in nanoseconds.
	Took   time.Duration  `json:"took"`
	Status verdict.Status `json:"status"`
	Reason string         `json:"reason"`
	// Declared: something was violated, all of that had been declared to be, and the run's status is a pass.
	Declared bool     `json:"declared,omitempty"`
	Dangers  []Danger `json:"dangers,omitempty"`
	Refused  int64    `json:"refused"` // stale writes answered FENCED_OUT, at all fence points together
	Events   int64    `json:"events"`
	Memory   int64    `json:"memory"` // the largest resident set of the run's own processes, in bytes
	Disk     int64    `json:"disk"`   // the run's folder before anything of it was removed, in bytes
	// Failed is set where the harness itself failed: what went wrong. Such a run counts for nothing, and is done again
	// when the soak is continued, unless it had found a violation.
	Failed string `json:"failed,omitempty"`
	// LeftOut is set where the run was not begun: verify refuses it under its seed, or the machine could not do it then. Such
	// a run counts for nothing, and is tried again when the soak is continued.
	LeftOut string `json:"leftOut,omitempty"`
	// Besides is what went wrong in the harness although the run had come to its verdict: the line counts by that, and
	// the run is not done again.
	Besides string `json:"besides,omitempty"`
}

// Danger is how often a run met a danger that a pass needs to have met. Where several invariants count it, Count is the
// smallest of theirs and Need the greatest.
type Danger struct {
	Name  string `json:"name"` // the counter in verdict.json
	What  string `json:"what"` // the same in words
	Count int64  `json:"count"`
	Need  int64  `json:"need"`
}

// valid says what is wrong with a line of a file. What is kept and what is removed of a run hangs on its name and its
// status, so a name that leads elsewhere and a status that is none are refused.
func (l Line) valid() error {
	switch {
	case (l.Failed != "" || l.LeftOut != "") && l.Run == "" && l.Status == "": // it came to nothing before there was a folder
		return nil
	case !run.IsRun(l.Run):
		return fmt.Errorf("%q is no run's name; restore the line, or remove it to have its run done again", l.Run)
	case !known(l.Status) && (l.Failed == "" || l.Status != ""):
		return fmt.Errorf("%q is no status of a run; restore the line, or remove it to have its run done again", l.Status)
	}
	return nil
}

// counts tells whether the line is one of what was shown. A violation that was found stays one, whatever failed besides.
func (l Line) counts() bool { return l.Failed == "" && l.LeftOut == "" || l.Status == verdict.Violated }

func (l Line) key() string { return Key(l.Cell, l.With, l.Seed) }

// lineOf says what a run's verdict says.
func lineOf(t Task, v *verdict.Run) Line {
	l := Line{Cell: t.Cell, With: t.Nemesis, Seed: t.Seed, Run: v.ID, Started: v.Started, Reason: v.Reason, Status: statusOf(v),
		Declared: v.Exit == verdict.ExitPass && v.Overall == verdict.Violated, Dangers: dangersOf(v), Events: v.Events}
	for _, n := range v.Refusals {
		l.Refused += n
	}
	return l
}

// violated is the finding of the run in dir where that is a violation, nil where it is none or there is nothing.
func violated(dir string) (*verdict.Run, error) {
	v, err := finding(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("whether the run in %s found a violation is not known, so it stays; look at it, and remove it by hand: %w", dir, err)
	case v == nil || statusOf(v) != verdict.Violated:
		return nil, nil
	}
	return v, nil
}

// statusOf is the status by which v's exit status came about. A run that was told what must be violated passes where
// exactly that was; where it was not, and nothing else fell, its verdict says what it is instead.
func statusOf(v *verdict.Run) verdict.Status {
	switch {
	case v.Exit == verdict.ExitPass:
		return verdict.Pass
	case v.Exit == verdict.ExitViolated:
		return verdict.Violated
	case v.Open != "":
		return v.Open
	case v.Overall == verdict.NotExercised:
		return verdict.NotExercised
	}
	return verdict.Inconclusive
}

// dangersOf are the dangers that a pass of v needs, in the order of their table.
func dangersOf(v *verdict.Run) []Danger {
	counted := map[string]map[string]int64{}
	for _, i := range v.Invariants {
		counted[i.ID] = i.Danger
	}
	var all []Danger
	for _, n := range verdict.Needs(v.Settings) {
		all = append(all, Danger{n.Counter, n.What, counted[n.Invariant][n.Counter], n.Min})
	}
	return merged(all)
}

// merged tells each danger once: by its first name, where invariants have different counters for the same.
func merged(dangers []Danger) []Danger {
	var all []Danger
	for _, d := range dangers {
		i := slices.IndexFunc(all, func(o Danger) bool { return o.Name == d.Name || o.What == d.What })
		if i < 0 {
			all = append(all, d)
			continue
		}
		all[i].Count, all[i].Need = min(all[i].Count, d.Count), max(all[i].Need, d.Need)
	}
	return all
}
