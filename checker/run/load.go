package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/invariant"
	"fenceproof/deploy/local"
	"fenceproof/deploy/postgres"
	"fenceproof/nemesis/plan"
	"fenceproof/workloads"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// Load is a measurement of what the whole system gets done in a closed loop, with nothing broken: the services run on
// their own defaults, but for the rail, which answers at once, and the executors' poll.
type Load struct {
	Bin       string  // folder of the services' binaries
	Runs      string  // where the run's folder is made; it is removed again
	Watched   Watched // who looks on
	Executors int
	Accounts  int
	Open      int           // payouts kept open
	Warm      time.Duration // before the measurement
	Measure   time.Duration
	Seed      uint64
	Progress  func(string)
}

// Watched says how much of the evidence is taken.
type Watched string

// The degrees. Every hop is a link in all of them.
const (
	WatchedByAll       Watched = "all witnesses and the live judge"
	WatchedNotOnWire   Watched = "all but the wiretap"
	WatchedByNobody    Watched = "no witness"
	loadPoll                   = 50 * time.Millisecond
	loadOpenBound              = 1_000_000 // payouts that the accounts' funds suffice for
	loadShutdownWithin         = 40 * time.Second
)

// Loaded is what a Load has measured.
type Loaded struct {
	PerSecond float64 // payouts posted per second
	Events    int64   // recorded, from the boot on
	Found     int64   // violations
	Lag       Lag     // of the live judge, during the measurement
}

// MeasureLoad boots the system, drives it in a closed loop, and takes it down again.
func MeasureLoad(ctx context.Context, l Load) (out Loaded, err error) {
	pg, err := postgres.Prepare(ctx, l.Progress)
	if err != nil {
		return out, fmt.Errorf("prepare PostgreSQL: %w", err)
	}
	cfg := Config{Plan: plan.Plan{Workload: "payout", Backend: "pg", Nemesis: "none", Seed: l.Seed, Executors: l.Executors, Accounts: l.Accounts,
		Rate: 1, Drive: plan.Duration(l.Warm + l.Measure)}, Fencing: FencingOn, Runs: l.Runs, Bin: l.Bin, Out: io.Discard, Quiet: true}
	id, dir, err := makeFolder(cfg)
	if err != nil {
		return out, err
	}
	release, err := Occupy(dir)
	if err != nil {
		return out, err
	}
	defer func() {
		release()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	ev, err := openEvidence(dir, id, cfg, programs{postgres: pg}.versions())
	if err != nil {
		return out, err
	}
	judge := invariant.NewJudge(cfg.settings())
	lag := &lagMeter{now: ev.rec.Now, judge: judge}
	if l.Watched == WatchedByAll {
		ev.rec.Subscribe(judge.Observe)
		ev.rec.Subscribe(lag.observe)
	}
	out, err = l.measure(ctx, dir, pg, ev, lag)
	out.Events, out.Found = judge.Counts().Events, judge.Found()
	return out, err
}

// measure is the part in which processes run; they are gone when it returns.
func (l Load) measure(ctx context.Context, dir string, pg *postgres.Installation, ev *evidence, lag *lagMeter) (out Loaded, err error) {
	stack := local.Config{RunDir: dir, BinDir: l.Bin, Postgres: pg, Executors: l.Executors, Env: l.environment()}
	if l.Watched == WatchedByAll {
		stack.Interpose = ev.interpose
	}
	if l.Watched != WatchedByNobody {
		stack.BeforeServices = ev.attach
	}
	boot, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	s, err := local.Boot(boot, stack)
	down, cancelDown := context.WithTimeout(context.WithoutCancel(ctx), loadShutdownWithin+l.Warm+l.Measure)
	defer cancelDown()
	if err != nil {
		return out, errors.Join(fmt.Errorf("boot the stack: %w", err), ev.collect(down))
	}
	out, err = l.drive(ctx, s, lag)
	return out, errors.Join(err, s.StopServices(down), ev.collect(down), s.Close(down))
}

func (l Load) environment() map[string]map[string]string {
	env := map[string]map[string]string{string(contract.RailStub): {"RAIL_STUB_LATENCYMS": "0"}}
	for n := range l.Executors {
		env[string(contract.Executor(n+1))] = map[string]string{"EXECUTOR_POLL": loadPoll.String()}
	}
	return env
}

// drive keeps the payouts open and counts what is posted in the measured time.
func (l Load) drive(ctx context.Context, s *local.Stack, lag *lagMeter) (out Loaded, err error) {
	url, err := s.AppURL(local.PayDB)
	if err != nil {
		return out, fmt.Errorf("find paydb: %w", err)
	}
	db, err := pgxpool.New(ctx, url)
	if err != nil {
		return out, fmt.Errorf("open paydb for the workload: %w", err)
	}
	defer db.Close()
	load := &workloads.Payout{Seed: l.Seed, Accounts: l.Accounts, Rate: 1, Drive: loadOpenBound * time.Second, Executors: 1}
	if err := load.Open(ctx, db); err != nil {
		return out, fmt.Errorf("open the accounts: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return load.KeepOpen(ctx, db, l.Open) })
	g.Go(func() error {
		defer stop()
		before, begun, err := l.posted(ctx, load, db, l.Warm)
		if err != nil {
			return err
		}
		lag.start()
		after, ended, err := l.posted(ctx, load, db, l.Measure)
		out.Lag = lag.stop()
		out.PerSecond = float64(after-before) / ended.Sub(begun).Seconds()
		return err
	})
	err = g.Wait()
	return out, err
}

// posted counts the payouts posted once d has passed.
func (l Load) posted(ctx context.Context, load *workloads.Payout, db workloads.Target, d time.Duration) (n int64, at time.Time, err error) {
	select {
	case <-ctx.Done():
		return 0, time.Time{}, context.Cause(ctx)
	case <-time.After(d):
	}
	counts, err := load.Count(ctx, db)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("count what is posted: %w", err)
	}
	return counts[contract.Posted], time.Now(), nil
}
