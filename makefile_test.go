package fenceproof_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A mistyped variable would leave its default in force, and a value with blanks is still one value.
func TestTheMakefilePassesOnWhatItIsGivenAndRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		fails bool
		says  string
	}{
		"a value with blanks":           {[]string{"bench", "FLAGS=-only folds"}, false, "fenceproof-bench -only folds"},
		"several flags with values":     {[]string{"verify", "FLAGS=--rate 5 --payouts=3"}, false, "--rate 5 --payouts=3"},
		"blanks in a list":              {[]string{"verify", "NEMESIS=pause, kill"}, false, `--nemesis "pause, kill"`},
		"a mistyped variable":           {[]string{"verify", "NEMISIS=kill"}, true, "NEMISIS is no variable of this Makefile"},
		"a mistyped one with blanks":    {[]string{"verify", "FLAG=--rate 5"}, true, "FLAG is no variable of this Makefile"},
		"a soak of some cells":          {[]string{"soak", "NEMESIS=kill", "ROUNDS=2"}, false, `soak --nemesis "kill"`},
		"what a soak would drop":        {[]string{"soak", "ROUNDS=2", "FENCING=off", "EXECUTORS=3"}, true, "EXECUTORS FENCING: make soak takes no such variable"},
		"one run of a soak's list":      {[]string{"soak", "ONLY=kill"}, true, "ONLY: make soak takes no such variable; soak takes NEMESIS"},
		"one that is for others":        {[]string{"mutants", "SEED=7"}, true, "SEED: make mutants takes no such variable; mutants takes ONLY"},
		"tests of one nemesis":          {[]string{"test", "NEMESIS=kill"}, true, "NEMESIS: make test takes no such variable"},
		"a variable without a target":   {[]string{"SEED=7"}, true, "SEED: make help takes no such variable"},
		"what one of two targets takes": {[]string{"lint", "soak", "ROUNDS=1"}, false, `--rounds "1"`},
		"the same without a soak":       {[]string{"verify", "FENCING=off", "EXECUTORS=3"}, false, "--fencing off"},
		"nothing is built to clean":     {[]string{"clean"}, false, "bin/fenceproof clean --idle; else"},
		"clean without a program":       {[]string{"clean"}, false, "run ./checker/cmd/fenceproof clean --idle --bin bin; fi"},
		"every target is fuzzed":        {[]string{"fuzz", "FUZZTIME=5s"}, false, "-fuzztime 5s"},
		"golden histories by name":      {[]string{"golden", "FLAGS=-replace torn-tail"}, false, "run ./checker/golden/regenerate -replace torn-tail"},
		"a mistyped one behind others":  {[]string{"verify", "SEED=7", "FLAGS=--rate 5", "WORKLAOD=lock"}, true, "WORKLAOD is no variable of this Makefile"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "make", append([]string{"-n"}, c.args...)...)
			for _, v := range os.Environ() {
				if !strings.HasPrefix(v, "MAKE") && !strings.HasPrefix(v, "MFLAGS=") { // of a make that runs this test
					cmd.Env = append(cmd.Env, v)
				}
			}
			out, err := cmd.CombinedOutput()
			if (err != nil) != c.fails || !strings.Contains(string(out), c.says) {
				t.Errorf("make -n %q: %v\n%s\nwant %q in it", c.args, err, out, c.says)
			}
			if builds := strings.Contains(string(out), " build -o bin/"); builds != (!c.fails && !slices.Contains([]string{"clean", "fuzz", "golden"}, c.args[0])) {
				t.Errorf("make -n %q: that it builds is %v\n%s", c.args, builds, out)
			}
		})
	}
}
