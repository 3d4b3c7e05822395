// Command fenceproof-bench measures what the suite is held to, each thing beside what it is compared with, and writes
// the table in docs/benchmarks.md. `make bench` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"fenceproof/checker/doctor"
	"fenceproof/checker/linear"
	"fenceproof/deploy/local/warden"
)

// options are the flags.
type options struct {
	only    string
	out     string
	events  int
	rounds  int
	measure time.Duration
	open    int
	bin     string // folder of the services' binaries
	work    string // folder for histories and runs, removed again
}

func main() {
	warden.RunIfAsked()
	linear.RunIfAsked()
	doctor.RunIfAsked()
	if len(os.Args) == 4 && os.Args[1] == readCommand {
		exit(readHistory(os.Args[2], os.Args[3]))
		return
	}
	exit(bench(os.Args[1:]))
}

func exit(err error) {
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "fenceproof-bench: %v\n", err)
		os.Exit(1)
	}
}

// part is something to measure, and the name of its section on the page.
type part struct {
	name    string
	measure func(context.Context, options) (section, error)
}

// parts are what can be measured, in the order of the page.
var parts = []part{{"folds", measureFolds}, {"load", measureLoad}, {"locks", measureLocks}}

func parse(args []string) (o options, err error) {
	fs := flag.NewFlagSet("fenceproof-bench", flag.ContinueOnError)
	fs.StringVar(&o.only, "only", "", "measure only these, separated by commas: folds, load, locks; the page keeps the others' last numbers")
	fs.StringVar(&o.out, "o", filepath.Join("docs", "benchmarks.md"), "page whose generated sections are replaced; \"\" prints only")
	fs.IntVar(&o.events, "events", 1_000_000, "events of the history that the folds judge")
	fs.IntVar(&o.rounds, "rounds", 5, "alternating rounds of folds and decoding; load takes 3 at most")
	fs.DurationVar(&o.measure, "measure", 10*time.Second, "length of one measurement under load")
	fs.IntVar(&o.open, "open", 128, "payouts kept open under load")
	if err := fs.Parse(args); err != nil {
		return o, err //nolint:wrapcheck // the flag package says it all
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag; -h lists them", fs.Arg(0))
	}
	for _, name := range o.names() {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return o, fmt.Errorf("-only %s: there are folds, load and locks", name)
		}
	}
	for _, f := range []struct {
		name string
		n    int
	}{{"events", o.events}, {"rounds", o.rounds}, {"open", o.open}} {
		if f.n < 1 {
			return o, fmt.Errorf("-%s %d: there must be at least one", f.name, f.n)
		}
	}
	if o.measure <= 0 {
		return o, fmt.Errorf("-measure %s: it takes time to measure", o.measure)
	}
	exe, err := os.Executable()
	if err != nil {
		return o, fmt.Errorf("find this program's folder: %w", err)
	}
	o.bin = filepath.Dir(exe)
	return o, nil
}

func (o options) names() []string {
	if o.only == "" {
		return nil
	}
	return strings.Split(o.only, ",")
}

func bench(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.work, err = os.MkdirTemp("", "fenceproof-bench-"); err != nil {
		return fmt.Errorf("make a folder to work in: %w", err)
	}
	defer os.RemoveAll(o.work)
	for _, p := range parts {
		if names := o.names(); names != nil && !slices.Contains(names, p.name) {
			continue
		}
		before := conditions()
		s, err := p.measure(ctx, o)
		if err != nil {
			return fmt.Errorf("measure %s: %w", p.name, err)
		}
		s.conditions = before.until(conditions())
		fmt.Println(s.markdown())
		if o.out != "" {
			if err := replace(o.out, p.name, s.markdown()); err != nil {
				return err
			}
		}
	}
	return nil
}
