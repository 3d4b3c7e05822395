package run

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"fenceproof/checker/synthetic"
	"fenceproof/checker/verdict"
)

func TestAVerdictThatIsWrittenIsGivenWhateverFailsAfterIt(t *testing.T) {
	for name, spoil := range map[string]func(runs, dir string) error{
		"the report":      func(_, dir string) error { return os.Mkdir(filepath.Join(dir, reportFile), 0o755) },
		"the summary":     func(_, dir string) error { return os.Mkdir(filepath.Join(dir, summaryFile), 0o755) },
		"the latest link": func(runs, _ string) error { return os.Mkdir(filepath.Join(runs, latestLink), 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			runs := t.TempDir()
			r := &state{cfg: Config{Runs: runs}, id: "run", dir: filepath.Join(runs, "run"), out: newProgress(Config{Out: io.Discard})}
			if _, err := synthetic.Write(HistoryDir(r.dir), synthetic.Options{Seed: 1, Events: 2000, Violation: synthetic.PaidTwice}); err != nil {
				t.Fatal(err)
			}
			if err := spoil(runs, r.dir); err != nil {
				t.Fatal(err)
			}
			v, err := r.conclude(nil)
			if err == nil || v == nil || v.Exit != verdict.ExitViolated {
				t.Fatalf("%+v, %v", v, err)
			}
			if kept, err := verdict.Read(r.dir); err != nil || kept.Exit != v.Exit {
				t.Errorf("%+v, %v", kept, err)
			}
		})
	}
}
