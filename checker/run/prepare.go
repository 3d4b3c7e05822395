package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"fenceproof/checker/doctor"
	"fenceproof/deploy/etcd"
	"fenceproof/deploy/local"
	"fenceproof/deploy/postgres"
	"fenceproof/nemesis/plan"
)

// ErrNotHere says that this machine cannot do a run that another one could, or that it could at another time. Nothing of the run
// is there.
var ErrNotHere = errors.New("this machine cannot do it")

// ExitNotHere is the exit status of whoever was asked for such a run.
const ExitNotHere = 253

// programs are what a run's stack is made from, besides the services' own binaries. What a run has no use for is nil.
type programs struct {
	postgres *postgres.Installation
	etcd     *etcd.Installation
}

// prepare finds what a run needs before anything is made: binaries, room, PostgreSQL, etcd.
func prepare(ctx context.Context, cfg Config, out *progress) (p programs, err error) {
	needed := local.Services()
	if cfg.locks() {
		needed = []string{local.LockServer}
	}
	if cfg.Plan.Locks != nil || cfg.Plan.Audits > 0 {
		needed = append(needed, lockProgram)
	}
	if guards(cfg.Plan) {
		needed = append(needed, "lockctl")
	}
	for _, name := range needed {
		if _, err := os.Stat(filepath.Join(cfg.Bin, name)); err != nil {
			return p, fmt.Errorf("the programs of a run are not in %s; `make build` puts them there: %w", cfg.Bin, err)
		}
	}
	if err := doctor.NewMachine().Lacks(ctx, Needs(cfg.Plan)); err != nil {
		return p, fmt.Errorf("%w: the plan has steps that it cannot do now; `fenceproof doctor` says what it can: %w", ErrNotHere, err)
	}
	if err := local.RequireSpace(cfg.Runs); err != nil {
		return p, err
	}
	onEtcd := cfg.Plan.Backend == plan.BackendEtcd
	if !onEtcd || !cfg.locks() || guards(cfg.Plan) {
		if p.postgres, err = postgres.Prepare(ctx, func(s string) { out.note("prepare", s) }); err != nil {
			return p, fmt.Errorf("prepare PostgreSQL: %w", err)
		}
	}
	if onEtcd {
		if p.etcd, err = etcd.Prepare(ctx, func(s string) { out.note("prepare", s) }); err != nil {
			return p, fmt.Errorf("prepare etcd: %w", err)
		}
	}
	return p, nil
}

// Needs are what a run of a plan takes of the machine.
func Needs(p plan.Plan) doctor.Needs {
	return doctor.Needs{
		Clocks: slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Fault == plan.Clock }),
		Memory: p.Volume() * int64(len(p.Volumes())),
	}
}

// versions says what the run's stack is made from.
func (p programs) versions() map[string]string {
	v := map[string]string{"go": runtime.Version(), "os": runtime.GOOS + "/" + runtime.GOARCH}
	if p.postgres != nil {
		v["postgres"] = p.postgres.Version()
	}
	if p.etcd != nil {
		v["etcd"] = p.etcd.Version()
	}
	return v
}
