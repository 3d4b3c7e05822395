package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"fenceproof/checker/run"
	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// verifyFlags are the flags of verify as they were given.
type verifyFlags struct {
	workload, backend, nemesis string
	fencing                    run.Fencing
	duration, prepare          time.Duration
	etcdMembers                int
	executors, accounts        int
	rate                       float64
	payouts                    int
	seed                       uint64
	rail                       railFlags
	locks                      lockFlags
	expect                     string
	control, planOnly          bool
	planFile                   string
	surroundings
}

func verifyCommand() *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use:   "verify",
		Short: "Run the system, break it, judge it, write the report",
		Example: `  fenceproof verify --nemesis pause
  fenceproof verify --nemesis pause --fencing rail-off --control
  fenceproof verify --workload lock --nemesis pause
  fenceproof verify --backend etcd --etcd-members 3
  fenceproof verify --nemesis pause --seed 7 --plan-only > plan.json
  fenceproof verify --plan plan.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return verify(c, f) },
	}
	f.declare(c.Flags())
	return c
}

// declare puts the flags into fs.
func (f *verifyFlags) declare(fs *pflag.FlagSet) {
	fs.SortFlags = false
	choicesVar(fs, &f.nemesis, "nemesis", string(plan.Pause), plan.Names(), "what breaks the system")
	choiceVar(fs, &f.workload, "workload", plan.PayoutWorkload, plan.Workloads(), "what drives it")
	choiceVar(fs, &f.backend, "backend", plan.BackendPG, plan.Backends(), "lock backend")
	fs.IntVar(&f.etcdMembers, "etcd-members", 0, "members of the etcd backend: 1, 3 or 5 (default 1)")
	choiceVar(fs, &f.fencing, "fencing", run.FencingOn, run.Fencings(), "which fence points refuse stale tokens")
	fs.DurationVar(&f.duration, "duration", run.DefaultDrive, "how long to drive and break, 1s to 1h")
	fs.IntVar(&f.executors, "executors", run.DefaultExecutors, "payout executors")
	fs.IntVar(&f.accounts, "accounts", run.DefaultAccounts, "accounts that payouts are drawn from")
	fs.Float64Var(&f.rate, "rate", run.DefaultRate, "payouts per second offered")
	fs.IntVar(&f.payouts, "payouts", 0, "offer at most this many payouts (0: no limit)")
	f.rail.register(fs)
	f.locks.register(fs)
	fs.DurationVar(&f.prepare, "prepare", run.Prepare, "work of an executor between its last check and its write")
	fs.Uint64Var(&f.seed, "seed", 0, "seed of load and faults (default: drawn, and printed)")
	fs.StringVar(&f.planFile, "plan", "", "replay the plan in this file; flags given beside it override its load")
	fs.BoolVar(&f.planOnly, "plan-only", false, "print the plan and do nothing")
	fs.BoolVar(&f.control, "control", false, "negative control: succeed only if exactly what --fencing must break is violated")
	fs.StringVar(&f.expect, "expect", "", "the same with invariants of your own: INV-02,INV-05,INV-03? (? means may)")
	f.surroundings.declare(fs)
}

func verify(c *cobra.Command, f verifyFlags) error {
	if c.Flags().Changed("expect") && f.expect == "" {
		return usage("--expect is empty; name what must be violated, for example INV-02,INV-05,INV-03?")
	}
	p, err := f.plan(c.Flags())
	if err != nil {
		return &exitError{exitUsage, err}
	}
	cfg, err := f.config(p, c.Flags())
	if err != nil {
		return err
	}
	if f.planOnly { // it is printed only if it could be run
		b, err := p.Write()
		if err != nil {
			return &exitError{exitHarness, err}
		}
		_, err = c.OutOrStdout().Write(b)
		return err
	}
	if err := folder("--runs", f.runs); err != nil {
		return err
	}
	ctx, stop := interruptible(c.Context())
	defer stop()
	return outcome(run.Verify(ctx, cfg))
}

// outcome is the exit status of a run. A violation that was found stays one, whatever failed besides.
func outcome(v *verdict.Run, err error) error {
	switch {
	case err != nil && v != nil && v.Exit == verdict.ExitViolated:
		return &exitError{verdict.ExitViolated, err}
	case errors.Is(err, run.ErrNotBegun):
		return &exitError{verdict.ExitOpen, err}
	case errors.Is(err, run.ErrNotHere):
		return &exitError{run.ExitNotHere, err}
	case err != nil:
		return &exitError{exitHarness, err}
	case v.Exit != verdict.ExitPass:
		return &exitError{status: v.Exit}
	}
	return nil
}

// plan is the plan that the flags describe, or that of the plan file with the flags' load.
func (f verifyFlags) plan(fs *pflag.FlagSet) (plan.Plan, error) {
	if fs.Changed("plan") && f.planFile == "" {
		return plan.Plan{}, errors.New("--plan is empty; name the plan's file, or - for standard input")
	}
	if (f.planFile == "" || fs.Changed("duration")) && (f.duration < run.MinDrive || f.duration > plan.MaxDrive) {
		return plan.Plan{}, fmt.Errorf("--duration is %s; at least %s, at most %s", f.duration, run.MinDrive, plan.MaxDrive)
	}
	if f.planFile != "" {
		p, err := plan.Read(f.planFile)
		if err != nil {
			return plan.Plan{}, err
		}
		if fs.Changed("nemesis") {
			return plan.Plan{}, errors.New("--nemesis and --plan exclude one another: the plan file says what breaks")
		}
		f.override(&p, fs)
		if err := fits(p.Workload, fs); err != nil {
			return plan.Plan{}, err
		}
		return p, p.Validate()
	}
	if err := fits(f.workload, fs); err != nil {
		return plan.Plan{}, err
	}
	if !fs.Changed("seed") {
		f.seed = uint64(rand.Uint32()) // short enough to type again
	}
	p, err := plan.Generate(f.load(fs))
	if err != nil || f.nemesis != string(plan.Pause) || f.fencing != run.FencingOn {
		return p, err
	}
	p = plan.WithServicePauses(p)
	return p, p.Validate()
}

// load is the plan that the flags describe, before anything breaks.
func (f verifyFlags) load(fs *pflag.FlagSet) plan.Plan {
	p := plan.Plan{Workload: f.workload, Backend: f.backend, EtcdMembers: f.etcdMembers, Nemesis: f.nemesis, Seed: f.seed, Drive: plan.Duration(f.duration)}
	if f.workload == plan.LockWorkload {
		p.Locks = f.locks.plan()
		if !fs.Changed("lapses") {
			p.Locks.Lapses = run.DefaultLapses(p)
		}
		return p
	}
	p.Executors, p.Accounts, p.Rate, p.Payouts, p.Prepare = f.executors, f.accounts, f.rate, f.payouts, plan.Duration(f.prepare)
	rail := f.rail.in(f.fencing, fs)
	p.Declines, p.LostReplies, p.LookupLag = rail.declines, rail.lostReplies, plan.Duration(rail.lookupLag)
	return p
}

func (f verifyFlags) override(p *plan.Plan, fs *pflag.FlagSet) {
	for name, set := range f.overrides(p) {
		if fs.Changed(name) {
			set()
		}
	}
}

// overrides sets, by the name of the flag, what a flag may change in the plan of a file.
func (f verifyFlags) overrides(p *plan.Plan) map[string]func() {
	all := map[string]func(){
		"workload": func() { p.Workload = f.workload }, "backend": func() { p.Backend = f.backend },
		"etcd-members": func() { p.EtcdMembers = f.etcdMembers },
		"seed":         func() { p.Seed = f.seed }, "executors": func() { p.Executors = f.executors },
		"accounts": func() { p.Accounts = f.accounts }, "rate": func() { p.Rate = f.rate },
		"payouts": func() { p.Payouts = f.payouts }, "duration": func() { p.Drive = plan.Duration(f.duration) },
		"prepare": func() { p.Prepare = plan.Duration(f.prepare) }, "declines": func() { p.Declines = f.rail.declines },
		"lost-replies": func() { p.LostReplies = f.rail.lostReplies }, "lookup-lag": func() { p.LookupLag = plan.Duration(f.rail.lookupLag) },
	}
	maps.Copy(all, f.locks.overrides(p))
	return all
}

func (f verifyFlags) config(p plan.Plan, fs *pflag.FlagSet) (run.Config, error) {
	cfg := run.Config{Plan: p, Fencing: f.fencing, Command: f.again(p, fs)}
	if err := f.surroundings.apply(&cfg); err != nil {
		return cfg, err
	}
	switch {
	case f.control && f.expect != "":
		return cfg, usage("--control and --expect exclude one another")
	case f.control:
		if cfg.Expect = f.fencing.Control(); cfg.Expect == nil {
			return cfg, usage("--control needs a fence point that is off: --fencing payment-off, rail-off or off")
		}
		if err := controllable(p); err != nil {
			return cfg, err
		}
	case f.expect != "":
		e, err := verdict.ParseExpectation(f.expect)
		if err != nil {
			return cfg, usage("--expect: %w", err)
		}
		cfg.Expect = &e
		if err := cfg.CheckExpectation(); err != nil {
			return cfg, usage("--expect %s: %w", f.expect, err)
		}
	}
	if err := cfg.Check(); err != nil {
		return cfg, usage("--fencing: %w", err)
	}
	return cfg, nil
}

// again is the command that does the same run again. fs are the flags as they were given.
func (f verifyFlags) again(p plan.Plan, fs *pflag.FlagSet) string {
	b := []string{"bin/fenceproof verify"}
	add := func(name, value, def string) {
		if value != def {
			b = append(b, "--"+name, quoted(value))
		}
	}
	if f.planFile != "" {
		add("plan", f.planFile, "")
		fs.Visit(func(flag *pflag.Flag) { // in the order of their names
			if f.overrides(&p)[flag.Name] != nil {
				add(flag.Name, flag.Value.String(), "")
			}
		})
	} else {
		add("workload", p.Workload, plan.PayoutWorkload)
		add("backend", p.Backend, plan.BackendPG)
		add("etcd-members", fmt.Sprint(p.EtcdMembers), "0")
		b = append(b, "--nemesis", p.Nemesis, "--seed", fmt.Sprint(p.Seed))
		add("duration", p.Drive.String(), run.DefaultDrive.String())
		f.loadAgain(p, add)
	}
	if p.Workload != plan.LockWorkload {
		b = append(b, "--fencing", string(f.fencing))
	}
	if f.control {
		b = append(b, "--control")
	}
	add("expect", f.expect, "")
	return strings.Join(b, " ")
}

// loadAgain names the flags of p's load that are not the defaults.
func (f verifyFlags) loadAgain(p plan.Plan, add func(name, value, def string)) {
	if p.Workload == plan.LockWorkload {
		f.locks.again(p, add)
		return
	}
	add("executors", fmt.Sprint(p.Executors), fmt.Sprint(run.DefaultExecutors))
	add("accounts", fmt.Sprint(p.Accounts), fmt.Sprint(run.DefaultAccounts))
	add("rate", fmt.Sprint(p.Rate), fmt.Sprint(run.DefaultRate))
	add("payouts", fmt.Sprint(p.Payouts), "0")
	add("prepare", p.Prepare.String(), run.Prepare.String())
	f.rail.again(p, f.fencing, add)
}

// quoted is s as a shell takes it for one word.
func quoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:,=+@%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
