package mutant

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// module is the folder of the module, from here.
const module = "../.."

func root(t *testing.T) string {
	t.Helper()
	dir, err := FindRoot(module)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestEveryMutantAppliesAndCompiles(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	b := Builder{Root: root(t), Scratch: t.TempDir()}
	for _, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			if err := b.Check(t.Context(), m); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAMutantThatDoesNotCompileIsNoKill(t *testing.T) {
	m := change(t, "system/cmd/rail-stub/main.go", "package main\n", "package main; of course\n")
	if err := (Builder{Root: root(t), Scratch: t.TempDir()}).Check(t.Context(), m); !errors.Is(err, ErrBuild) || !strings.Contains(err.Error(), "main.go") {
		t.Errorf("got %v", err)
	}
}

func TestAPatchWhoseLinesAreGoneDoesNotApply(t *testing.T) {
	for name, m := range map[string]Mutant{
		"other lines":     change(t, "system/cmd/rail-stub/main.go", "package somethingelse\n", "package main\n"),
		"no such file":    change(t, "system/cmd/rail-stub/gone.go", "package main\n", "package niam\n"),
		"not the system":  change(t, "checker/mutant/mutant.go", "package mutant\n", "package tnatum\n"),
		"out of the tree": change(t, "system/../../somewhere/else.go", "package main\n", "package niam\n"),
	} {
		if err := (Builder{Root: root(t), Scratch: t.TempDir()}).Check(t.Context(), m); !errors.Is(err, ErrApply) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// change is a mutant with one line of one file changed.
func change(t *testing.T, file, before, after string) Mutant {
	t.Helper()
	text := fmt.Sprintf("diff --git a/%[1]s b/%[1]s\n--- a/%[1]s\n+++ b/%[1]s\n@@ -1 +1 @@\n-%[2]s+%[3]s", file, before, after)
	files, _, err := gitdiff.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return Mutant{Name: "changed", Services: []string{"rail-stub"}, Plan: "hammer", Seeds: []uint64{1}, files: files}
}

func TestAFragmentIsFoundByItsLinesWhereverTheyStand(t *testing.T) {
	fragment := &gitdiff.TextFragment{OldPosition: 1, OldLines: 2, NewPosition: 1, NewLines: 2, Lines: []gitdiff.Line{
		{Op: gitdiff.OpContext, Line: "one\n"}, {Op: gitdiff.OpDelete, Line: "two\n"}, {Op: gitdiff.OpAdd, Line: "zwei\n"}}}
	for source, want := range map[string]string{
		"one\ntwo\n":                     "one\nzwei\n",
		"zero\none\ntwo\nthree\n":        "zero\none\nzwei\nthree\n",
		"zero\n\n\none\ntwo\n":           "zero\n\n\none\nzwei\n",
		"one\nthree\n":                   "error",
		"one\ntwo\none\ntwo\n":           "error",
		"everyone\ntwo\n":                "error",
		"everyone\ntwo\none\ntwo\nend\n": "everyone\ntwo\none\nzwei\nend\n",
		"":                               "error",
	} {
		got, err := apply(source, []*gitdiff.TextFragment{fragment})
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q became %q (%v), want %q", source, got, err, want)
		}
	}
	if _, err := apply("one\n", nil); err == nil {
		t.Error("a file in which nothing is changed was taken")
	}
}

func TestMutantsAreMadeFromACheckoutOnly(t *testing.T) {
	if _, err := FindRoot("/"); err == nil || !strings.Contains(err.Error(), "run this in one") {
		t.Errorf("got %v", err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "go.mod"), []byte("module other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := FindRoot(other); err == nil || !strings.Contains(err.Error(), "no checkout of fenceproof") {
		t.Errorf("got %v", err)
	}
}
