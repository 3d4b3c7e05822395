package soak

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fenceproof/checker/run"
	"fenceproof/checker/verdict"
)

// untold are the runs that no line tells of: they were going on when the soak ended. It fails where one does not end within
// leave.
func (f *Folder) untold(leave time.Duration) ([]string, error) {
	names, err := f.notTold()
	if err != nil {
		return nil, fmt.Errorf("look for interrupted runs: %w", err)
	}
	for _, name := range names {
		dir := filepath.Join(f.Dir, runsDir, name)
		for until := time.Now().Add(leave); run.InUse(dir); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(until) {
				return nil, fmt.Errorf("the run in %s: %w: wait for its end, or end it", dir, ErrInUse)
			}
		}
	}
	return names, nil
}

// sweepAway removes runs that no line tells of, once it is sure that they had found no violation: by their verdicts or,
// where they were ended before they came to one, by their histories. One that had stays, and gets its line.
func (f *Folder) sweepAway(over []string) error {
	var errs []error
	for _, id := range over {
		dir := filepath.Join(f.Dir, runsDir, id)
		v, err := violated(dir)
		switch {
		case err != nil:
		case v == nil:
			if err = run.Remove(dir); err == nil {
				f.swept = append(f.swept, id)
			}
		default:
			l := lineOf(f.taskOf(v), v)
			l.Disk = size(dir)
			l.Reason += "; the run was ended together with its soak"
			if err = f.add(l); err == nil {
				f.saved = append(f.saved, l)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// taskOf is the run of a verdict as the soak had begun it. A mix that has no cell of its own was drawn.
func (f *Folder) taskOf(v *verdict.Run) Task {
	t := Task{Cell: Cell{strings.ReplaceAll(v.Settings.Nemesis, ",", "+"), v.Settings.Backend, v.Settings.Workload}, Seed: v.Settings.Seed}
	own := slices.IndexFunc(f.head.Cells, func(c Cell) bool {
		return c.Backend == t.Cell.Backend && c.Workload == t.Cell.Workload && SameMix(c.Nemesis, t.Cell.Nemesis)
	})
	switch {
	case own >= 0:
		t.Cell = f.head.Cells[own]
	case strings.Contains(t.Cell.Nemesis, "+"):
		t.Nemesis, t.Cell.Nemesis = asVerify(t.Cell.Nemesis), MixOfTwo
		return t
	}
	t.Nemesis = asVerify(t.Cell.Nemesis)
	return t
}
