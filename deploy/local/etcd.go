package local

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"fenceproof/deploy/etcd"
	"fenceproof/deploy/local/warden"

	"github.com/hashicorp/go-multierror"
)

// The lock backends.
const (
	BackendPG   = "pg"
	BackendEtcd = "etcd"
)

// Etcd is the process of an etcd of one member. The members of a cluster are numbered: etcd-1 to etcd-n.
const Etcd = "etcd"

// backendNames are the processes that keep the locks.
func (c Config) backendNames() []string {
	if c.Backend == BackendEtcd {
		return etcd.Names(Etcd, max(c.EtcdMembers, 1))
	}
	if c.Standby != NoStandby {
		return []string{LockDB, LockDBStandby}
	}
	return []string{LockDB}
}

// checkBackend refuses what cannot be meant.
func (c Config) checkBackend() error {
	switch {
	case c.Backend != "" && c.Backend != BackendPG && c.Backend != BackendEtcd:
		return fmt.Errorf("boot the stack: there is no lock backend %q; there are %s and %s", c.Backend, BackendPG, BackendEtcd)
	case c.Backend != BackendEtcd && c.EtcdMembers != 0:
		return fmt.Errorf("boot the stack: %d etcd members have nothing to do where the lock backend is %s", c.EtcdMembers, BackendPG)
	case c.Backend == BackendEtcd && c.Etcd == nil:
		return fmt.Errorf("boot the stack: lock backend %s needs an etcd installation", BackendEtcd)
	case !slices.Contains([]int{0, 1, 3, 5}, c.EtcdMembers):
		return fmt.Errorf("boot the stack: %d etcd members are asked for; 1, 3 or 5 are possible", c.EtcdMembers)
	}
	return nil
}

// member is a member of etcd as a process of the stack.
type member struct {
	mu sync.Mutex
	*etcd.Member
	asked bool // it was asked to end, and was not started again since
}

func (m *member) Pid() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.Member.Process(); p != nil {
		return p.Pid()
	}
	return 0
}

func (m *member) Running() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Member.Running()
}

func (m *member) Pause(ctx context.Context) error  { return m.do(ctx, m.Member.Pause) }
func (m *member) Resume(ctx context.Context) error { return m.do(ctx, m.Member.Resume) }

func (m *member) Kill(ctx context.Context) error {
	return m.do(ctx, func(ctx context.Context) error {
		m.asked = m.asked || m.Member.Running()
		return m.Member.Crash(ctx)
	})
}

// Restart returns when a single member is healthy, and a member of a cluster when it answers the others: whether it
// can be healthy is theirs to say.
func (m *member) Restart(ctx context.Context) error {
	return m.do(ctx, func(ctx context.Context) error {
		err := m.Member.Start(ctx)
		m.asked = m.asked && err != nil
		return err
	})
}

func (m *member) do(ctx context.Context, step func(context.Context) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return step(ctx)
}

// openEtcd starts the members, with a link for every ordered pair of them, and opens the links of lock-server.
func (s *Stack) openEtcd(ctx context.Context) error {
	c, err := s.config.Etcd.Create(max(s.config.EtcdMembers, 1), etcd.Options{
		Name: Etcd, Folder: filepath.Join(s.config.RunDir, "data"), Log: s.LogPath, Launcher: s.warden,
		Guard: func(folder string) error {
			return s.warden.Guard(ctx, warden.Leftover{Kind: warden.Folder, Path: folder})
		},
		PeerLink: func(from, to, upstream string) (string, error) {
			if err := s.openLink(from, to, upstream, nil); err != nil {
				return "", err
			}
			return s.linkAddress(from, to), nil
		},
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.etcd = c
	for _, m := range c.Members() {
		s.members = append(s.members, &member{Member: m})
	}
	s.mu.Unlock()
	if err := c.Start(ctx); err != nil {
		return err
	}
	for _, m := range c.Members() {
		if err := s.openLink(LockServer, m.Name(), m.Address(), nil); err != nil {
			return err
		}
	}
	return nil
}

// EtcdURLs are the members' addresses for clients, past the links; none where the lock backend is PostgreSQL.
func (s *Stack) EtcdURLs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var urls []string
	for _, m := range s.members {
		urls = append(urls, m.URL())
	}
	return urls
}

// AwaitEtcd waits until every member of etcd is healthy: it knows a leader, and a majority agrees to a read.
func (s *Stack) AwaitEtcd(ctx context.Context) error {
	s.mu.Lock()
	members := slices.Clone(s.members)
	s.mu.Unlock()
	var steps []func(context.Context) error
	for _, m := range members {
		steps = append(steps, func(ctx context.Context) error { return m.do(ctx, m.AwaitHealthy) })
	}
	return together(ctx, steps...)
}

// etcdEndpoints are the members as lock-server reaches them, each through a link of its own.
func (s *Stack) etcdEndpoints() string {
	var urls []string
	for _, name := range s.config.backendNames() {
		urls = append(urls, s.httpURL(LockServer, name))
	}
	return strings.Join(urls, ",")
}

// closeEtcd kills the members, which lose nothing by it, and removes their data unless it is kept.
func (s *Stack) closeEtcd(ctx context.Context) error {
	if s.etcd == nil {
		return nil
	}
	for _, m := range s.members { // nobody else works on one
		m.mu.Lock()
		defer m.mu.Unlock()
	}
	var errs *multierror.Error
	if s.keep {
		errs = multierror.Append(errs, s.etcd.Close(ctx))
	} else if err := s.etcd.Remove(ctx); err != nil {
		return err // the warden still guards the data
	}
	for _, m := range s.members {
		errs = multierror.Append(errs, s.warden.Release(ctx, warden.Leftover{Kind: warden.Folder, Path: m.Folder()}))
	}
	return errs.ErrorOrNil()
}
