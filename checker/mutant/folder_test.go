package mutant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/run"
)

// begun is the folder of a matrix in which each of these mutants was run under so many of its seeds, and survived every time:
// whoever ran them again would find them killed.
func begun(t *testing.T, seeds int, mutants []Mutant, change func(*Matrix)) string {
	t.Helper()
	d, m, err := open(Options{Into: t.TempDir()}, theSources(t), time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	m.Parts, m.Cost = []time.Time{time.Unix(0, 0)}, time.Hour
	r := newRunner(Options{Root: root(t)}, d, m, mutants, Builder{}, time.Now())
	for _, x := range mutants {
		row := rowOf(x)
		for _, seed := range x.Seeds[:min(seeds, len(x.Seeds))] {
			row.Trials = append(row.Trials, Trial{Seed: seed, Outcome: Survived, Why: "nothing fell", Run: "a-run"})
			r.controls[row.control(seed)] = &Control{Plan: x.Plan, Inputs: x.controlInputs(), Trial: Trial{Seed: seed, Outcome: Masked, Run: "a-run"}}
		}
		row.conclude()
		m.put(row)
	}
	err = r.write()
	if change != nil {
		change(m)
	}
	err = errors.Join(err, d.write(m))
	if d.release(); err != nil {
		t.Fatal(err)
	}
	return d.path
}

func theSources(t *testing.T) Sources {
	t.Helper()
	s, err := sourcesOf(t.Context(), root(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stored is the matrix in a folder.
func stored(t *testing.T, dir string) (m Matrix) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, MatrixFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func mutants(t *testing.T, only string) []Mutant {
	t.Helper()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := Select(all, only)
	if err != nil {
		t.Fatal(err)
	}
	return chosen
}

func TestWhatWasRunBeforeIsNotRunAgainWhateverItCameTo(t *testing.T) {
	some := mutants(t, "absent-too-early,release-by-key,renew-after-expiry")
	dir := begun(t, 100, some, nil)
	var out bytes.Buffer
	m, into, err := Run(t.Context(), Options{Root: root(t), Into: dir, Out: &out}, some[1:])
	if err != nil {
		t.Fatal(err)
	}
	if into != dir || len(m.Rows) != 3 || len(m.Parts) != 1 || m.Good(some[1:]) || m.Cost != time.Hour {
		t.Errorf("%d rows in %d parts, %s in all, in %s", len(m.Rows), len(m.Parts), m.Cost, into)
	}
	for _, r := range m.Rows {
		if r.Outcome != Survived || len(r.Trials) != len(r.Seeds) {
			t.Errorf("%s: %s after %d trials", r.Name, r.Outcome, len(r.Trials))
		}
	}
	if strings.Count(out.String(), "was run before: NOT KILLED, survived") != 2 || strings.Contains(out.String(), "building") {
		t.Errorf("it told:\n%s", &out)
	}
	if read := stored(t, dir); read.Markdown() != m.Markdown() || !strings.Contains(read.conditions(), "1 January 1970, ") {
		t.Errorf("what is stored is not what is returned: %s", read.conditions())
	}
}

// The one mutant here dies within seconds, under every seed. A first seed under which it had survived stays, an end during
// its third leaves the second, and the rest is run the next time.
func TestAMatrixThatWasCutShortIsGoneOnWithSeedBySeed(t *testing.T) {
	one := mutants(t, "takeover-keeps-token")
	one[0].Seeds = one[0].Seeds[:3]
	dir := begun(t, 1, one, func(m *Matrix) {
		for _, seed := range one[0].Seeds[1:] { // which saves the healthy build two runs
			c := m.Controls[0]
			c.Seed = seed
			m.Controls = append(m.Controls, c)
		}
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupt := errors.New("interrupted")
	o := Options{Root: root(t), Into: dir, Out: writerFunc(func(line string) {
		if strings.Contains(line, "seed 2: killed") {
			cancel(interrupt)
		}
	})}
	if _, _, err := Run(ctx, o, one); !errors.Is(err, interrupt) {
		t.Fatalf("the interruption gave %v", err)
	}
	half := stored(t, dir)
	if got := half.Rows[0]; len(got.Trials) != 2 || got.Outcome != Survived || len(half.Parts) != 2 || half.Cost <= time.Hour {
		t.Fatalf("after it the matrix has %+v, %d parts", got, len(half.Parts))
	}
	o.Out = t.Output()
	m, _, err := Run(t.Context(), o, one)
	if err != nil {
		t.Fatal(err)
	}
	got := m.Rows[0]
	if len(got.Trials) != 3 || got.Trials[0].Outcome != Survived || got.Trials[1].Run != half.Rows[0].Trials[1].Run || got.Trials[2].Outcome != Killed || m.Good(one) {
		t.Errorf("%+v", got)
	}
	if len(m.Parts) != 3 || len(m.Controls) != 3 || m.Controls[2].Run != "a-run" {
		t.Errorf("%d parts, controls %+v", len(m.Parts), m.Controls)
	}
}

type writerFunc func(line string)

func (f writerFunc) Write(b []byte) (int, error) { f(string(b)); return len(b), nil }

func TestWhatWasMendedIsRunAgain(t *testing.T) {
	some := mutants(t, "absent-too-early,release-by-key,renew-after-expiry,takeover-keeps-token")
	m := &Matrix{}
	for _, x := range some {
		row := rowOf(x)
		for _, seed := range x.Seeds {
			row.Trials = append(row.Trials, Trial{Seed: seed, Outcome: Killed, Run: "a-run"})
		}
		m.put(row)
	}
	m.Rows[2].Trials[1] = Trial{Seed: 2, Outcome: NoVerdict, Why: "no space"}
	m.Controls = []Control{{Plan: "hammer", Inputs: "before it was mended", Trial: Trial{Outcome: Dirty, Run: "a-run"}}}
	was := slices.Clone(m.Rows)
	some[0].text = append([]byte("# mended\n"), some[0].text...)
	some[1].Plan = "late-post"
	m.refresh(some)
	for i, want := range []int{0, 0, len(some[2].Seeds) - 1, len(some[3].Seeds)} {
		row := m.begun(some[i], some[i].Seeds)
		if len(row.Trials) != want || (row.Outcome == Killed) != (want == len(row.Seeds)) || len(row.left()) != len(row.Seeds)-want {
			t.Errorf("%s counts as run under %d seeds, want %d, and as %s", row.Name, len(row.Trials), want, row.Outcome)
		}
	}
	if len(m.Controls) != 0 {
		t.Errorf("a control of another plan counts: %+v", m.Controls)
	}
	// Put back, it is what was run.
	some[0].text, some[1].Plan = some[0].text[len("# mended\n"):], was[1].Plan
	m.refresh(some)
	if len(m.Rows) != 4 || len(m.Rows[0].left()) != 0 || len(m.Rows[1].left()) != 0 || len(m.Superseded.Rows) != 0 || len(m.Superseded.Controls) != 1 {
		t.Errorf("put back: %d rows, superseded %+v", len(m.Rows), m.Superseded)
	}
}

func TestATrialStandsInThePlaceOfItsSeed(t *testing.T) {
	r := Row{Must: []string{"INV-02"}, Seeds: []uint64{1, 2, 3}, Trials: []Trial{{Seed: 1, Outcome: Survived}, {Seed: 3, Outcome: Killed}}}
	if left := r.left(); !slices.Equal(left, []uint64{2}) {
		t.Fatalf("left are %v", left)
	}
	r.add(Trial{Seed: 2, Outcome: Killed, Cost: 5})
	if r.Trials[1].Seed != 2 || len(r.left()) != 0 || r.Cost != 5 || r.Outcome != Survived {
		t.Errorf("%+v", r)
	}
}

func TestAHealthyBuildsRunUnderAnotherPlanIsNotComparedWith(t *testing.T) {
	stale := &Control{Inputs: (Mutant{Plan: "late-post"}).controlInputs(), Trial: Trial{Outcome: Masked, Run: "a-run"}}
	r := &runner{folder: &folder{path: t.TempDir()}, controls: map[control]*Control{{plan: "hammer", seed: 1}: stale}, matrix: &Matrix{Versions: map[string]string{}}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // so that another run ends at once
	if got, err := r.healthyRun(ctx, t.TempDir(), Mutant{Plan: "hammer"}, 1); err != nil || got == &stale.Trial || got.Outcome == Masked {
		t.Errorf("the run under the earlier plan was taken: %+v", got)
	}
}

func TestADirtyControlIsNotForgottenWithItsMutant(t *testing.T) {
	some := mutants(t, "absent-too-early,release-by-key")
	dir := begun(t, 1, some, func(m *Matrix) {
		m.Controls[0].Outcome = Dirty // that of release-by-key
		m.Rows[1].Inputs = "before it was mended"
	})
	if _, _, err := Run(t.Context(), Options{Root: root(t), Into: dir, Seeds: 1, Out: t.Output()}, some[:1]); err != nil {
		t.Fatal(err)
	}
	m := stored(t, dir)
	if len(m.Rows) != 1 || len(m.Controls) != 2 || m.Controls[0].Outcome != Dirty || m.Controls[0].Plan != some[1].Plan || !strings.Contains(m.conditions(), "1 not clean") {
		t.Errorf("%d rows; %s; %+v", len(m.Rows), m.conditions(), m.Controls)
	}
}

func TestAMatrixIsNotCleanedAwayWithOldRuns(t *testing.T) {
	runs := t.TempDir()
	d, m, err := open(Options{Runs: runs}, Sources{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.write(m); err != nil {
		t.Fatal(err)
	}
	d.release()
	if n, _, err := run.Clean(runs, 0); n != 0 || err != nil {
		t.Errorf("%d were removed, %v", n, err)
	}
}

func TestAMatrixOfOtherSourcesOrAnotherMachineIsNotGoneOnWith(t *testing.T) {
	some := mutants(t, "release-by-key")
	for want, dir := range map[string]string{
		"go.sum has changed":     begun(t, 1, some, func(m *Matrix) { m.Sources = Sources{"go.mod": m.Sources["go.mod"], "go.sum": "other"} }),
		"with 1024 cores":        begun(t, 1, some, func(m *Matrix) { m.Machine.CPUs = 1024 }),
		"has schema 1":           begun(t, 1, some, func(m *Matrix) { m.Schema = 1 }),
		"unexpected end of JSON": holding(t, MatrixFile, `{"schema": 2`),
		"holds history and no":   holding(t, "history", ""),
	} {
		before, _ := os.ReadFile(filepath.Join(dir, MatrixFile))
		_, _, err := Run(t.Context(), Options{Root: root(t), Into: dir, Out: t.Output()}, some)
		if !errors.Is(err, ErrInto) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if after, _ := os.ReadFile(filepath.Join(dir, MatrixFile)); !bytes.Equal(before, after) {
			t.Errorf("%s: the matrix was changed", want)
		}
		if _, err := os.Stat(filepath.Join(dir, ".in-use")); want == "holds history and no" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: it was marked as in use (%v)", want, err)
		}
	}
	dir := t.TempDir()
	d, _, err := open(Options{Into: dir}, Sources{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer d.release()
	if _, _, err := open(Options{Into: dir}, Sources{}, time.Now()); !errors.Is(err, ErrInto) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("two at once: %v", err)
	}
}

// holding is a folder with one file.
func holding(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}
