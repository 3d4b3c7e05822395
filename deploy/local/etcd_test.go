package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/deploy/etcd"
	"fenceproof/deploy/postgres"
	"fenceproof/deploy/process"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// onEtcd is a small stack that keeps its locks in etcd, without payments.
func onEtcd(t *testing.T, members int) Config {
	t.Helper()
	c := config(t)
	in, err := etcd.Prepare(t.Context(), func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	c.Postgres, c.Executors, c.LocksOnly = nil, 0, true
	c.Backend, c.Etcd, c.EtcdMembers = BackendEtcd, in, members
	return c
}

func TestTheWholeSystemRunsOnEtcdWithoutLockdb(t *testing.T) {
	c := config(t)
	c.Backend, c.Etcd = BackendEtcd, onEtcd(t, 0).Etcd
	c.BeforeServices = func(_ context.Context, s *Stack) error {
		if len(s.EtcdURLs()) != 1 {
			return errors.New("there is no etcd for the witness")
		}
		return nil
	}
	s := boot(t, c)
	if _, err := s.Process(LockDB); err == nil || !strings.Contains(err.Error(), "etcd, paydb") {
		t.Errorf("lockdb: %v", err)
	}
	if _, err := s.Link(LinkName(LockServer, Etcd)); err != nil {
		t.Error(err)
	}
	p, err := s.Process(Etcd)
	if err != nil {
		t.Fatal(err)
	}
	url, err := s.AdminURL(LockServer)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "lock-server to be ready", func() bool { return ready(t.Context(), url+"/readyz") == nil })
	if err := p.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err := process.ReadStat(p.Pid()); err != nil || st.State != 'T' {
		t.Errorf("it is paused and in state %c, %v", st.State, err)
	}
	await(t, "lock-server to miss etcd", func() bool { return ready(t.Context(), url+"/readyz") != nil })
	before := p.Pid()
	if err := errors.Join(p.Resume(t.Context()), p.Kill(t.Context())); err != nil || p.Running() || !process.Gone(before) {
		t.Fatalf("killed: %v", err)
	}
	if err := p.Restart(t.Context()); err != nil || !p.Running() {
		t.Fatal(err)
	}
	await(t, "lock-server to have etcd again", func() bool { return ready(t.Context(), url+"/readyz") == nil })
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(c.RunDir, "data")); !errors.Is(err, os.ErrNotExist) || p.Running() {
		t.Errorf("etcd outlived the stack, or its data did: %v", err)
	}
}

// watcher asks the members of a cluster, past the links.
type watcher struct {
	t       *testing.T
	clients map[string]*clientv3.Client // by member
}

func watch(t *testing.T, s *Stack) watcher {
	t.Helper()
	w := watcher{t: t, clients: map[string]*clientv3.Client{}}
	for i, url := range s.EtcdURLs() {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{url}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() }) // there is nothing to lose in it
		w.clients[s.members[i].Name()] = c
	}
	return w
}

// question bounds one question; a member without a majority answers none.
const question = time.Second

// leader is who a member thinks leads, empty where it knows of none.
func (w watcher) leader(member string) string {
	ctx, cancel := context.WithTimeout(w.t.Context(), question)
	defer cancel()
	c := w.clients[member]
	st, err := c.Status(ctx, c.Endpoints()[0])
	if err != nil || st.Leader == 0 {
		return ""
	}
	for name, c := range w.clients {
		if own, err := c.Status(ctx, c.Endpoints()[0]); err == nil && own.Header.MemberId == st.Leader {
			return name
		}
	}
	return ""
}

func (w watcher) put(member, value string) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), question)
	defer cancel()
	_, err := w.clients[member].Put(ctx, "k", value)
	return err
}

// get reads what a member has, from itself alone or with a majority behind it.
func (w watcher) get(member string, o ...clientv3.OpOption) (string, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), question)
	defer cancel()
	r, err := w.clients[member].Get(ctx, "k", o...)
	if err != nil || len(r.Kvs) == 0 {
		return "", err
	}
	return string(r.Kvs[0].Value), nil
}

// between are the links between a member and some others, both ways.
func between(t *testing.T, s *Stack, one string, others ...string) (links []*Link) {
	t.Helper()
	for _, o := range others {
		for _, name := range []string{LinkName(one, o), LinkName(o, one)} {
			l, err := s.Link(name)
			if err != nil {
				t.Fatal(err)
			}
			links = append(links, l)
		}
	}
	return links
}

func each(t *testing.T, links []*Link, do func(*Link) error) {
	t.Helper()
	for _, l := range links {
		if err := do(l); err != nil {
			t.Fatal(err)
		}
	}
}

// ledCluster is a cluster whose leader has taken a write, and who leads and who follows.
func ledCluster(t *testing.T) (s *Stack, w watcher, leader string, followers []string) {
	t.Helper()
	s = boot(t, onEtcd(t, 3))
	if got := len(s.Links()); got != 3+6 {
		t.Errorf("there are %d links", got)
	}
	w = watch(t, s)
	await(t, "a leader", func() bool { leader = w.leader("etcd-1"); return leader != "" && w.put(leader, "before") == nil })
	if got, err := s.EtcdLeader(t.Context()); err != nil || got != leader {
		t.Errorf("the leader is %s, and the stack says %s (%v)", leader, got, err)
	}
	for _, m := range s.members {
		if m.Name() != leader {
			followers = append(followers, m.Name())
		}
	}
	return s, w, leader, followers
}

func TestALeaderThatIsCutOffLosesTheOthersAndCatchesUpWhenItsLinksHeal(t *testing.T) {
	s, w, old, others := ledCluster(t)
	links := between(t, s, old, others...)
	each(t, links, func(l *Link) error { return l.Cut(t.Context(), Both) })
	next := ""
	await(t, "another leader", func() bool {
		next = w.leader(others[0])
		return slices.Contains(others, next) && w.put(next, "meanwhile") == nil
	})
	await(t, "the old leader to step down", func() bool { return w.leader(old) == "" })
	if err := w.put(old, "lost"); err == nil {
		t.Error("it is cut off and writes")
	}
	if v, err := w.get(old); err == nil {
		t.Errorf("it is cut off and vouches for %q", v)
	}
	if v, err := w.get(old, clientv3.WithSerializable()); err != nil || v != "before" {
		t.Errorf("it has %q, %v", v, err)
	}
	each(t, links, func(l *Link) error { return l.Heal(t.Context()) })
	await(t, "it to catch up", func() bool { v, err := w.get(old); return err == nil && v == "meanwhile" })
	if err := s.AwaitEtcd(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestACutBetweenTwoMembersLeavesTheThirdToTheOneThatLeads(t *testing.T) {
	s, w, leader, followers := ledCluster(t)
	apart, third := followers[0], followers[1]
	links := between(t, s, leader, apart)
	each(t, links, func(l *Link) error { return l.Cut(t.Context(), Both) })
	await(t, "the two to be apart, and the third with the leader", func() bool {
		return w.leader(apart) == "" && w.leader(third) != "" && w.put(third, "meanwhile") == nil
	})
	if err := w.put(apart, "lost"); err == nil {
		t.Error("it has no leader and writes")
	}
	each(t, links, func(l *Link) error { return l.Heal(t.Context()) })
	await(t, "it to catch up", func() bool { v, err := w.get(apart); return err == nil && v == "meanwhile" })
}

func TestAMemberOfAClusterComesBackBeforeThereIsAMajority(t *testing.T) {
	s := boot(t, onEtcd(t, 3))
	for _, verb := range []func(Process) error{
		func(p Process) error { return p.Kill(t.Context()) },
		func(p Process) error { return p.Restart(t.Context()) },
	} {
		for _, m := range s.members {
			if err := verb(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.AwaitEtcd(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNothingOfAnEtcdOutlivesAHarnessThatIsKilled(t *testing.T) {
	for _, prepare := range []func() error{
		func() error { _, err := postgres.Prepare(t.Context(), nil); return err },
		func() error { _, err := etcd.Prepare(t.Context(), nil); return err },
	} {
		if err := prepare(); err != nil { // so that the harness need not
			t.Fatal(err)
		}
	}
	harness, out := startHarness(t, runDir(t), etcdVariable+"=3")
	data := awaitStack(t, out)
	all, err := process.Descendants(harness.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range data[:2] {
		if pids, err := process.WorkingIn(filepath.Dir(d), "etcd"); err != nil || len(pids) != 1 || !slices.Contains(all, pids[0]) {
			t.Fatalf("in %s works %v, %v", d, pids, err)
		}
	}
	if err := harness.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		await(t, "the end of a process", func() bool { return process.Gone(pid) })
	}
	for _, d := range data {
		if _, err := os.Stat(filepath.Dir(d)); !errors.Is(err, os.ErrNotExist) && filepath.Base(d) == "data" {
			t.Errorf("the data is still there: %v", err)
		}
	}
}

func TestKeptEtcdDataStays(t *testing.T) {
	c := onEtcd(t, 3)
	s := boot(t, c)
	if err := s.members[1].Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.KeepData()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, m := range s.members {
		if _, err := os.Stat(filepath.Join(m.DataFolder(), "member")); err != nil || m.Running() {
			t.Errorf("%s runs, or its data is gone: %v", m.Name(), err)
		}
	}
	if err := RemoveData(t.Context(), c.RunDir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.members[0].Folder()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data was removed and is there: %v", err)
	}
}

func TestABackendThatCannotBeMeantIsRefused(t *testing.T) {
	in := &etcd.Installation{}
	for want, change := range map[string]func(*Config){
		`no lock backend "zookeeper"`:       func(c *Config) { c.Backend = "zookeeper" },
		"3 etcd members have nothing to do": func(c *Config) { c.EtcdMembers = 3 },
		"needs an etcd installation":        func(c *Config) { c.Backend = BackendEtcd },
		"4 etcd members are asked for":      func(c *Config) { c.Backend, c.Etcd, c.EtcdMembers = BackendEtcd, in, 4 },
		`variables for "lockdb"`:            func(c *Config) { c.Backend, c.Etcd, c.Env = BackendEtcd, in, map[string]map[string]string{LockDB: {}} },
		"a PostgreSQL installation":         func(c *Config) { c.Backend, c.Etcd, c.Postgres = BackendEtcd, in, nil },
	} {
		c := Config{RunDir: t.TempDir(), BinDir: "bin", Postgres: &postgres.Installation{}, Executors: 1}
		change(&c)
		if _, err := Boot(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
