package main

import (
	"fmt"
	"os"
	"path/filepath"

	"fenceproof/checker/run"

	"github.com/mattn/go-isatty"
	"github.com/spf13/pflag"
)

// surroundings are the flags of a run that say nothing about what is run: where it goes, what is kept, what is printed.
type surroundings struct {
	runs        string
	keep, quiet bool
}

func (s *surroundings) declare(fs *pflag.FlagSet) {
	fs.StringVar(&s.runs, "runs", "runs", "folder of all runs")
	fs.BoolVar(&s.keep, "keep", os.Getenv("KEEP") == "1", "keep the databases' folders after a pass (also KEEP=1)")
	fs.BoolVarP(&s.quiet, "quiet", "q", false, "print the verdict only")
}

// apply puts them into cfg, with this program's own folder as that of the binaries.
func (s surroundings) apply(cfg *run.Config) error {
	if err := named(s.runs); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return &exitError{exitHarness, fmt.Errorf("find this program's folder: %w", err)}
	}
	cfg.Runs, cfg.Bin, cfg.Keep, cfg.Quiet, cfg.Out = s.runs, filepath.Dir(exe), s.keep, s.quiet, terminal{unread{os.Stdout}}
	cfg.Live = isatty.IsTerminal(os.Stdout.Fd()) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return nil
}
