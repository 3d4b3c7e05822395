package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"fenceproof/deploy/etcd"
	"fenceproof/deploy/local/warden"
	"fenceproof/deploy/postgres"

	"github.com/hashicorp/go-multierror"
)

// KeepData has Close leave the databases' data directories where they are.
func (s *Stack) KeepData() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep = true
}

// StopServices ends the clients, the reconciler and the executors, then the services that they call, then the rail: nobody
// loses its server before it has ended itself. Paused ones are resumed for that. The databases go on.
func (s *Stack) StopServices(ctx context.Context) error {
	var errs *multierror.Error
	for _, group := range []func(*service) bool{
		func(p *service) bool {
			return p.client || p.name == Reconciler || strings.HasPrefix(p.name, executorGroup+"-")
		},
		func(p *service) bool { return p.name == LockServer || p.name == PaymentResource || p.name == RailProxy },
		func(p *service) bool { return p.name == RailStub },
	} {
		errs = multierror.Append(errs, s.stopGroup(ctx, group)...)
	}
	return errs.ErrorOrNil()
}

func (s *Stack) stopGroup(ctx context.Context, in func(*service) bool) []error {
	s.mu.Lock()
	var group []*service
	for _, p := range s.services {
		if in(p) {
			group = append(group, p)
		}
	}
	s.mu.Unlock()
	errs := make([]error, len(group))
	var wg sync.WaitGroup
	for i, p := range group {
		wg.Go(func() { errs[i] = p.stop(ctx) })
	}
	wg.Wait()
	return errs
}

// Close ends everything in order, removes the data directories unless KeepData was called, and ends the warden, which
// removes whatever else is guarded. It goes on after a failure and reports all of them. A second Close does nothing.
func (s *Stack) Close(ctx context.Context) error {
	s.mu.Lock()
	closed, services, databases := s.closed, maps.Clone(s.services), append(slices.Collect(maps.Values(s.databases)), s.retired...)
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	var errs *multierror.Error
	errs = multierror.Append(errs, s.StopServices(ctx), s.closeEtcd(ctx))
	for _, l := range s.Links() {
		errs = multierror.Append(errs, l.close(ctx))
	}
	for _, p := range services {
		errs = multierror.Append(errs, p.releasePorts())
	}
	for _, d := range databases {
		errs = multierror.Append(errs, s.closeDatabase(ctx, d))
	}
	errs = multierror.Append(errs, s.dropBackup(ctx))
	if err := os.Remove(filepath.Join(s.config.RunDir, "data")); err != nil && !os.IsNotExist(err) && !s.keep {
		errs = multierror.Append(errs, fmt.Errorf("remove the data folder: %w", err))
	}
	return multierror.Append(errs, s.warden.Close(ctx)).ErrorOrNil()
}

// closeDatabase ends a server: in order when its data is kept and it lets itself be, else in the fastest way.
func (s *Stack) closeDatabase(ctx context.Context, d *database) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := warden.Leftover{Kind: warden.ServerData, Path: d.Folder()}
	if !s.keep {
		if err := d.Crash(ctx); err != nil {
			return err // the warden still guards the data
		}
		if err := d.Remove(); err != nil {
			return err
		}
		return s.warden.Release(ctx, l)
	}
	var err error
	if !d.Instance.Running() || errors.Join(d.Instance.Resume(ctx), d.Stop(ctx)) != nil {
		err = d.Crash(context.WithoutCancel(ctx)) // its data recovers at the next start, and nothing of it may live on until then
	}
	return errors.Join(err, d.Keep(), s.warden.Release(ctx, l))
}

// RemoveData removes the databases of a run that has ended and whose data was kept, wherever they are, and a backup that was
// left where nobody lived to remove it.
func RemoveData(ctx context.Context, runDir string) error {
	home := filepath.Join(runDir, "data")
	entries, err := os.ReadDir(home)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("look for a run's data: %w", err)
	}
	var errs *multierror.Error
	for _, e := range entries {
		demolish := postgres.Demolish
		if e.Type().IsRegular() { // a snapshot of etcd
			demolish = func(_ context.Context, file string) error { return os.Remove(file) }
		} else if e.Name() == Etcd || strings.HasPrefix(e.Name(), Etcd+"-") {
			demolish = etcd.Demolish
		}
		errs = multierror.Append(errs, demolish(ctx, filepath.Join(home, e.Name())))
	}
	if err := os.Remove(home); err != nil && !os.IsNotExist(err) {
		errs = multierror.Append(errs, fmt.Errorf("remove the data folder: %w", err))
	}
	return errs.ErrorOrNil()
}
