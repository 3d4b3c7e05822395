package run

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"fenceproof/checker/verdict"
)

// The data is what shows how it came to a violation that nobody had asked for, and what an unfinished run had come to. A control
// that has shown what it was asked for, and a violation that a nemesis declares, have status 0 as well.
func TestTheDataIsRemovedBehindARunThatCameOutAsItShouldAndStaysBehindEveryOther(t *testing.T) {
	for _, c := range []struct {
		name string
		exit int
		keep bool
		gone bool
	}{
		{"as it should", verdict.ExitPass, false, true},
		{"as it should, and it was asked for", verdict.ExitPass, true, false},
		{"violated", verdict.ExitViolated, false, false},
		{"inconclusive or not exercised", verdict.ExitOpen, false, false},
		{"the harness failed", verdict.ExitHarness, false, false},
	} {
		dir := t.TempDir()
		data := filepath.Join(dir, "data")
		if err := errors.Join(os.MkdirAll(filepath.Join(data, "paydb"), 0o700), os.WriteFile(filepath.Join(data, "paydb", "PG_VERSION"), []byte("16"), 0o600)); err != nil {
			t.Fatal(err)
		}
		r := &state{cfg: Config{Keep: c.keep}, dir: dir}
		if err := r.dropData(&verdict.Run{Exit: c.exit}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := os.Stat(data); errors.Is(err, os.ErrNotExist) != c.gone {
			t.Errorf("%s: its data: %v", c.name, err)
		}
	}
}

// Whether it is needed is not known before the verdict is. Whoever does many short runs for what falls in them needs none.
func TestTheDataOutlivesItsServersUnlessARunIsWatched(t *testing.T) {
	for want, all := range map[bool][]Config{true: {{}, {Keep: true}, {Keep: true, Watch: &Watch{}}}, false: {{Watch: &Watch{}}}} {
		for _, c := range all {
			if got := c.dataOutlivesServers(); got != want {
				t.Errorf("with Keep %t, watched %t: %t", c.Keep, c.Watch != nil, got)
			}
		}
	}
}
