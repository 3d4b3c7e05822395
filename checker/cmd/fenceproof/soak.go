package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fenceproof/checker/doctor"
	"fenceproof/checker/run"
	"fenceproof/checker/soak"
	"fenceproof/deploy/local"
	"fenceproof/nemesis/plan"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// soakFlags are the flags of soak as they were given.
type soakFlags struct {
	soak.Settings
	into, doc string
}

func soakCommand() *cobra.Command {
	var f soakFlags
	c := &cobra.Command{
		Use:   "soak",
		Short: "Run nemeses, backends and workloads round after round, each round under another seed, and sum up",
		Long: `Soak cycles over all cells of nemesis, backend and workload, each round under the next seed, until its time is up or its
rounds are done. Each run is a process of its own. Cells that a backend or workload does not have, or that this machine cannot do, are
left out, and said to be; so is a run that the machine cannot do at its time, which is done when the soak is continued. What this
machine cannot do is named beside what passed. It stops at nothing but a failure of the harness. That its programs were replaced meanwhile is one as
well, and so is a run with another PostgreSQL or etcd than those before it had: what it has shown would be of two systems.
At its start it says how many runs a round has and about how long that takes, and warns where --duration is too short for it: a
soak of which a cell that it can do was never run is no pass. A seed draws the same mixes on every machine; one that this machine cannot do is left
out and named, as a cell is, and so is the cell of which the seeds drew nothing else.

Its folder holds a line per finished run (soak.ndjson), the summary (summary.json, summary.html), and the runs: of those
that passed the verdict, of those that were violated or in which the harness failed everything, and of those that were
inconclusive or not exercised everything of the newest 20. No run begins with less than 2 GB free. With --into and a folder
that is there, a soak that was interrupted goes on; flags that are not given are then as they were, and --drive,
--etcd-members and the programs cannot be others: another build takes a new folder. A run that was killed together with
its soak is judged by what it left: a violation counts and is kept, anything else is removed and done again. A run in
which the harness failed is done again as well, unless its verdict is on disk and not in doubt, or its history shows a violation: that
counts, and the failure is told beside.

Ctrl-C lets the runs that are going on heal and end, and counts none of them that has not found a violation. One that cannot
heal, or that has to be killed, is a failure of the harness as it is at any other time, and all that it left is kept.

Exit status, the worst of all runs: 0 pass, 1 violated, 2 inconclusive or not exercised, also where a cell was never run;
254 wrong usage, 255 the harness itself failed. Where it failed behind a run's verdict, the soak that goes on tells the failure
and has the verdict's status.`,
		Example: `  fenceproof soak --duration 8h
  fenceproof soak --rounds 9 --nemesis kill,pause+kill --backend etcd --jobs 2
  fenceproof soak --rounds 20 --nemesis pause,kill,partition --mixes 1
  fenceproof soak --into runs/soak-20260301T200000Z
  fenceproof soak summary runs/soak-* --doc docs/nemeses.md`,
		Args: knownSubcommand,
		RunE: func(c *cobra.Command, _ []string) error { return soakAll(c, f) },
	}
	f.declare(c.Flags())
	c.AddCommand(soakSummaryCommand())
	return c
}

// knownSubcommand names the subcommand that was probably meant.
func knownSubcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage("%s takes no argument %q; did you mean %q?", c.CommandPath(), args[0], "summary")
}

func (f *soakFlags) declare(fs *pflag.FlagSet) {
	fs.SortFlags = false
	fs.DurationVar(&f.Duration, "duration", 0, "begin no run after this long, counted from this start (0: no limit)")
	fs.IntVar(&f.Rounds, "rounds", 0, "run each cell so many times (0: as often as there is time)")
	fs.Uint64Var(&f.FirstSeed, "first-seed", 1, "seed of the first round; each round takes the next one")
	listVar(fs, &f.Nemeses, "nemesis", soak.Nemeses(), plan.Names(), "what breaks the system, in turn; a + makes a mix: pause+kill", true)
	fs.IntVar(&f.Mixes, "mixes", 0, "in each round, so many runs besides that two nemeses break at once, which the seed chooses")
	listVar(fs, &f.Backends, "backend", plan.Backends(), plan.Backends(), "lock backends", false)
	listVar(fs, &f.Workloads, "workload", plan.Workloads(), plan.Workloads(), "what drives the system", false)
	fs.IntVar(&f.Members, "etcd-members", 0, "members of the etcd backend, where it is among the backends: 1, 3 or 5 (default 1)")
	fs.DurationVar(&f.Drive, "drive", run.DefaultDrive, "how long each run is driven and broken, 1s to 1h")
	fs.IntVar(&f.Jobs, "jobs", 1, "runs at a time; 2 do on two cores")
	fs.StringVar(&f.into, "into", "", "folder of the soak (default runs/soak-<time>); one that is there is continued")
	fs.StringVar(&f.doc, "doc", "", "put the matrix into this file as well, between the lines that mark its place")
}

func soakAll(c *cobra.Command, f soakFlags) error {
	if c.Flags().Changed("into") && f.into == "" {
		return usage("--into needs the folder of a soak; without it a new one is made below runs")
	}
	if err := f.resume(c.Flags()); err != nil {
		return err
	}
	if err := f.Validate(); err != nil {
		return usage("%w", err)
	}
	if c.Flags().Changed("etcd-members") && f.Members != 0 && !slices.Contains(f.Backends, plan.BackendEtcd) {
		return usage("--etcd-members %d: no backend of these runs is etcd, which has 1, 3 or 5; add --backend etcd, or leave the members out", f.Members)
	}
	if f.doc != "" {
		if err := soak.Placed(f.doc); err != nil {
			return usage("--doc: %w", err)
		}
	}
	check := f.check(c.Context(), doctor.NewMachine())
	if _, _, err := f.Cells(check); err != nil {
		return usage("%w", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return &exitError{exitHarness, fmt.Errorf("find this program: %w", err)}
	}
	if f.into == "" {
		f.into = filepath.Join("runs", "soak-"+time.Now().UTC().Format("20060102T150405Z"))
	}
	ctx, stop := interruptible(c.Context())
	defer stop()
	return f.run(ctx, c, exe, check)
}

func (f soakFlags) run(ctx context.Context, c *cobra.Command, exe string, check soak.Check) error {
	out := harmless{c.OutOrStdout()}
	s, err := soak.Run(ctx, f.options(exe, check, out))
	switch {
	case s == nil && (errors.Is(err, soak.ErrInUse) || errors.Is(err, soak.ErrOtherBuild)):
		return usage("%w", err)
	case s == nil:
		return &exitError{exitHarness, err}
	}
	err = errors.Join(err, s.Print(out))
	if f.doc != "" {
		err = errors.Join(err, s.WriteInto(f.doc))
	}
	fmt.Fprintf(out, "the summary is %s\n", filepath.Join(f.into, "summary.html"))
	return soakStatus(s, err)
}

// options are those of the soak that exe does.
func (f soakFlags) options(exe string, check soak.Check, out io.Writer) soak.Options {
	return soak.Options{Settings: f.Settings, Into: f.into, Exe: exe, Programs: local.Programs(), Command: f.again(), Check: check, Out: out}
}

// soakStatus is the exit status of a soak. A violation that was found stays one, whatever failed besides.
func soakStatus(s *soak.Summary, err error) error {
	switch {
	case err != nil && s.Exit != 1:
		return &exitError{exitHarness, err}
	case err != nil || s.Exit != 0:
		return &exitError{s.Exit, err}
	}
	return nil
}

// check tells whether verify would take the arguments and this machine could do the run, as many at a time as there are to be.
func (f soakFlags) check(ctx context.Context, here *doctor.Machine) soak.Check {
	return func(args []string) error {
		p, err := takes(args)
		if err != nil {
			return err
		}
		needs := run.Needs(p)
		needs.Memory *= int64(f.Jobs)
		if err := here.Lacks(ctx, needs); err != nil {
			return fmt.Errorf("%w: %w", soak.ErrNotHere, err)
		}
		return nil
	}
}

// takes is the plan of a run, if verify would take the arguments, by its own flags.
func takes(args []string) (p plan.Plan, err error) {
	var f verifyFlags
	fs := pflag.NewFlagSet("verify", pflag.ContinueOnError)
	f.declare(fs)
	if err := fs.Parse(args[1:]); err != nil {
		return p, err
	}
	if p, err = f.plan(fs); err != nil {
		return p, err
	}
	_, err = f.config(p, fs)
	return p, err
}

// resume takes the settings of a soak that is there for all flags that were not given.
func (f *soakFlags) resume(given *pflag.FlagSet) error {
	if f.into == "" {
		return nil
	}
	switch begun, err := soak.Begun(f.into); {
	case err != nil:
		return usage("--into: %w", err)
	case !begun:
		return nil
	}
	before, err := soak.Read(f.into)
	if err != nil {
		return usage("--into: %w", err)
	}
	old, now := before.Settings(), &f.Settings
	switch { // what was run before would pass for what never was
	case given.Changed("drive") && now.Drive != old.Drive:
		return usage("--drive %s: the soak in %s drives its runs for %s; begin another one for other runs", now.Drive, f.into, old.Drive)
	case given.Changed("etcd-members") && cmp.Or(now.Members, 1) != cmp.Or(old.Members, 1):
		return usage("--etcd-members %d: the soak in %s has %d; begin another one for other runs", now.Members, f.into, cmp.Or(old.Members, 1))
	}
	for name, take := range map[string]func(){
		"duration": func() { now.Duration = old.Duration }, "rounds": func() { now.Rounds = old.Rounds },
		"first-seed": func() { now.FirstSeed = old.FirstSeed }, "nemesis": func() { now.Nemeses = old.Nemeses },
		"mixes": func() { now.Mixes = old.Mixes }, "backend": func() { now.Backends = old.Backends },
		"workload": func() { now.Workloads = old.Workloads }, "etcd-members": func() { now.Members = old.Members },
		"drive": func() { now.Drive = old.Drive }, "jobs": func() { now.Jobs = old.Jobs },
	} {
		if !given.Changed(name) {
			take()
		}
	}
	return nil
}

// again is the command that does the same again.
func (f soakFlags) again() string {
	b := []string{"bin/fenceproof soak"}
	add := func(name, value, def string) {
		if value != def {
			b = append(b, "--"+name, quoted(value))
		}
	}
	add("duration", f.Duration.String(), "0s")
	add("rounds", fmt.Sprint(f.Rounds), "0")
	add("first-seed", fmt.Sprint(f.FirstSeed), "1")
	add("nemesis", strings.Join(f.Nemeses, ","), "") // those there are may become more
	add("mixes", fmt.Sprint(f.Mixes), "0")
	add("backend", strings.Join(f.Backends, ","), strings.Join(plan.Backends(), ","))
	add("workload", strings.Join(f.Workloads, ","), strings.Join(plan.Workloads(), ","))
	add("etcd-members", fmt.Sprint(f.Members), "0")
	add("drive", f.Drive.String(), run.DefaultDrive.String())
	add("jobs", fmt.Sprint(f.Jobs), "1")
	return strings.Join(b, " ")
}

func soakSummaryCommand() *cobra.Command {
	var doc string
	c := &cobra.Command{
		Use:   "summary FOLDER...",
		Short: "Sum up what soaks have left in their folders, and run nothing",
		Long: `Summary prints what the soaks in the folders have shown, as one table over all of them, and writes summary.json and
summary.html into a folder again where it is the only one. Folders may have runs of the same cell and seed: of those that
the same build made one counts, with the worse status, and all others count.

Each line is compared with the verdict of its run. Lines that say otherwise are refused. A run whose verdict is gone is named, and
without it a soak is inconclusive at best; a violation stays one. Runs that were begun and not brought to their end, because the soak
was killed, are named as well: the soak that goes on (--into) judges them. A verdict other than a pass that such a run has written
counts at once. While the soak is going on a violation does.

Exit status, the worst of all runs, as for a soak: 0 pass, 1 violated, 2 inconclusive or not exercised, also where a cell was never
run; 254 wrong usage, or lines that are not whole or not true, 255 where the harness failed in a run that was not done again since, or the summary could not be written.
A soak ends with 255 also where the harness failed behind a run's verdict. That verdict counts, so here the failure is told beside
it and changes no status.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s takes the folders of soaks, for example runs/soak-20260301T200000Z", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return soakSummary(c, args, doc) },
	}
	c.Flags().StringVar(&doc, "doc", "", "put the matrix into this file as well, between the lines that mark its place")
	return c
}

func soakSummary(c *cobra.Command, dirs []string, doc string) error {
	if doc != "" {
		if err := soak.Placed(doc); err != nil {
			return usage("--doc: %w", err)
		}
	}
	dirs, err := distinct(dirs)
	if err != nil {
		return err
	}
	var folders []*soak.Folder
	for _, dir := range dirs {
		f, err := soak.Read(dir)
		if err != nil {
			return usage("%w", err)
		}
		folders = append(folders, f)
	}
	s := soak.Summarise(folders...)
	if len(folders) == 1 {
		s, err = folders[0].Summarise()
	}
	err = errors.Join(err, s.Print(harmless{c.OutOrStdout()}))
	if doc != "" {
		err = errors.Join(err, s.WriteInto(doc))
	}
	return soakStatus(s, err)
}

// distinct are the folders, each once, by whatever names they were given.
func distinct(dirs []string) ([]string, error) {
	var names []string
	var seen []os.FileInfo
	for _, dir := range dirs {
		is, err := os.Stat(dir)
		if err != nil {
			return nil, usage("%s is no soak's folder: %w", dir, err)
		}
		if slices.ContainsFunc(seen, func(other os.FileInfo) bool { return os.SameFile(is, other) }) {
			continue
		}
		names, seen = append(names, dir), append(seen, is)
	}
	return names, nil
}

// soaksLeft says how many soaks have their folders in runs: what they found is evidence, and nothing but a hand removes it.
func soaksLeft(w io.Writer, runs string) error {
	entries, err := os.ReadDir(runs)
	if err != nil {
		return fmt.Errorf("look for the folders of soaks: %w", err)
	}
	n := 0
	for _, e := range entries {
		if e.IsDir() && soak.Exists(filepath.Join(runs, e.Name())) {
			n++
		}
	}
	switch n {
	case 0:
	case 1:
		_, err = fmt.Fprintf(w, "1 soak stays in %s; remove its folder by hand\n", runs)
	default:
		_, err = fmt.Fprintf(w, "%d soaks stay in %s; remove their folders by hand\n", n, runs)
	}
	return err
}
