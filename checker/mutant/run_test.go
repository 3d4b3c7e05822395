package mutant

import (
	"os"
	"slices"
	"strings"
	"testing"

	"fenceproof/checker/doctor"
	"fenceproof/checker/linear"
	"fenceproof/deploy/local/warden"
)

func TestMain(m *testing.M) {
	warden.RunIfAsked() // the runs' processes are its children
	linear.RunIfAsked()
	doctor.RunIfAsked()
	os.Exit(m.Run())
}

// A few mutants that die within seconds, under one seed each, and some that are no kill. `make mutants` runs all of them
// under all of their seeds.
func TestMutantsAreKilledByWhatTheirPatchesNameAndByNothingElse(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := Select(all, "takeover-keeps-token,no-attempt-index-no-mark")
	if err != nil {
		t.Fatal(err)
	}
	nonsense := change(t, "system/cmd/rail-stub/main.go", "package main\n", "package main; of course\n")
	dead := change(t, "system/cmd/rail-stub/main.go", "func main() { os.Exit(service.Main(\"rail-stub\", build, nil)) }\n",
		"func main() { _, _ = service.Main[config.RailStub], build; os.Exit(1) }\n")
	gone := change(t, "system/cmd/rail-stub/main.go", "package gone\n", "package main\n")
	nonsense.Name, dead.Name, gone.Name = "x-does-not-compile", "x-does-not-start", "x-is-gone"
	m := matrix(t, append(slices.Clone(chosen), nonsense, dead, gone))
	for _, r := range m.Rows[:2] {
		if r.Outcome != Killed || !slices.Equal(r.KilledBy, r.Must) || r.Median <= 0 || r.Trials[0].Sentence == "" {
			t.Errorf("%s: %s, %s; it fell: %v", r.Name, r.Outcome, r.Why, r.KilledBy)
		}
	}
	if got := m.Rows[2]; got.Outcome != NoBuild || !strings.Contains(got.Why, "main.go") {
		t.Errorf("one that does not compile: %s, %s", got.Outcome, got.Why)
	}
	if got := m.Rows[3]; got.Outcome != NoBoot || !strings.Contains(got.Why, "rail-stub") || got.Trials[0].Run == "" {
		t.Errorf("one that does not start: %s, %s", got.Outcome, got.Why)
	}
	if got := m.Rows[4]; got.Outcome != NoApply {
		t.Errorf("one that does not apply: %s, %s", got.Outcome, got.Why)
	}
	if len(m.Controls) != 2 || m.Controls[0].Outcome != Masked || !m.Good(chosen) || m.Good([]Mutant{dead}) {
		t.Errorf("the healthy build: %+v", m.Controls)
	}
}

func TestAMutantWhoseControlIsNotCleanIsNoKill(t *testing.T) {
	hammer := Mutant{Plan: "hammer"}
	r := &runner{controls: map[control]*Control{
		{plan: "hammer", seed: 1}: {Inputs: hammer.controlInputs(), Trial: Trial{Outcome: Dirty, Why: "INV-04 violated"}},
		{plan: "hammer", seed: 2}: {Inputs: hammer.controlInputs(), Trial: Trial{Outcome: Masked, Met: map[string]int64{"takeovers": 3}}},
	}}
	trial, err := r.mutantRun(t.Context(), builds{}, Mutant{Plan: "hammer"}, 1)
	if err != nil || trial.Outcome != Dirty || !strings.Contains(trial.Why, "INV-04 violated") {
		t.Errorf("%+v", trial)
	}
	trial, err = r.mutantRun(t.Context(), builds{}, Mutant{Plan: "hammer", Meets: []string{"takeovers", "duplicates_refused"}}, 2)
	if err != nil || trial.Outcome != Dirty || !strings.Contains(trial.Why, "it has not met duplicates_refused") {
		t.Errorf("%+v", trial)
	}
}

// matrix runs mutants under the first of their seeds and reads the matrix back from its file.
func matrix(t *testing.T, mutants []Mutant) Matrix {
	t.Helper()
	made, dir, err := Run(t.Context(), Options{Root: root(t), Runs: t.TempDir(), Seeds: 1, Out: t.Output()}, mutants)
	if err != nil {
		t.Fatal(err)
	}
	m := stored(t, dir)
	if len(m.Rows) != len(mutants) || len(made.Rows) != len(m.Rows) {
		t.Fatalf("%d mutants were run, and the matrix has %d", len(mutants), len(m.Rows))
	}
	return m
}
