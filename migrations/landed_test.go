package migrations_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// landed.sum holds one line per migration that has landed: SHA-256, two spaces, path. A landed file is never edited,
// because databases exist that have applied it as it was; a mistake is corrected by the next file. `sha256sum
// paydb/V9__what_it_does.sql >> landed.sum` lands a new one.
const landed = "landed.sum"

func TestLandedMigrationsAreNeverEdited(t *testing.T) {
	want := landedSums(t)
	files, err := filepath.Glob("*/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("find the migrations: %d files, %v", len(files), err)
	}
	for _, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(body)
		got := hex.EncodeToString(sum[:])
		switch listed, ok := want[f]; {
		case !ok:
			t.Errorf("%s is not in %s: add the line\n%s  %s", f, landed, got, f)
		case listed != got:
			t.Errorf("%s was edited after it landed: put it back as it was, and correct it in a new file", f)
		}
		delete(want, f)
	}
	for f := range want {
		t.Errorf("%s has landed and is gone", f)
	}
}

func landedSums(t *testing.T) map[string]string {
	t.Helper()
	body, err := os.ReadFile(landed)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(body)) {
		sum, file, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("%s has a line that is not a sum, two spaces and a path: %q", landed, line)
		}
		sums[file] = sum
	}
	return sums
}
