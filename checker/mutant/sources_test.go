package mutant

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheSourcesAreWhatTheSuiteAndTheServicesAreCompiledFrom(t *testing.T) {
	all := theSources(t)
	for file, counts := range map[string]bool{
		"go.sum": true, "system/cmd/lock-server/main.go": true, "system/lock/pgstore/sql/acquire.sql": true, "checker/mutant/trial.go": true,
		"migrations/embed.go": true, "checker/invariant/judge.go": true, "nemesis/plan/plan.go": true,
		"checker/mutant/run_test.go": false, "checker/mutant/patches/release-by-key.patch": false, "checker/mutant/plans/hammer.json": false,
		"system/lock/locktest/crowd.go": false, "checker/cmd/fenceproof-bench/main.go": false, "README.md": false,
	} {
		if _, err := os.Stat(filepath.Join(module, filepath.FromSlash(file))); err != nil {
			t.Errorf("the case is of no file: %v", err)
		}
		if _, ok := all[file]; ok != counts {
			t.Errorf("%s is among the sources: %v", file, ok)
		}
	}
	for file := range all {
		if strings.HasPrefix(file, "../") || strings.Contains(file, "node_modules") {
			t.Errorf("%s is no source of the module", file)
		}
	}
}

func TestTheFirstFileThatHasChangedIsNamed(t *testing.T) {
	was := Sources{"a": "1", "b": "2", "c": "3"}
	for want, change := range map[string]func(Sources){
		"":  func(Sources) {},
		"b": func(s Sources) { s["c"] = "4"; s["b"] = "4" },
		"c": func(s Sources) { delete(s, "c") },
		"d": func(s Sources) { s["d"] = "4" },
	} {
		now := maps.Clone(was)
		change(now)
		if got := was.changed(now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestSourcesThatAreChangedWhileTheirMutantsRunEndTheMatrix(t *testing.T) {
	module := holding(t, "a.go", "package a")
	s, err := digest(module, maps.Keys(Sources{"a.go": ""}))
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{Options: Options{Root: module}, folder: &folder{path: t.TempDir()}, matrix: &Matrix{Sources: s, Versions: map[string]string{}}}
	if err := r.keep(Row{Name: "one"}); err != nil {
		t.Fatalf("while nothing was changed: %v", err)
	}
	if err := os.WriteFile(filepath.Join(module, "a.go"), []byte("package b"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.keep(Row{Name: "two"}); err == nil || !strings.Contains(err.Error(), "a.go was changed") || len(stored(t, r.folder.path).Rows) != 1 {
		t.Errorf("got %v and %d rows", err, len(stored(t, r.folder.path).Rows))
	}
	r = &runner{Options: Options{Root: root(t)}, matrix: &Matrix{Sources: theSources(t)}}
	if err := r.unchanged(t.Context()); err != nil {
		t.Errorf("while nothing was made: %v", err)
	}
	delete(r.matrix.Sources, "checker/mutant/trial.go")
	if err := r.unchanged(t.Context()); err == nil || !strings.Contains(err.Error(), "trial.go was changed, made or removed") {
		t.Errorf("after a file was made: %v", err)
	}
}

func TestRunsOnOtherDatabasesAreNotPutBesideOneAnother(t *testing.T) {
	r := &runner{folder: &folder{path: t.TempDir()}, matrix: &Matrix{Versions: map[string]string{}}}
	r.compare(map[string]string{"postgres": "16.14"})
	r.compare(map[string]string{"postgres": "16.14", "etcd": "3.6.5"})
	if err := r.keep(Row{Name: "one"}); err != nil {
		t.Fatalf("while all had the same: %v", err)
	}
	r.compare(map[string]string{"postgres": "17.1"})
	if err := r.keep(Row{Name: "two"}); err == nil || !strings.Contains(err.Error(), "postgres 17.1") || len(stored(t, r.folder.path).Rows) != 1 {
		t.Errorf("got %v and %d rows", err, len(stored(t, r.folder.path).Rows))
	}
}

func TestAProgramThatIsOlderThanItsSourcesRunsNoMutants(t *testing.T) {
	s := theSources(t)
	built, err := ownTime()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.fresh(root(t), built); err != nil {
		t.Errorf("this program: %v", err)
	}
	if err := s.fresh(root(t), time.Unix(0, 0)); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "make build") {
		t.Errorf("an old one: %v", err)
	}
	other := t.TempDir()
	for _, dir := range []string{"patches", "plans"} {
		if err := os.CopyFS(filepath.Join(other, "checker", "mutant", dir), os.DirFS(filepath.Join(module, "checker", "mutant", dir))); err != nil {
			t.Fatal(err)
		}
	}
	if err := (Sources{}).fresh(other, built); err != nil {
		t.Errorf("the same patches and plans: %v", err)
	}
	mended := filepath.Join(other, "checker", "mutant", "plans", "hammer.json")
	if err := os.WriteFile(mended, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (Sources{}).fresh(other, built); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "plans/hammer.json") {
		t.Errorf("another plan: %v", err)
	}
	if err := os.Remove(mended); err != nil {
		t.Fatal(err)
	}
	if err := (Sources{}).fresh(other, built); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "plans, and there are") {
		t.Errorf("a plan too few: %v", err)
	}
}
