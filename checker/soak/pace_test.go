package soak

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"
)

// A soak that cannot come through its first round ends as not exercised with everything passed; whoever starts it learns of that
// at once, and not hours later.
func TestASoakSaysHowLongARoundTakesAndWarnsWhereItHasNoTimeForOne(t *testing.T) {
	settings := func(duration time.Duration, jobs int) Settings {
		return Settings{Nemeses: []string{"pause", "kill", "slow"}, Mixes: 2, Backends: plan.Backends(), Workloads: plan.Workloads(), FirstSeed: 1, Duration: duration, Drive: 30 * time.Second, Jobs: jobs}
	}
	// Of the three mixes the machine can do one; or its seed draws one of the two others.
	mixes := func(duration time.Duration, n int) Settings {
		s := settings(duration, 1)
		s.Nemeses, s.Mixes, s.Backends, s.Workloads = []string{"pause", "kill", "clock"}, n, []string{"pg"}, []string{"payout"}
		s.FirstSeed = seedOfClock(t, s)
		return s
	}
	two := mixes(200*time.Second+1, 3)
	two.Workloads = plan.Workloads()
	fast := Line{Cell: Cell{"pause", "pg", "payout"}, With: "pause", Seed: 1, Run: "20260101T000000.000Z-payout-pg-pause-1", Status: verdict.Pass, Took: 10 * time.Second}
	for name, c := range map[string]struct {
		settings Settings
		lines    []Line
		says     string
		warns    string
	}{
		"what cannot be done here takes no time": {two, nil, "a round has 6 runs, and takes about 4m\n", ""},
		"the mix that can be just begins":        {mixes(80*time.Second+1, 3), nil, "a round has 3 runs, and takes about 2m\n", ""},
		"the mix that can be just does not":      {mixes(80*time.Second, 3), nil, "a round has 3 runs, and takes about 2m\n", "of 1 cell nothing will have been run, and the soak will not be a pass; give it 2m"},
		"no mix is run, and it is left out":      {mixes(80*time.Second+1, 1), nil, "a round has 2 runs, and takes about 1m20s\n", ""},
		"nobody gets to where it is left out":    {mixes(80*time.Second, 1), nil, "a round has 2 runs, and takes about 1m20s\n", "of 1 cell nothing"},

		"there is time":           {settings(time.Hour, 1), nil, "a round has 20 runs, and takes about 14m\n", ""},
		"there is none":           {settings(5*time.Minute, 1), nil, "takes about 14m\n", "--duration 5m0s is too short for that: of 8 cells nothing will have been run, and the soak will not be a pass; give it 13m"},
		"the last just begins":    {settings(12*time.Minute+time.Second, 1), nil, "takes about 14m\n", ""},
		"the last just does not":  {settings(12*time.Minute, 1), nil, "takes about 14m\n", "of 1 cell nothing"},
		"two at a time":           {settings(7*time.Minute, 2), nil, "takes about 7m\n", ""},
		"runs took less than 40s": {settings(3*time.Minute, 1), []Line{fast}, "takes about 4m\n", ""},
		"less, and yet too much":  {settings(30*time.Second, 1), []Line{fast}, "takes about 4m\n", "of 12 cells nothing will have been run"},
		"it ends with its rounds": {settings(0, 1), nil, "takes about 14m\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			out := &bytes.Buffer{}
			check := Check(all)
			if slices.Contains(c.settings.Nemeses, "clock") {
				check = noClock
			}
			s := &soak{Options: Options{Settings: c.settings, Check: check, Out: out}, folder: folderOf(t, nil, c.lines...)}
			s.done = s.folder.done()
			cells, _, err := s.Cells(check)
			if err != nil {
				t.Fatal(err)
			}
			first, err := s.Round(0, cells, check)
			if err != nil {
				t.Fatal(err)
			}
			s.pace(first)
			if text := out.String(); !strings.Contains(text, c.says) || strings.Contains(text, "WARNING") != (c.warns != "") || !strings.Contains(text, c.warns) {
				t.Errorf("it says\n%swant %q and %q", text, c.says, c.warns)
			}
		})
	}
}

func TestASoakWarnsBeforeItsFirstRun(t *testing.T) {
	o, out := scriptedSoak(t, scripted(t, `verdict 0 pass`), 1)
	o.Nemeses, o.Duration = []string{"pause", "kill"}, time.Nanosecond
	sum, err := Run(t.Context(), o)
	if want := "WARNING: --duration 1ns is too short"; err != nil || sum.Exit != verdict.ExitOpen || !strings.Contains(out.String(), want) {
		t.Errorf("%v, exit status %d; it does not say %q:\n%s", err, sum.Exit, want, out)
	}
}

func TestATimeThatIsNotKnownToTheSecondIsNotToldToTheSecond(t *testing.T) {
	for d, want := range map[time.Duration]string{41 * time.Second: "41s", 2 * time.Minute: "2m", 10*time.Minute + time.Second: "11m", 3 * time.Hour: "3h0m"} {
		if got := about(d); got != want {
			t.Error(fmt.Sprint(d, " is told as ", got))
		}
	}
}
