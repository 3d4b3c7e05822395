package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"fenceproof/deploy/etcd"
	"fenceproof/deploy/local/warden"
	"fenceproof/deploy/postgres"
	"fenceproof/deploy/process"
)

// Backup is what keeps the locks as it was at some time: a copy of lockdb's data, or a snapshot of etcd. It serves once, and
// is gone when a later one is made, or the stack closes.
type Backup struct {
	s    *Stack
	path string
	left warden.Leftover // it, or in the run's folder a link to it
}

// Path is where the backup is: a data directory, or a snapshot's file.
func (b *Backup) Path() string { return b.path }

// BackUpLocks copies what keeps the locks, while it runs.
func (s *Stack) BackUpLocks(ctx context.Context) (*Backup, error) {
	if s.config.Backend == BackendEtcd {
		path := filepath.Join(s.config.RunDir, "data", "etcd.snapshot")
		b, err := s.newBackup(ctx, path, warden.Leftover{Kind: warden.Folder, Path: path})
		if err != nil {
			return nil, err
		}
		return b, s.saveSnapshot(ctx, b.path)
	}
	d, err := s.database(LockDB)
	if err != nil {
		return nil, err
	}
	path, link := d.DataFolder()+".backup", d.Folder()+".backup"
	b, err := s.newBackup(ctx, path, warden.Leftover{Kind: warden.ServerData, Path: link})
	if err != nil {
		return nil, err
	}
	if link != path { // who cleans up the run later looks into its folder only
		if err := os.Symlink(path, link); err != nil {
			return nil, fmt.Errorf("link to a backup: %w", err)
		}
	}
	return b, d.Instance.Backup(ctx, b.path) // it only reads, and nobody who wants to know of the server waits for it
}

// newBackup makes room for a backup, and sees to it that it does not outlive the run.
func (s *Stack) newBackup(ctx context.Context, path string, left warden.Leftover) (*Backup, error) {
	if err := s.dropBackup(ctx); err != nil {
		return nil, err
	}
	b := &Backup{s, path, left}
	if err := s.warden.Guard(ctx, left); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backup = b
	return b, nil
}

// dropBackup deletes the backup there is, if there is one.
func (s *Stack) dropBackup(ctx context.Context) error {
	s.mu.Lock()
	b := s.backup
	s.backup = nil
	s.mu.Unlock()
	if b == nil {
		return nil
	}
	remove := func(_ context.Context, path string) error { return os.RemoveAll(path) }
	if b.left.Kind == warden.ServerData {
		remove = postgres.Demolish // with what a link leads to
	}
	if err := remove(ctx, b.left.Path); err != nil {
		return fmt.Errorf("delete a backup: %w", err)
	}
	return s.warden.Release(ctx, b.left)
}

// PutBack puts the backup in the place of what keeps the locks, all of which must have been killed, and starts that. Where
// it is etcd, make turns the snapshot into a member's data directory; nil stands for etcdutl and nothing else.
func (b *Backup) PutBack(ctx context.Context, make MakeData) error {
	if b.s.config.Backend == BackendEtcd {
		return b.s.putEtcdBack(ctx, b.path, make)
	}
	d, err := b.s.database(LockDB)
	if err != nil {
		return err
	}
	if err := d.do(ctx, func(context.Context) error { return d.Instance.ReplaceData(b.path) }); err != nil {
		return err
	}
	return d.Restart(ctx)
}

// MakeData makes dir, the data directory of a member of etcd, from a snapshot. flags are etcdutl's own about the member.
type MakeData func(ctx context.Context, snapshot, dir string, flags []string) error

// saveSnapshot asks one member after the other, over the network as anybody would: whoever looks at it meanwhile waits for
// nothing. Each has all that was committed when it is asked, but for what it is just
// about to hear.
func (s *Stack) saveSnapshot(ctx context.Context, file string) error {
	s.mu.Lock()
	members := slices.Clone(s.members)
	s.mu.Unlock()
	var errs []error
	for _, m := range members {
		err := m.Member.SaveSnapshot(ctx, file)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("back up etcd: %w", errors.Join(errs...))
}

// putEtcdBack makes every member's data from the snapshot, and starts them together: none is healthy alone.
func (s *Stack) putEtcdBack(ctx context.Context, snapshot string, make MakeData) error {
	s.mu.Lock()
	members := slices.Clone(s.members)
	s.mu.Unlock()
	if make == nil {
		make = func(ctx context.Context, snapshot, dir string, flags []string) error {
			return s.config.Etcd.RestoreSnapshot(ctx, s.runEtcdutl, snapshot, dir, flags)
		}
	}
	for _, m := range members {
		err := m.do(ctx, func(ctx context.Context) error {
			return m.Member.ReplaceData(func(dir string) error { return make(ctx, snapshot, dir, m.Member.RestoreFlags()) })
		})
		if err != nil {
			return err
		}
	}
	for _, m := range members { // one after the other, as at first
		if err := m.Restart(ctx); err != nil {
			return err
		}
	}
	return s.AwaitEtcd(ctx)
}

// EtcdNames are the members' names; none where the lock backend is PostgreSQL.
func (s *Stack) EtcdNames() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		names = append(names, m.Name())
	}
	return names
}

// SnapshotRevision is the revision that a snapshot of etcd was taken at.
func (s *Stack) SnapshotRevision(ctx context.Context, file string) (int64, error) {
	if s.config.Etcd == nil {
		return 0, errors.New("there is no etcd in this stack")
	}
	return s.config.Etcd.SnapshotRevision(ctx, s.runEtcdutl, file)
}

func (s *Stack) runEtcdutl(ctx context.Context, program string, args ...string) (string, error) {
	return s.toEnd(ctx, operatorLimit, "etcdutl", program, baseVariables(), args)
}

// Etcdutl is etcd's program of that name.
func (s *Stack) Etcdutl() string { return s.config.Etcd.Program("etcdutl") }

// lockctl is the operator's program.
const lockctl = "lockctl"

// Operate runs the operator's command and gives what it printed. It reaches the databases past the links, as an operator
// on the spot would. Where it ran and failed the error is an ExitError, with the text that it printed for people.
func (s *Stack) Operate(ctx context.Context, args ...string) (string, error) {
	env := baseVariables()
	env.set(map[string]string{"LOCK_BACKEND": BackendPG})
	for variable, db := range map[string]string{"LOCK_DATASOURCE_URL": LockDB, "PAYMENTS_DATASOURCE_URL": PayDB} {
		if url, err := s.AppURL(db); err == nil {
			env[variable] = url
		}
	}
	if s.config.Backend == BackendEtcd {
		env.set(map[string]string{"LOCK_BACKEND": BackendEtcd, "ETCD_ENDPOINTS": etcd.Endpoints(s.EtcdURLs()), "ETCDUTL": s.Etcdutl()})
	}
	return s.toEnd(ctx, operatorLimit, lockctl, filepath.Join(s.config.BinDir, lockctl), env, args)
}

// ExitError is the error of a program that was started, and ended with another status than 0 or not in its time.
type ExitError struct{ How string }

func (e ExitError) Error() string { return e.How }

// operatorLimit is what each of an operator's programs has to come to its end.
const operatorLimit = 30 * time.Second

// toEnd runs a program to its end, as a child of the warden like all that is at the run's data, and gives what it printed. Where it
// ran and failed, or did not end within its limit, the error is an ExitError, with the text that it printed for people. That
// ctx ended says nothing of the program.
func (s *Stack) toEnd(ctx context.Context, limit time.Duration, name, program string, env variables, args []string) (string, error) {
	log := s.LogPath(name)
	from := logSize(log)
	p, err := s.warden.Launch(ctx, process.Command{Path: program, Args: args, Env: env.list(), Dir: filepath.Dir(log), Log: log})
	if err != nil {
		return "", fmt.Errorf("run %s: %w", name, err)
	}
	own, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-p.Done():
	case <-own.Done():
		if err := process.Kill(context.WithoutCancel(ctx), p); err != nil {
			return "", fmt.Errorf("end %s, which does not end by itself: %w", name, err)
		}
		printed := lastLines(logSince(log, from))
		if ctx.Err() != nil {
			return "", fmt.Errorf("%s %s was ended: %w; it had printed:\n%s", name, args[0], context.Cause(ctx), printed)
		}
		return "", ExitError{fmt.Sprintf("%s %s does not end within %s; it printed:\n%s", name, args[0], limit, printed)}
	}
	text := logSince(log, from)
	if p.Status() != "exit status 0" {
		return text, ExitError{fmt.Sprintf("%s %s: %s:\n%s", name, args[0], p.Status(), lastLines(text))}
	}
	return text, nil
}
