// Package local runs the whole payout system on this machine: every component a process of its own, every network hop a
// link that can be cut, every database a real PostgreSQL server. Several stacks at once do not disturb one another, and
// a warden sees to it that nothing of a stack outlives its harness.
package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"fenceproof/deploy/etcd"
	"fenceproof/deploy/local/warden"
	"fenceproof/deploy/postgres"
)

// Config says what to boot.
type Config struct {
	// RunDir is the run's own folder; logs, data and the rail's journal go there.
	RunDir string
	// BinDir holds the system's binaries, one per process.
	BinDir string
	// Postgres is what the databases are made from.
	Postgres *postgres.Installation
	// Backend is what keeps the locks: BackendPG, which is the default, or BackendEtcd. With etcd there is no lockdb.
	Backend string
	// Etcd is what etcd's members are made from, with the etcd backend; EtcdMembers is how many there are: 1, 3 or 5, and 0
	// stands for 1. Between two members there is a link each way, of the connections that the first one opens: they are
	// apart when both are cut.
	Etcd        *etcd.Installation
	EtcdMembers int
	// Standby is what standby lockdb has, with the pg backend.
	Standby Standby
	// Executors is how many payout-executors run: executor-1 to executor-n.
	Executors int
	// LocksOnly boots the lock service and its backend, and nothing that is about payouts.
	LocksOnly bool
	// PayDB boots paydb as well where there are locks only: lockctl restore-guard reads it.
	PayDB bool
	// Env holds variables beyond, or instead of, those that connect the processes: by process name, or for all
	// executors under "executor".
	Env map[string]map[string]string
	// Volumes puts the data of databases, by name, on volumes of their own of so many bytes, which can be filled.
	Volumes map[string]int64
	// Interpose, where not nil, is put on every HTTP hop.
	Interpose Interposer
	// BeforeServices, where not nil, runs when the databases are migrated and no service has started: witnesses attach
	// here and so miss nothing.
	BeforeServices func(ctx context.Context, s *Stack) error
	// Progress hears one line per step; it may be nil.
	Progress func(string)
}

// The names of the processes.
const (
	LockServer      = "lock-server"
	PaymentResource = "payment-resource"
	RailProxy       = "rail-proxy"
	RailStub        = "rail-stub"
	Reconciler      = "reconciler"
	LockDB          = "lockdb"
	PayDB           = "paydb"
)

// executorGroup is the name in Config.Env that means every executor; its binary is executorProgram.
const (
	executorGroup   = "executor"
	executorProgram = "payout-executor"
)

// Executor is the name of executor n, from 1.
func Executor(n int) string { return fmt.Sprintf("%s-%d", executorGroup, n) }

// owners are the databases' users, as the system's configuration has them.
var owners = map[string]string{LockDB: "lockapp", PayDB: "payapp"}

// Stack is a running system. Its methods may be called by several goroutines.
type Stack struct {
	config Config
	warden *warden.Warden

	mu        sync.Mutex
	services  map[string]*service
	databases map[string]*database
	retired   []*database   // that were lockdb until their standby was promoted
	standbys  int           // how many were made
	etcd      *etcd.Cluster // nil with the pg backend
	members   []*member     // of etcd
	links     map[string]*Link
	backup    *Backup // of what keeps the locks; nil for none
	keep      bool
	closed    bool
}

// names lists every process that the configuration has, services before databases.
func (c Config) names() []string {
	if c.LocksOnly {
		names := append([]string{LockServer}, c.backendNames()...)
		if c.PayDB {
			names = append(names, PayDB)
		}
		return names
	}
	out := []string{LockServer, PaymentResource, RailProxy, RailStub, Reconciler}
	for n := range c.Executors {
		out = append(out, Executor(n+1))
	}
	return append(append(out, c.backendNames()...), PayDB)
}

// check refuses what cannot be meant.
func (c Config) check() error {
	noPostgres := c.Postgres == nil && !(c.LocksOnly && c.Backend == BackendEtcd && !c.PayDB)
	if c.RunDir == "" || c.BinDir == "" || noPostgres || c.Executors < 0 {
		return fmt.Errorf("boot the stack: RunDir %q, BinDir %q, a PostgreSQL installation and a number of executors (%d) are needed", c.RunDir, c.BinDir, c.Executors)
	}
	if c.LocksOnly && c.Executors > 0 {
		return fmt.Errorf("boot the stack: %d executors have nothing to do where there are locks only", c.Executors)
	}
	if err := errors.Join(c.checkBackend(), c.checkStandby()); err != nil {
		return err
	}
	for name := range c.Volumes {
		if owners[name] == "" || !slices.Contains(c.names(), name) {
			return fmt.Errorf("boot the stack: there is a volume for %q, and this stack has no such database", name)
		}
	}
	known := append(c.names(), executorGroup)
	for name := range c.Env {
		if !slices.Contains(known, name) {
			return fmt.Errorf("boot the stack: there are variables for %q, and the processes are %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

func (s *Stack) progress(format string, args ...any) {
	if s.config.Progress != nil {
		s.config.Progress(fmt.Sprintf(format, args...))
	}
}

// Process is the process of that name: those of the constants, executor-1 to executor-n, and clients that were started.
func (s *Stack) Process(name string) (Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.services[name]; ok {
		return p, nil
	}
	if d, ok := s.databases[name]; ok {
		return d, nil
	}
	for _, m := range s.members {
		if m.Name() == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("there is no process %q; there are %s", name, strings.Join(s.config.names(), ", "))
}

// Link is the link of that name, such as LinkName("executor-2", RailProxy).
func (s *Stack) Link(name string) (*Link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.links[name]; ok {
		return l, nil
	}
	return nil, fmt.Errorf("there is no link %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(s.links)), ", "))
}

// Links are all links, by name.
func (s *Stack) Links() []*Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Link
	for _, name := range slices.Sorted(maps.Keys(s.links)) {
		out = append(out, s.links[name])
	}
	return out
}

// SuperURL is a database's address for its superuser, past the links: LockDB or PayDB.
func (s *Stack) SuperURL(db string) (string, error) {
	d, err := s.database(db)
	if err != nil {
		return "", err
	}
	return d.SuperURL(db), nil
}

// AppURL is a database's address for the user that the system has there, past the links.
func (s *Stack) AppURL(db string) (string, error) {
	d, err := s.database(db)
	if err != nil {
		return "", err
	}
	return d.URL(owners[db], db), nil
}

func (s *Stack) database(name string) (*database, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.databases[name]
	if !ok {
		return nil, fmt.Errorf("there is no database %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(s.databases)), " and "))
	}
	return d, nil
}

// JournalPath is the rail's append-only file of money moved.
func (s *Stack) JournalPath() string { return filepath.Join(s.config.RunDir, "rail-journal.ndjson") }

// LogPath is the file with everything that a process printed.
func (s *Stack) LogPath(process string) string {
	return filepath.Join(s.config.RunDir, "logs", process+".log")
}

// Services are the programs that a stack's processes run, besides the servers of others.
func Services() []string {
	return []string{LockServer, PaymentResource, executorProgram, RailProxy, RailStub, Reconciler}
}

// Programs are those of the system that a run may start: the services, and the operator's tool.
func Programs() []string { return append(Services(), lockctl) }

// AdminURL is the private listener of a service: health, readiness, metrics, and the kill switch of a fence point.
func (s *Stack) AdminURL(process string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.services[process]
	if !ok || p.admin == nil {
		return "", fmt.Errorf("%q has no private listener; the services are %s", process, strings.Join(slices.Sorted(maps.Keys(s.services)), ", "))
	}
	return "http://" + p.admin.Address(), nil
}

// AskAdmin reads into to what a service's private listener answers to GET path, as JSON.
func (s *Stack) AskAdmin(ctx context.Context, process, path string, to any) error {
	base, err := s.AdminURL(process)
	if err != nil {
		return err
	}
	text, err := ask(ctx, base+path, maxAnswer)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("read what %s%s answers: %w", base, path, err)
	}
	return nil
}

// maxAnswer bounds the answer of a private listener: a page of grants is some hundred kilobytes at most.
const maxAnswer = 4 << 20

// Lost is closed when the warden has ended unasked, and with it every process of the stack: the run is over.
func (s *Stack) Lost() <-chan struct{} { return s.warden.Lost() }

// Guard has the warden remove something when the run ends, however it ends.
func (s *Stack) Guard(ctx context.Context, l warden.Leftover) error { return s.warden.Guard(ctx, l) }

// Release takes a Guard back.
func (s *Stack) Release(ctx context.Context, l warden.Leftover) error {
	return s.warden.Release(ctx, l)
}
