package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"fenceproof/checker/run"
	"fenceproof/checker/sweep"
	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"

	"github.com/spf13/cobra"
)

// sweepFlags are the flags of sweep as they were given.
type sweepFlags struct {
	backend, runs, doc string
	etcdMembers        int
	seed               uint64
}

// sweepDrive is how long each workload is driven: every cell comes twice, a delay outlasts the lease, and the one operator
// waits for a second where an answer does not come.
var sweepDrive = map[string]map[string]time.Duration{
	plan.LockWorkload:   {plan.BackendPG: 13 * time.Second, plan.BackendEtcd: 15 * time.Second},
	plan.PayoutWorkload: {plan.BackendPG: 10 * time.Second, plan.BackendEtcd: 12 * time.Second},
}

func sweepCommand() *cobra.Command {
	var f sweepFlags
	c := &cobra.Command{
		Use:   "sweep",
		Short: "Lose, duplicate and delay a message of every endpoint of the contract, and count what was carried out",
		Long: `Sweep runs both workloads under nemesis sweep: of every endpoint of the contract, answers are lost after the effect,
requests are sent twice, and requests arrive after the lease under which they were sent. A table says how often each was
carried out, by the requests that the servers had and by the rows in the stores' logs.

Exit status: 0 all invariants held, every cell was met and carried out as often as it must be; 1 an invariant was violated
or something was carried out too often or not at all; 2 inconclusive, or a cell was not met; 254 wrong usage, 255 the
harness itself failed.`,
		Example: `  fenceproof sweep
  fenceproof sweep --backend etcd --doc docs/nemeses.md`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return sweepAll(c, f) },
	}
	fs := c.Flags()
	fs.SortFlags = false
	choiceVar(fs, &f.backend, "backend", plan.BackendPG, plan.Backends(), "lock backend")
	fs.IntVar(&f.etcdMembers, "etcd-members", 0, "members of the etcd backend: 1, 3 or 5 (default 1)")
	fs.Uint64Var(&f.seed, "seed", 0, "seed of load and faults (default: drawn, and printed)")
	fs.StringVar(&f.runs, "runs", "runs", "folder of all runs")
	fs.StringVar(&f.doc, "doc", "", "put the table into this file as well, between the lines that mark its place")
	return c
}

func sweepAll(c *cobra.Command, f sweepFlags) error {
	if !c.Flags().Changed("seed") {
		f.seed = uint64(rand.Uint32())
	}
	if err := usable(f.runs); err != nil {
		return err
	}
	if err := f.placed(); err != nil {
		return usage("--doc: %w", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return &exitError{exitHarness, fmt.Errorf("find this program's folder: %w", err)}
	}
	ctx, stop := interruptible(c.Context())
	defer stop()
	var all sweep.Table
	status := verdict.ExitPass
	for _, workload := range []string{plan.LockWorkload, plan.PayoutWorkload} {
		p, err := f.plan(workload)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		v, t, err := sweepRun(ctx, run.Config{Plan: p, Fencing: run.FencingOn, Runs: f.runs, Bin: filepath.Dir(exe), Out: c.OutOrStdout(),
			Command: f.again()})
		if err == nil && ctx.Err() != nil { // interrupted: what there is was judged
			err = &exitError{status: cmp.Or(v.Exit, verdict.ExitOpen)}
		} else if err != nil {
			err = outcome(v, err)
		}
		var ended *exitError
		if errors.As(err, &ended) && cmp.Or(status, exitOfTable(&all)) == verdict.ExitViolated {
			ended.status = verdict.ExitViolated // found before, and stays one
		}
		if err != nil {
			return err
		}
		all.Add(t)
		if v.Exit == verdict.ExitViolated || status == verdict.ExitPass {
			status = v.Exit
		}
	}
	if err := f.show(c.OutOrStdout(), &all); err != nil {
		return &exitError{exitHarness, err}
	}
	if status = cmp.Or(status, exitOfTable(&all)); status != 0 {
		return &exitError{status: status}
	}
	return nil
}

// again is the command that does the same again.
func (f sweepFlags) again() string {
	s := fmt.Sprintf("bin/fenceproof sweep --backend %s --seed %d", f.backend, f.seed)
	if f.etcdMembers != 0 {
		s += fmt.Sprintf(" --etcd-members %d", f.etcdMembers)
	}
	return s
}

// placed tells whether the document has a place for the table, before anything is run for it.
func (f sweepFlags) placed() error {
	if f.doc == "" {
		return nil
	}
	doc, err := os.ReadFile(f.doc)
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	if _, err := (&sweep.Table{Backend: f.backend}).Into(string(doc)); err != nil {
		return fmt.Errorf("%s: %w", f.doc, err)
	}
	return nil
}

// plan is the sweep's plan of one workload.
func (f sweepFlags) plan(workload string) (plan.Plan, error) {
	p := plan.Plan{Workload: workload, Backend: f.backend, EtcdMembers: f.etcdMembers, Nemesis: plan.Sweep, Seed: f.seed, Drive: plan.Duration(sweepDrive[workload][f.backend])}
	if workload == plan.LockWorkload {
		l := run.DefaultLocks()
		p.Locks = &l
	} else {
		p.Executors, p.Accounts, p.Rate, p.Prepare = run.DefaultExecutors, run.DefaultAccounts, run.DefaultRate, plan.Duration(run.Prepare)
		p.Declines, p.LostReplies, p.LookupLag = run.DefaultDeclines, run.DefaultLostReplies, plan.Duration(run.DefaultLookupLag)
	}
	return plan.Generate(p)
}

// sweepRun does one run and reads its cells.
func sweepRun(ctx context.Context, cfg run.Config) (*verdict.Run, sweep.Table, error) {
	v, err := run.Verify(ctx, cfg)
	if err != nil {
		return v, sweep.Table{}, err
	}
	t, err := sweep.Read(run.HistoryDir(filepath.Join(cfg.Runs, v.ID)))
	return v, t, err
}

// show prints the table, and puts it into the document.
func (f sweepFlags) show(out io.Writer, t *sweep.Table) error {
	if err := t.Print(out); err != nil || f.doc == "" {
		return err
	}
	doc, err := os.ReadFile(f.doc)
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	text, err := t.Into(string(doc))
	if err != nil {
		return fmt.Errorf("%s: %w", f.doc, err)
	}
	if err := os.WriteFile(f.doc, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}

// exitOfTable is the exit status that the table alone stands for.
func exitOfTable(t *sweep.Table) int {
	switch {
	case t.Good():
		return verdict.ExitPass
	case t.Unmet():
		return verdict.ExitOpen
	default:
		return verdict.ExitViolated
	}
}
