package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fenceproof/deploy/local/warden"
	"fenceproof/deploy/postgres"
	"fenceproof/deploy/process"

	"golang.org/x/sync/errgroup"
)

// Boot starts the whole system and returns when every process is ready. A process that dies meanwhile is an error with
// the end of its log. After an error nothing is left running. The program must call warden.RunIfAsked first of all.
func Boot(ctx context.Context, c Config) (*Stack, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	s := &Stack{config: c, services: map[string]*service{}, databases: map[string]*database{}, links: map[string]*Link{}}
	var err error
	if s.config.RunDir, err = filepath.Abs(c.RunDir); err != nil {
		return nil, fmt.Errorf("find the run's folder: %w", err)
	}
	if s.config.BinDir, err = filepath.Abs(c.BinDir); err != nil {
		return nil, fmt.Errorf("find the folder of the binaries: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(s.config.RunDir, "logs"), 0o755); err != nil {
		return nil, fmt.Errorf("make the run's folder: %w", err)
	}
	if err := RequireSpace(s.config.RunDir); err != nil {
		return nil, err
	}
	if err := s.startWarden(ctx); err != nil {
		return nil, err
	}
	if err := s.boot(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("boot the stack: %w", err), s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// boot starts things in the order in which they need one another; whatever does not is started at the same time.
func (s *Stack) boot(ctx context.Context) error {
	if err := s.openDatabases(ctx); err != nil {
		return err
	}
	if s.config.BeforeServices != nil {
		if err := s.config.BeforeServices(ctx, s); err != nil {
			return err
		}
	}
	if s.config.LocksOnly {
		s.progress("starting the lock server")
		return s.openLockServer(ctx)
	}
	s.progress("starting the services, the reconciler and %d executors", s.config.Executors)
	err := together(ctx,
		s.openLockServer,
		func(ctx context.Context) error {
			return s.openService(ctx, PaymentResource, PaymentResource, true, s.paymentResourceEnv)
		},
		s.openRail)
	if err != nil {
		return err
	}
	workers := []func(context.Context) error{func(ctx context.Context) error {
		return s.openWorker(ctx, Reconciler, Reconciler, s.reconcilerEnv, LockServer, PaymentResource, RailStub)
	}}
	for n := range s.config.Executors {
		workers = append(workers, func(ctx context.Context) error {
			return s.openWorker(ctx, Executor(n+1), executorProgram, s.executorEnv, LockServer, PaymentResource, RailProxy)
		})
	}
	return together(ctx, workers...)
}

// openDatabases starts what the configuration needs to keep data: the lock backend, and paydb.
func (s *Stack) openDatabases(ctx context.Context) error {
	steps, names := []func(context.Context) error{s.openEtcd}, []string{}
	if s.config.Backend == BackendEtcd {
		names = append(names, fmt.Sprintf("etcd %s (%s)", s.config.Etcd.Version(), strings.Join(s.config.backendNames(), ", ")))
	} else {
		steps[0] = s.openLockDB
		names = append(names, fmt.Sprintf("PostgreSQL %s (%s)", s.config.Postgres.Version(), strings.Join(s.config.backendNames(), ", ")))
	}
	if !s.config.LocksOnly || s.config.PayDB {
		steps = append(steps, func(ctx context.Context) error {
			return s.openDatabase(ctx, PayDB, PaymentResource, s.paymentResourceEnv)
		})
		names = append(names, fmt.Sprintf("PostgreSQL %s (paydb)", s.config.Postgres.Version()))
	}
	s.progress("starting %s", strings.Join(names, " and "))
	return together(ctx, steps...)
}

func (s *Stack) openLockServer(ctx context.Context) error {
	return s.openService(ctx, LockServer, LockServer, true, s.lockServerEnv)
}

// together runs steps at the same time and gives the first error.
func together(ctx context.Context, steps ...func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, step := range steps {
		g.Go(func() error { return step(ctx) })
	}
	return g.Wait()
}

// openDatabase starts a server with one database, migrates it past the links by the program that owns it, and opens the
// links of those that use it.
func (s *Stack) openDatabase(ctx context.Context, name, migrator string, env environment) error {
	i, err := s.config.Postgres.Create(postgres.Options{
		Name: name, Folder: filepath.Join(s.config.RunDir, "data", name), Log: s.LogPath(name), Launcher: s.warden, Progress: s.config.Progress,
		Volume: s.volume(ctx, name),
		Guard: func(folder string) error {
			return s.warden.Guard(ctx, warden.Leftover{Kind: warden.ServerData, Path: folder})
		},
	})
	if err != nil {
		return err
	}
	d := &database{Instance: i}
	s.mu.Lock()
	s.databases[name] = d
	s.mu.Unlock()
	if err := d.do(ctx, i.Start); err != nil {
		return err
	}
	if err := i.CreateDatabase(ctx, name, owners[name]); err != nil {
		return err
	}
	for _, client := range clients[name] {
		if err := s.openLink(client, name, i.Address(), nil); err != nil {
			return err
		}
	}
	return s.migrate(ctx, migrator, env, i.URL(owners[name], name))
}

// clients are the users of each database.
var clients = map[string][]string{LockDB: {LockServer}, PayDB: {PaymentResource, RailProxy}}

// migrateLimit bounds a migration; only a hang meets it.
const migrateLimit = 30 * time.Second

// migrate runs a program's migrations with its own environment, but for the address of the database.
func (s *Stack) migrate(ctx context.Context, program string, env environment, url string) error {
	ctx, cancel := context.WithTimeout(ctx, migrateLimit)
	defer cancel()
	vars := env(&service{name: program})
	vars.set(map[string]string{datasource[program]: url})
	log := s.LogPath(program + "-migrate")
	p, err := s.warden.Launch(ctx, process.Command{
		Path: filepath.Join(s.config.BinDir, program), Args: []string{"migrate"}, Env: vars.list(), Dir: filepath.Dir(log), Log: log,
	})
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s migrate does not end: %w", program, context.Cause(ctx)), process.Kill(context.WithoutCancel(ctx), p))
	}
	if p.Status() != "exit status 0" {
		return fmt.Errorf("%s migrate: %s:\n%s", program, p.Status(), lastLines(logSince(log, 0)))
	}
	return nil
}

// openRail starts the rail, and then the proxy that needs it.
func (s *Stack) openRail(ctx context.Context) error {
	if err := s.openService(ctx, RailStub, RailStub, true, s.railStubEnv); err != nil {
		return err
	}
	if err := s.openLink(RailProxy, RailStub, s.publicAddress(RailStub), s.config.Interpose); err != nil {
		return err
	}
	return s.openService(ctx, RailProxy, RailProxy, true, s.railProxyEnv)
}

// openWorker opens the links to the servers that a worker calls and starts it.
func (s *Stack) openWorker(ctx context.Context, name, program string, env environment, servers ...string) error {
	for _, server := range servers {
		if err := s.openLink(name, server, s.publicAddress(server), s.config.Interpose); err != nil {
			return err
		}
	}
	return s.openService(ctx, name, program, false, env)
}
