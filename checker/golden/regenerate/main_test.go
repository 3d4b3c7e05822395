package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"fenceproof/checker/golden"
	"fenceproof/checker/linear"
	"fenceproof/checker/verdict"
)

func TestMain(m *testing.M) {
	linear.RunIfAsked()
	os.Exit(m.Run())
}

func TestNothingIsOverwrittenUnasked(t *testing.T) {
	all := golden.All()
	g := all[slices.IndexFunc(all, func(g golden.Golden) bool { return g.Name == "grant-while-held" })]
	dir := filepath.Join(t.TempDir(), g.Name)
	bring := func(replace, verdicts, stays bool) {
		t.Helper()
		if got, err := one(&g, dir, replace, verdicts); err != nil || got != stays {
			t.Fatalf("it differs and stays: %t, want %t (%v)", got, stays, err)
		}
	}
	read := func(path ...string) []byte {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(append([]string{dir}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	bring(false, false, false) // what is missing is written
	history, judged := read("history", "wiretap"+golden.Suffix), read(verdict.FileName)
	bring(false, false, false) // and stays
	for name, spoil := range map[string]func() error{
		"the verdict": func() error { return os.WriteFile(filepath.Join(dir, verdict.FileName), []byte("{}"), 0o644) },
		"the history": func() error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "history")), os.CopyFS(filepath.Join(dir, "history"), os.DirFS("../testdata/early-end/history")))
		},
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		otherHistory, otherVerdict := read("history", "wiretap"+golden.Suffix), read(verdict.FileName)
		bring(false, false, true)
		if !bytes.Equal(read("history", "wiretap"+golden.Suffix), otherHistory) || !bytes.Equal(read(verdict.FileName), otherVerdict) {
			t.Errorf("%s was overwritten", name)
		}
		bring(true, false, false)
		if !bytes.Equal(read("history", "wiretap"+golden.Suffix), history) || !bytes.Equal(read(verdict.FileName), judged) {
			t.Errorf("%s was not put back", name)
		}
	}
}

func TestANameThatIsNoGoldenHistoryIsRefused(t *testing.T) {
	if _, err := regenerate(t.TempDir(), []string{"helthy"}, false); err == nil {
		t.Error("it was taken")
	}
}
