package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"fenceproof/checker/history"
	"fenceproof/checker/invariant"
	"fenceproof/checker/linear"
	"fenceproof/checker/verdict"
	"fenceproof/deploy/local"
	"fenceproof/nemesis"
	"fenceproof/nemesis/plan"
	"fenceproof/reports"

	"golang.org/x/sync/errgroup"
)

// Times of the harness's own steps.
const (
	bootTimeout    = 60 * time.Second
	stopTimeout    = 20 * time.Second
	closeTimeout   = 60 * time.Second // each database may take 10 s to stop in order
	collectTimeout = 20 * time.Second
	goneTimeout    = time.Second // collectTimeout when the system did not start and nobody answers
	drainPoll      = 100 * time.Millisecond
)

// ErrNotBegun says that a run was cut short before anything of it was there.
var ErrNotBegun = errors.New("the run had not begun")

// ErrBoot says that the system under test did not start.
var ErrBoot = errors.New("the system did not start")

// state is one run while it is going on.
type state struct {
	cfg     Config
	id, dir string
	out     *progress
	ev      *evidence
	judge   *invariant.Judge
	stack   *local.Stack
	load    driver
	engine  *nemesis.Engine
	started time.Time
	rate    meter // of the status line; its watcher is its only user
}

// Verify does one run and writes verdict.json and the report. When ctx ends early it heals, judges what there is and
// reports that. The error is the harness's own failure; what the run found is in the verdict, which comes with the error
// once it is on disk.
func Verify(ctx context.Context, cfg Config) (*verdict.Run, error) {
	cfg = cfg.expecting()
	out := newProgress(cfg)
	found, err := prepare(ctx, cfg, out)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotBegun, context.Cause(ctx))
	}
	if err != nil {
		return nil, err
	}
	id, dir, err := makeFolder(cfg)
	if err != nil {
		return nil, err
	}
	release, err := Occupy(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	ev, err := openEvidence(dir, id, cfg, found.versions())
	if err != nil {
		return nil, err
	}
	r := &state{cfg: cfg, id: id, dir: dir, out: out, ev: ev, judge: invariant.NewJudge(cfg.settings()), started: time.Now()}
	r.load = r.newDriver()
	out.workload(r.load.phases())
	ev.rec.Subscribe(r.judge.Observe)
	planText, err := cfg.Plan.Write()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, planFile), planText, 0o644); err != nil {
		return nil, fmt.Errorf("keep the plan: %w", err)
	}
	r.out.say("plan", "%s", r.describe())
	r.out.say("plan", "the run's folder is %s", filepath.Join(cfg.Runs, id))
	runErr := r.live(ctx, found)
	v, err := r.conclude(runErr)
	if v == nil {
		return nil, errors.Join(runErr, err)
	}
	r.watched(v)
	err = errors.Join(err, r.dropData(v), Print(cfg.Out, v, cfg.Quiet))
	if err == nil {
		r.out.say("", "the report is %s", filepath.Join(cfg.Runs, id, reportFile))
	}
	return v, errors.Join(runErr, err)
}

func (r *state) describe() string {
	p := r.cfg.Plan
	if l := p.Locks; r.cfg.locks() {
		return fmt.Sprintf("seed %d: %s on %s, nemesis %s (%s), %d clients with %d sessions each, %.4g turns/s on %d keys for %s",
			p.Seed, p.Workload, p.Backend, p.Nemesis, steps(p), l.Clients, l.Sessions, l.Rate, l.Keys, p.Drive)
	}
	return fmt.Sprintf("seed %d: %s on %s, nemesis %s (%s), fencing %s, %d executors, %.4g payouts/s on %d accounts for %s",
		p.Seed, p.Workload, p.Backend, p.Nemesis, steps(p), r.cfg.Fencing, p.Executors, p.Rate, p.Accounts, p.Drive)
}

// steps says how many steps a plan has, and how many of its nemeses' gave way to others.
func steps(p plan.Plan) string {
	if p.GivenWay == 0 {
		return fmt.Sprintf("%d steps", len(p.Steps))
	}
	return fmt.Sprintf("%d steps; %d gave way", len(p.Steps), p.GivenWay)
}

// live is the part of the run in which processes run. Whatever happens, they are gone when it returns, and the history
// is closed.
func (r *state) live(ctx context.Context, found programs) (err error) {
	r.enter("boot")
	boot, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	r.stack, err = local.Boot(boot, local.Config{
		RunDir: r.dir, BinDir: r.cfg.Bin, Postgres: found.postgres, Backend: r.cfg.Plan.Backend, Etcd: found.etcd,
		EtcdMembers: r.cfg.Plan.EtcdMembers, Executors: r.cfg.Plan.Executors, LocksOnly: r.cfg.locks(), PayDB: guards(r.cfg.Plan), Env: environment(r.cfg), Volumes: volumes(r.cfg), Standby: standbyOf(r.cfg.Plan),
		Interpose: r.ev.interpose, BeforeServices: r.ev.attach, Progress: func(s string) { r.out.note("boot", s) },
	})
	if err != nil {
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), goneTimeout)
		defer cancel()
		if ctx.Err() != nil { // whatever it was doing was broken off, in the words of whoever was
			r.out.say("boot", "%v", err)
			r.ev.cut(context.Cause(ctx).Error() + " while it booted")
			return r.ev.collect(c)
		}
		r.ev.failed(err)
		return errors.Join(fmt.Errorf("%w: %w", ErrBoot, err), r.ev.collect(c))
	}
	if r.cfg.Keep { // of servers that are lost on the way as well
		r.stack.KeepData()
	}
	return r.end(ctx, r.work(ctx))
}

// work seeds, drives and breaks, heals and drains.
func (r *state) work(ctx context.Context) error {
	defer r.load.close()
	r.enter("seed")
	if err := r.load.seed(ctx); err != nil {
		return r.unlessCut(ctx, err)
	}
	on := target{Stack: r.stack, evidence: r.ev, seed: r.cfg.Plan.Seed}
	if slices.ContainsFunc(r.cfg.Plan.Steps, needsOperator) {
		var err error
		if on.operator, err = callOperator(r.stack); err != nil {
			return err
		}
		defer on.operator.close()
	}
	r.engine = nemesis.NewEngine(r.cfg.Plan, on, r.ev.rec)
	r.ev.rec.Subscribe(r.engine.Observe)
	ctx, end := r.watch(ctx)
	defer end()
	defer r.watchDeaths(ctx)()
	defer showWaits(r.ev.rec, r.clients(), r.pid)()
	r.enter("drive")
	err := r.drive(ctx)
	if of := (nemesis.RunbookError{}); errors.As(err, &of) { // nothing is healed that could be drained, and the log of the nemesis says why
		r.out.say("drive", "it ends here: %s", inLine(err.Error()))
		return r.unlessCut(ctx, nil)
	}
	if err := r.unlessCut(ctx, err); err != nil {
		return err
	}
	r.enter("drain")
	defer r.out.watch(r.status)()
	return r.unlessCut(ctx, r.load.drain(ctx))
}

// drive puts the workload to work while the nemesis breaks the system; both have ended, and all is healed, when it returns.
func (r *state) drive(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.rate = meter{at: time.Now()}
	defer r.out.watch(r.status)()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.load.drive(ctx) })
	g.Go(func() error {
		if err := r.engine.Run(ctx); err != nil {
			return fmt.Errorf("nemesis: %w", err)
		}
		return nil
	})
	g.Go(func() error { return intact(ctx, r.stack.Lost(), r.ev.rec, time.Duration(r.cfg.Plan.Drive)) })
	return g.Wait()
}

// unlessCut takes an interruption for what it is: the run is shorter, not broken.
func (r *state) unlessCut(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	r.ev.cut(context.Cause(ctx).Error())
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// end stops the services, takes the rest of the evidence and removes the stack. It does not hurry for ctx's end. err is
// what went wrong in the harness so far; it goes into the history while that is open.
func (r *state) end(ctx context.Context, err error) error {
	ctx = context.WithoutCancel(ctx)
	r.enter("collect")
	stop, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	err = errors.Join(err, r.stack.StopServices(stop))
	r.ev.failed(err)
	collect, done := r.answering(ctx)
	defer done()
	err = errors.Join(err, r.ev.collect(collect))
	if r.cfg.dataOutlivesServers() {
		r.stack.KeepData()
	}
	closing, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	return errors.Join(err, r.stack.Close(closing))
}

// answering ends with the time that collecting may take, or with the warden: then nobody answers any more.
func (r *state) answering(ctx context.Context) (answered context.Context, done func()) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-r.stack.Lost():
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(); watcher.Wait() }
}

// enter begins a phase.
func (r *state) enter(phase string) {
	r.ev.phase(phase)
	r.out.begin(phase)
}

// conclude judges the history as it is on disk, exactly as recheck does, and writes what people and machines read. What
// fails once the verdict is written does not take it back.
func (r *state) conclude(harness error) (*verdict.Run, error) {
	r.out.begin("judge")
	v, err := judge(r.dir, harness, linear.Options{Run: r.dir})
	if err != nil {
		return nil, err
	}
	if err := v.Write(r.dir); err != nil {
		return nil, err
	}
	r.out.begin("report")
	return v, errors.Join(writeReports(r.dir, v), pointLatest(r.cfg.Runs, r.id))
}

func writeReports(dir string, v *verdict.Run) error {
	if err := reports.Write(dir, *v, filepath.Join(dir, historyDir)); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, summaryFile), []byte(reports.Summary(*v)), 0o644); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	xml, err := reports.JUnit(*v)
	if err != nil {
		return fmt.Errorf("write the JUnit report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, junitFile), xml, 0o644); err != nil {
		return fmt.Errorf("write the JUnit report: %w", err)
	}
	return nil
}

// judge reads the history in dir and gives the verdict that follows from it, and from what went wrong in the harness
// besides: what came up after the history was closed.
func judge(dir string, harness error, search linear.Options) (*verdict.Run, error) {
	reader, err := history.Open(filepath.Join(dir, historyDir))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	h := reader.Header()
	rec, err := ReadRecorded(h)
	if err != nil {
		return nil, err
	}
	j := invariant.NewJudge(rec.Settings)
	unrecorded := reader.Unrecorded()
	j.NotRecorded(unrecorded...)
	var cut, failed string
	flaws := newFlaws(rec.Settings.Nemesis == plan.Script)
	if harness != nil {
		failed = harness.Error()
	}
	err = readAll(reader, func(e *history.Event) {
		switch {
		case e.W == history.Run && e.Op == history.OpInterrupted:
			cut = e.Msg
		case e.W == history.Run && e.Op == history.OpFailed && failed == "":
			failed = e.Msg
		}
		flaws.observe(e)
		j.Observe(e)
	})
	if err != nil {
		return nil, err
	}
	v := &verdict.Run{
		Schema: verdict.SchemaVersion, ID: h.RunID, Started: h.Started, Expect: rec.Expect, Settings: rec.Settings, Versions: h.Versions,
		Harness: failed, Invariants: j.Conclude(reader.Gaps()), Gaps: j.Gaps(), Unrecorded: unrecorded,
	}
	search.Unrecorded = unrecorded
	if linear.Applies(rec.Settings) {
		inv, err := linear.Judge(context.Background(), filepath.Join(dir, historyDir), rec.Settings, v.Gaps, search)
		if err != nil {
			return nil, err
		}
		v.Invariants = append(v.Invariants, inv)
	}
	c := j.Counts()
	v.Payouts, v.Refusals, v.Operations, v.Events = c.Payouts, c.Refusals, c.Operations, c.Events
	v.Conclude()
	qualify(v, cut, flaws)
	return v, nil
}
