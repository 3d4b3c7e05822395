package soak

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fenceproof/checker/verdict"
)

// The runs say which PostgreSQL they were made with, as verify does: that of the file pg.
func TestASoakEndsWhereItsDatabaseIsOfAnotherVersion(t *testing.T) {
	const says = "the run was made with postgres 17.1, and those before it with 16.14: begin another soak in a new folder, or put that back"
	for name, c := range map[string]struct {
		script, after string // how a run ends, and what is installed after it
		before        int    // rounds before another version is there
		exit, counted int    // the status with the other version, and the runs that count then
	}{
		"between two starts":      {"verdict 0 pass", "16.14", 2, verdict.ExitHarness, 2},
		"during a soak":           {"verdict 0 pass", "17.1", 0, verdict.ExitHarness, 1},
		"in a run that found one": {`if [ $seed = 3 ]; then verdict 1 violated; else verdict 0 pass; fi`, "16.14", 2, verdict.ExitViolated, 3},
	} {
		t.Run(name, func(t *testing.T) {
			o, out := scriptedSoak(t, scripted(t, `pg=${0%/*}/pg
[ ! -e "$pg.stays" ] || dir=$(echo "$dir" | sed s/20260102/20260103/) # a run that is done again has a folder of its own
`+c.script+`
sed -i "s/\"schema\":1/\"schema\":1,\"versions\":{\"postgres\":\"$(cat "$pg")\"}/" "$dir/verdict.json"
[ -e "$pg.stays" ] || echo `+c.after+` >"$pg"
[ $seed != 3 ] || grep -q '"exit":0' "$dir/verdict.json"`), c.before)
			pg := filepath.Join(filepath.Dir(o.Exe), "pg")
			install := func(version string) {
				t.Helper()
				if err := os.WriteFile(pg, []byte(version+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			install("16.14")
			if c.before > 0 {
				if s, err := Run(t.Context(), o); err != nil || s.Counts.Pass != c.before {
					t.Fatalf("with the same version: %v, %+v\n%s", err, s, out)
				}
				install("17.1")
			}
			o.Rounds = 3
			s, err := Run(t.Context(), o)
			if !errors.Is(err, ErrHarness) || !strings.Contains(err.Error(), says) || s.Exit != c.exit || s.Counts.Runs != c.counted {
				t.Fatalf("%v, %+v\n%s", err, s, out)
			}
			install("16.14")
			if err := os.WriteFile(pg+".stays", nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if s, err := Run(t.Context(), o); err != nil || s.Counts.Runs != 3 || len(s.Failures) != 0 {
				t.Errorf("with the version that it was begun with: %v, %+v\n%s", err, s, out)
			}
		})
	}
}
