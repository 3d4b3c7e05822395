package mutant

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// interrupted is the folder of a matrix that was cut short after the rows of these mutants, all of which survived: whoever
// ran them again would find them killed.
func interrupted(t *testing.T, mutants []Mutant, change func(*Matrix)) string {
	t.Helper()
	digest, err := sourcesDigest(root(t))
	if err != nil {
		t.Fatal(err)
	}
	d, m, err := open(Options{Into: t.TempDir()}, digest, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{controls: map[control]*Control{}}
	for _, x := range mutants {
		row := rowOf(x)
		for _, seed := range x.Seeds {
			row.Trials = append(row.Trials, Trial{Seed: seed, Outcome: Survived, Why: "nothing fell"})
			r.controls[row.control(seed)] = &Control{Plan: x.Plan, Inputs: x.controlInputs(), Trial: Trial{Seed: seed, Outcome: Masked}}
		}
		row.conclude()
		m.put(row)
	}
	m.Controls, m.Cost = r.report(m.Rows), time.Hour
	if change != nil {
		change(m)
	}
	if err := errors.Join(d.write(m), d.close()); err != nil {
		t.Fatal(err)
	}
	return d.path
}

func TestWhatWasRunBeforeIsNotRunAgainWhateverItCameTo(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	some := all[:3]
	dir := interrupted(t, some, nil)
	var out bytes.Buffer
	m, into, err := Run(t.Context(), Options{Root: root(t), Into: dir, Out: &out}, some[1:])
	if err != nil {
		t.Fatal(err)
	}
	if into != dir || len(m.Rows) != 3 || len(m.Parts) != 2 || m.Good() || m.Cost < time.Hour {
		t.Errorf("%d rows in %d parts, %s in all, in %s", len(m.Rows), len(m.Parts), m.Cost, into)
	}
	for _, r := range m.Rows {
		if r.Outcome != Survived || len(r.Trials) != len(all[0].Seeds) {
			t.Errorf("%s: %s after %d trials", r.Name, r.Outcome, len(r.Trials))
		}
	}
	if strings.Count(out.String(), "was run before: NOT KILLED, survived") != 2 || strings.Contains(out.String(), "building") {
		t.Errorf("it told:\n%s", &out)
	}
	if got := m.conditions(); !strings.Contains(got, "1 January 1970, in 2 parts until") || !strings.Contains(got, "0 not clean") {
		t.Error(got)
	}
}

func TestWhatWasMendedOrIsNotWholeIsRunAgain(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	mended, replanned, short, whole := all[0], all[1], all[2], all[3]
	m := &Matrix{}
	for _, x := range all[:4] {
		row := rowOf(x)
		for _, seed := range x.Seeds {
			row.Trials = append(row.Trials, Trial{Seed: seed, Outcome: Killed})
		}
		m.put(row)
	}
	m.Rows[2].Trials = m.Rows[2].Trials[1:]
	mended.text = append([]byte("# mended\n"), mended.text...)
	replanned.Plan = "late-post"
	m.refresh([]Mutant{mended, replanned, short, whole})
	for _, x := range []Mutant{mended, replanned, short} {
		if m.ran(x.Name, x.Seeds) != nil {
			t.Errorf("%s counts as run", x.Name)
		}
	}
	if m.ran(whole.Name, whole.Seeds) == nil {
		t.Errorf("%s, which was run whole, does not count as run", whole.Name)
	}
	// A healthy build's run under a plan that is no longer the same is not compared with.
	was := (Mutant{Plan: "late-post"}).controlInputs()
	if now := (Mutant{Plan: "late-submit"}).controlInputs(); now == was {
		t.Error("the control does not tell its plans apart")
	}
}

func TestAMatrixOfOtherSourcesOrAnotherMachineIsNotGoneOnWith(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := sourcesDigest(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for want, dir := range map[string]string{
		"the sources have changed": interrupted(t, all[:1], func(m *Matrix) { m.Sources = "other" }),
		"with 1024 cores":          interrupted(t, all[:1], func(m *Matrix) { m.Machine.CPUs = 1024 }),
		"has schema 1":             interrupted(t, all[:1], func(m *Matrix) { m.Schema = 1 }),
		"unexpected end of JSON":   holding(t, MatrixFile, `{"schema": 2`),
		"holds history and no":     holding(t, "history", ""),
	} {
		before, _ := os.ReadFile(filepath.Join(dir, MatrixFile))
		_, _, err := open(Options{Into: dir}, digest, time.Now())
		if !errors.Is(err, ErrInto) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if after, _ := os.ReadFile(filepath.Join(dir, MatrixFile)); !bytes.Equal(before, after) {
			t.Errorf("%s: the matrix was changed", want)
		}
	}
	dir := t.TempDir()
	d, _, err := open(Options{Into: dir}, digest, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if _, _, err := open(Options{Into: dir}, digest, time.Now()); !errors.Is(err, ErrInto) || !strings.Contains(err.Error(), "another process") {
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

func TestTheDigestOfTheSourcesIsThatOfWhatARunIsMadeFrom(t *testing.T) {
	module := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(module, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range sources {
		if filepath.Ext(name) == "" {
			name = filepath.Join(name, "a.go")
		}
		write(name, "one")
	}
	digest := func() string {
		t.Helper()
		d, err := sourcesDigest(module)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	at := digest()
	for _, c := range []struct {
		file    string
		changes bool
	}{
		{"system/a.go", true}, {"system/sql/a.sql", true}, {"go.sum", true}, {"reports/assets/a.css", true}, {"checker/mutant/a.go", true},
		{"system/a_test.go", false}, {"checker/mutant/patches/a.patch", false}, {"checker/mutant/plans/a.json", false}, {"docs/a.md", false}, {"system/testdata/a", false},
	} {
		write(c.file, "two")
		now := digest()
		if (now != at) != c.changes {
			t.Errorf("%s: the digest changes: %v", c.file, now != at)
		}
		at = now
	}
}

func TestTheMatrixOnDiskIsTheOneThatIsPrinted(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	dir := interrupted(t, all[:2], nil)
	m, _, err := Run(t.Context(), Options{Root: root(t), Into: dir, Out: t.Output()}, all[:2])
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, MatrixFile))
	if err != nil {
		t.Fatal(err)
	}
	var read Matrix
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if read.Markdown() != m.Markdown() {
		t.Error("they differ")
	}
}
