package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fenceproof/checker/mutant"
)

func TestMutantsAreListedCheckedAndNamedWhenMistyped(t *testing.T) {
	list, status := fenceproof(t, "mutants", "--list")
	if status != 0 || strings.Count(list, "\n") < 8 || !strings.Contains(list, "release-by-key ") {
		t.Fatalf("status %d:\n%s", status, list)
	}
	if out, status := fenceproof(t, "mutants", "--only", "release-by-kee", "--list"); status != 254 || !strings.Contains(out, `did you mean "release-by-key"?`) {
		t.Errorf("status %d: %s", status, out)
	}
	if out, status := fenceproof(t, "mutants", "--only", "release-by-key", "--check"); status != 0 || !strings.Contains(out, "applies and compiles") {
		t.Errorf("status %d: %s", status, out)
	}
	for want, args := range map[string][]string{
		"--only needs the name of a mutant": {"mutants", "--only", ""},
		"--into needs the folder":           {"mutants", "--into", ""},
		"is no folder":                      {"mutants", "--into", "main.go"},
		"no mutants.json":                   {"mutants", "--into", "."},
		"there is no folder main.go":        {"mutants", "--doc", "main.go/mutants.md"},
		"there is no folder nowhere":        {"mutants", "--doc", "nowhere/mutants.md"},
		"this is no file":                   {"mutants", "--doc", ".."},
	} {
		if out, status := fenceproof(t, args...); status != 254 || !strings.Contains(out, want) {
			t.Errorf("%q: status %d: %s", args, status, out)
		}
	}
	doc := filepath.Join(t.TempDir(), "mutants.md")
	if out, status := fenceproof(t, "mutants", "--only", "release-by-key", "--doc", doc); status != 254 || !strings.Contains(out, "a part of the matrix") {
		t.Errorf("status %d: %s", status, out)
	}
}

func TestTheRunsOfAMatrixAreNotCleanedAway(t *testing.T) {
	runs := t.TempDir()
	run := filepath.Join(runs, "20260301T200000.000Z-lock-pg-script-1")
	if err := errors.Join(os.Mkdir(run, 0o755), os.WriteFile(filepath.Join(runs, mutant.MatrixFile), []byte("{}"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if out, status := fenceproof(t, "clean", "--runs", runs); status != 254 || !strings.Contains(out, "these are the runs of a matrix of mutants") {
		t.Errorf("status %d: %s", status, out)
	}
	if _, err := os.Stat(run); err != nil {
		t.Error(err)
	}
}
