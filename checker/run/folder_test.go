package run

import (
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
