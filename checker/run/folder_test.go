package run

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestAFolderThatIsNoRunsIsNeitherRemovedNorStripped(t *testing.T) {
	dir := t.TempDir()
	for name, is := range map[string]bool{"20260101T000000.000Z-lock-pg-pause-1": true, "runs": false, "2026-plans": false, "20260101T000000.000Z-": false} {
		file := filepath.Join(dir, name, "kept")
		for _, remove := range []func(string) error{Strip, Remove} {
			if err := os.MkdirAll(file, 0o755); err != nil {
				t.Fatal(err)
			}
			err := remove(filepath.Join(dir, name))
			if _, left := os.Stat(file); (err == nil) != is || (left != nil) != is {
				t.Errorf("%s: %v; what was in it: %v", name, err, left)
			}
		}
	}
	for _, path := range []string{"", ".", "..", "../..", "20260101T000000.000Z-x/../..", "/20260101T000000.000Z-x"} {
		if IsRun(path) {
			t.Errorf("%q is taken for a run's name", path)
		}
	}
}

func TestTheLinkToTheNewestRunGoesWithThatRunAndNothingElseDoes(t *testing.T) {
	const id = "20260101T000000.000Z-lock-pg-pause-1"
	point := func(runs string) error { return pointLatest(runs, id) }
	for name, c := range map[string]struct {
		make  func(runs string) error
		stays bool
	}{
		"its run is gone":  {point, false},
		"its run is there": {func(runs string) error { return errors.Join(os.Mkdir(filepath.Join(runs, id), 0o755), point(runs)) }, true},
		"it is no link":    {func(runs string) error { return os.WriteFile(filepath.Join(runs, latestLink), nil, 0o644) }, true},
		"there is none":    {func(string) error { return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			runs := t.TempDir()
			if err := c.make(runs); err != nil {
				t.Fatal(err)
			}
			if err := DropLatest(runs); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(filepath.Join(runs, latestLink)); (err == nil) != c.stays {
				t.Errorf("%v; it should stay: %v", err, c.stays)
			}
		})
	}
	runs := t.TempDir()
	if err := point(runs); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Clean(runs, 0); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(runs, latestLink)); err == nil {
		t.Error("cleaning leaves a link that leads nowhere")
	}
}
