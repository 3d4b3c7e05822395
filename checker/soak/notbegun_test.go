package soak

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fenceproof/checker/verdict"
)

// A machine whose memory somebody else takes for a moment is no failure of the harness: the soak goes on, says what it lacks,
// and does it when it is continued.
func TestARunThatTheMachineCouldNotDoIsLeftOutAndToldOfAndDoneWhenTheSoakGoesOn(t *testing.T) {
	o, out := scriptedSoak(t, scripted(t, `if [ "$seed" = 2 ] && [ ! -e "$runs/../again" ]; then echo "1024 MB are available"; exit 253; fi
verdict 0 pass`), 3)
	sum, err := Run(t.Context(), o)
	if err != nil || sum.Exit != verdict.ExitPass || sum.Counts.Runs != 2 || len(sum.NotBegun) != 1 || len(sum.Failures) != 0 {
		t.Fatalf("%v, %+v\n%s", err, sum, out)
	}
	const says = "all 2 runs passed; 1 run left out, the last of them pause, payout on pg, seed 2: this machine cannot do it; it said: 1024 MB are available"
	if sum.Reason != says || !strings.Contains(out.String(), "seed 2: left out: this machine cannot do it") {
		t.Errorf("it says %q\n%s", sum.Reason, out)
	}
	if left, err := filepath.Glob(filepath.Join(o.Into, outputDir, "*")); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	if entries, err := os.ReadDir(filepath.Join(o.Into, runsDir)); err != nil || len(entries) != 2 {
		t.Errorf("the runs are %v, %v", entries, err)
	}
	if err := os.WriteFile(filepath.Join(o.Into, "again"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if sum, err = Run(t.Context(), o); err != nil || sum.Counts.Runs != 3 || len(sum.NotBegun) != 0 || sum.Reason != "all 3 runs passed" {
		t.Errorf("continued: %v, %+v\n%s", err, sum, out)
	}
}

func TestACellOfWhichEveryRunWasLeftOutHasNotBeenExercised(t *testing.T) {
	o, out := scriptedSoak(t, scripted(t, `exit 253`), 2)
	if sum, err := Run(t.Context(), o); err != nil || sum.Exit != verdict.ExitOpen || len(sum.NotBegun) != 2 || !strings.Contains(sum.Reason, "2 runs left out") {
		t.Errorf("%v, %+v\n%s", err, sum, out)
	}
}

// Whatever verify refuses under a later seed, the soak goes on.
func TestARunThatIsRefusedUnderALaterSeedIsLeftOut(t *testing.T) {
	o, out := scriptedSoak(t, scripted(t, `verdict 0 pass`), 3)
	o.Check = func(args []string) error {
		if slices.Contains(args, "2") {
			return errors.New("no time for it")
		}
		return nil
	}
	if sum, err := Run(t.Context(), o); err != nil || sum.Counts.Runs != 2 || len(sum.NotBegun) != 1 || !strings.Contains(sum.Reason, "seed 2: no time for it") {
		t.Errorf("%v, %+v\n%s", err, sum, out)
	}
}

// That a machine cannot do something is told from that it does not exist, and nobody takes what is left for all there is.
func TestWhatAMachineCannotDoIsNamedBesideWhatPassed(t *testing.T) {
	o, out := scriptedSoak(t, scripted(t, `verdict 0 pass`), 1)
	o.Nemeses, o.Backends = []string{"pause", "clock", "failover"}, []string{"pg", "etcd"}
	o.Check = func(args []string) error {
		switch {
		case slices.Contains(args, "clock"):
			return fmt.Errorf("%w: tracing is forbidden", ErrNotHere)
		case slices.Contains(args, "failover") && slices.Contains(args, "etcd"):
			return errors.New("there is no standby of etcd")
		}
		return nil
	}
	cells, left, err := o.Cells(o.Check)
	if err != nil || len(cells) != 3 || len(left) != 3 || !left[0].NotHere || !left[1].NotHere || left[2].NotHere {
		t.Fatalf("%v left out %+v, %v\n%s", cells, left, err, out)
	}
	s := &Summary{LeftOut: left}
	s.add([]Line{{Cell: cells[0], Status: verdict.Pass}, {Cell: cells[1], Status: verdict.Pass}, {Cell: cells[2], Status: verdict.Pass}}, cells)
	if want := "all 3 runs passed; this machine cannot do, and so has not run, clock, payout on pg; clock, payout on etcd"; s.Reason != want {
		t.Errorf("it says %q", s.Reason)
	}
	matrix := s.Markdown()
	for _, want := range []string{"Not run, as the machine could not do it: clock, payout on pg", "There is no failover, payout on etcd: there is no standby of etcd."} {
		if !strings.Contains(matrix, want) {
			t.Errorf("the matrix does not say %q:\n%s", want, matrix)
		}
	}
}

// noClock is a machine on which no clock can be moved.
func noClock(args []string) error {
	if slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "clock") }) {
		return fmt.Errorf("%w: tracing is forbidden", ErrNotHere)
	}
	return nil
}

// seedOfClock is the first seed that draws a clock as the first mix of payouts on pg.
func seedOfClock(t *testing.T, s Settings) uint64 {
	t.Helper()
	for seed := range uint64(100) {
		drawn, err := s.draw(Cell{MixOfTwo, "pg", "payout"}, seed, 0, all)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(drawn.Nemesis, "clock") {
			return seed
		}
	}
	t.Fatal("no seed draws a clock")
	return 0
}

func TestAMixThatTheMachineCannotDoIsToldOf(t *testing.T) {
	s := small()
	s.Nemeses, s.Mixes, s.Backends = []string{"pause", "kill", "clock"}, 1, []string{"pg"}
	_, out, err := s.Cells(noClock)
	var mixes []string
	for _, l := range out {
		if l.NotHere && strings.Contains(l.Cell.Nemesis, "+") {
			mixes = append(mixes, l.Cell.String())
		}
	}
	if want := []string{"pause+clock, payout on pg", "kill+clock, payout on pg", "pause+clock, lock on pg", "kill+clock, lock on pg"}; err != nil || !slices.Equal(mixes, want) {
		t.Errorf("left out are %v, %v", mixes, err)
	}
	s.Nemeses = []string{"clock", "kill"} // of which there is one mix, and the machine cannot do it
	cells, _, err := s.Cells(noClock)
	if err != nil || slices.ContainsFunc(cells, func(c Cell) bool { return c.Nemesis == MixOfTwo }) {
		t.Errorf("%v are cells, %v; of one nothing would ever be run", cells, err)
	}
	s.Nemeses = []string{"clock+kill", "pause+clock"} // and kill+pause, which it can
	if cells, _, err := s.Cells(noClock); err != nil || len(cells) != 2 {
		t.Errorf("%v are cells, %v", cells, err)
	}
	s.Nemeses = []string{"clock+kill", "clock+slow", "kill+slow+clock", "kill+slow"} // and no mix that has no cell of its own
	if _, _, err := s.Cells(noClock); err == nil || !strings.Contains(err.Error(), "there are 0 mixes") {
		t.Errorf("mixes that there are not are taken: %v", err)
	}
	s.Nemeses, s.Mixes = []string{"clock"}, 0
	if _, _, err := s.Cells(noClock); err == nil || !strings.Contains(err.Error(), "tracing is forbidden") {
		t.Errorf("a soak of nothing is taken: %v", err)
	}
}

// What a machine could not do is not made up for by what another seed is to show, so one seed tells the same of every machine.
func TestASeedDrawsTheSameMixesWhateverTheMachineCanDo(t *testing.T) {
	s := small()
	s.Nemeses, s.Mixes, s.Rounds = []string{"pause", "kill", "clock"}, 1, 20
	here, _, err := s.Cells(all)
	if err != nil {
		t.Fatal(err)
	}
	drawn := 0
	for n := range s.Rounds {
		want, err := s.Round(n, here[len(here)-1:], all)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Round(n, here[len(here)-1:], noClock); err != nil || !slices.Equal(got, want) {
			t.Errorf("round %d runs %v where clocks cannot be moved, and else %v (%v)", n, got, want, err)
		}
		if strings.Contains(want[0].Nemesis, "clock") {
			drawn++
		}
	}
	if drawn == 0 {
		t.Error("no seed drew a clock, so nothing was shown")
	}
}

// However many rounds draw them, what is told of are mixes, of which there are only so many.
func TestADrawnMixThatTheMachineCannotDoIsLeftOutAndNamedOnce(t *testing.T) {
	o, out := scriptedSoak(t, scripted(t, `verdict 0 pass`), 20)
	o.Nemeses, o.Mixes, o.Check = []string{"pause", "kill", "clock"}, 1, noClock
	sum, err := Run(t.Context(), o)
	if err != nil || len(sum.Cells) != 3 || sum.Exit != verdict.ExitPass || len(sum.NotBegun) != 0 {
		t.Fatalf("%v, %+v\n%s", err, sum, out)
	}
	f, err := Read(o.Into)
	if err != nil {
		t.Fatal(err)
	}
	drawn := 0
	for _, l := range f.Lines {
		if l.LeftOut == "" {
			continue
		}
		if drawn++; !strings.Contains(l.With, "clock") || !strings.Contains(l.LeftOut, "tracing is forbidden") {
			t.Errorf("left out is %+v", l)
		}
	}
	if drawn < 3 || sum.Counts.Runs != 60-drawn {
		t.Errorf("%d were left out, %d done", drawn, sum.Counts.Runs)
	}
	if want := "passed; this machine cannot do, and so has not run, clock, payout on pg; pause+clock, payout on pg; kill+clock, payout on pg"; !strings.HasSuffix(sum.Reason, want) {
		t.Errorf("it says %q, want %q", sum.Reason, want)
	}
}

// It is the same as with a cell that the machine cannot do: another one could, and what was run here has passed.
func TestAMixCellOfWhichOnlyWhatTheMachineCannotDoWasDrawnIsLeftOut(t *testing.T) {
	o, out := scriptedSoak(t, scripted(t, `verdict 0 pass`), 1)
	o.Nemeses, o.Mixes, o.Check = []string{"pause", "kill", "clock"}, 1, noClock
	o.FirstSeed = seedOfClock(t, o.Settings)
	sum, err := Run(t.Context(), o)
	if err != nil || len(sum.Cells) != 2 || sum.Exit != verdict.ExitPass || len(sum.NotBegun) != 0 {
		t.Fatalf("%v, %+v\n%s", err, sum, out)
	}
	if want := "all 2 runs passed; this machine cannot do, and so has not run, mix of two, payout on pg; clock, payout on pg"; !strings.HasPrefix(sum.Reason, want) {
		t.Errorf("it says %q, want %q", sum.Reason, want)
	}
	if says, want := sum.Markdown(), "Not run, as the machine could not do it: mix of two, payout on pg: its seeds drew "; !strings.Contains(says, want) {
		t.Errorf("the matrix does not say %q:\n%s", want, says)
	}
	o.Check = all // where it goes on, clocks can be moved
	if sum, err = Run(t.Context(), o); err != nil || len(sum.Cells) != 4 || len(sum.LeftOut) != 0 || sum.Reason != "all 4 runs passed" {
		t.Errorf("continued: %v, %+v\n%s", err, sum, out)
	}
}

// Nothing else excuses a mix cell of which nothing was run.
func TestAMixCellIsLeftOutForNothingButWhatTheMachineCannotDo(t *testing.T) {
	mix, pause := Cell{MixOfTwo, "pg", "payout"}, ran("pause", 1, verdict.Pass)
	left := func(with string, seed uint64) Line {
		return Line{Cell: mix, With: with, Seed: seed, LeftOut: "this machine cannot do it: tracing is forbidden"}
	}
	not := func(with string) LeftOut {
		return LeftOut{Cell{with, "pg", "payout"}, "this machine cannot do it: tracing is forbidden", true}
	}
	folder := func(mixes int, lines ...Line) *Folder {
		f := folderOf(t, []Cell{pause.Cell, mix}, append([]Line{pause}, lines...)...)
		f.head.Settings.Mixes, f.head.LeftOut, f.head.Sessions = mixes, []LeftOut{not("pause+clock"), not("kill+clock")}, nil
		return f
	}
	mixed := ran("kill", 1, verdict.Pass)
	mixed.Cell, mixed.With = mix, "pause,kill"
	here := folder(1, left("pause,clock", 1))
	for name, c := range map[string]struct {
		folders []*Folder
		exit    int
		begun   int // runs that are told of as not begun
	}{
		"all that was drawn":                     {[]*Folder{here}, verdict.ExitPass, 0},
		"under several seeds":                    {[]*Folder{folder(1, left("pause,clock", 1), left("kill,clock", 2), left("pause,clock", 2))}, verdict.ExitPass, 0},
		"nothing was drawn":                      {[]*Folder{folder(1)}, verdict.ExitOpen, 0},
		"another was drawn, and its time was up": {[]*Folder{folder(2, left("pause,clock", 1), left("pause,clock", 1))}, verdict.ExitOpen, 0},
		"it could have been done at other times": {[]*Folder{folder(1, left("pause,clock", 1), left("pause,kill", 2))}, verdict.ExitOpen, 1},
		"one was done":                           {[]*Folder{folder(1, left("pause,clock", 2), mixed)}, verdict.ExitPass, 0},
		"another machine never came to it":       {[]*Folder{here, folder(1)}, verdict.ExitOpen, 0},
		"another machine did it":                 {[]*Folder{here, folder(1, mixed)}, verdict.ExitPass, 0},
	} {
		sum := Summarise(c.folders...)
		out := slices.ContainsFunc(sum.LeftOut, func(l LeftOut) bool { return l.Cell == mix })
		cell := slices.ContainsFunc(sum.Cells, func(s CellSummary) bool { return s.Cell == mix })
		if sum.Exit != c.exit || len(sum.NotBegun) != c.begun || out == cell {
			t.Errorf("%s: exit status %d, a cell: %v, left out: %v, %s", name, sum.Exit, cell, out, sum.Reason)
		}
	}
}
