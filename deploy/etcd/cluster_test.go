package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/deploy/process"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of these tests; none takes a tenth of it.
const patience = 20 * time.Second

func create(t *testing.T, n int, o Options) *Cluster {
	t.Helper()
	in, err := Prepare(t.Context(), func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o.Name, o.Folder, o.Unsafe = "etcd", dir, true
	o.Log = func(name string) string { return filepath.Join(dir, name+".log") }
	c, err := in.Create(n, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func started(t *testing.T, n int, o Options) *Cluster {
	t.Helper()
	c := create(t, n, o)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// with runs a step with a client of some members.
func with(t *testing.T, members []*Member, step func(ctx context.Context, c *clientv3.Client) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var urls []string
	for _, m := range members {
		urls = append(urls, m.URL())
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: urls})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(step(ctx, c), c.Close()); err != nil {
		t.Fatal(err)
	}
}

// put writes a key, again and again until it is written: what was proposed to a leader that died is lost without a word.
func put(t *testing.T, m *Member, key, value string) {
	t.Helper()
	with(t, []*Member{m}, func(ctx context.Context, c *clientv3.Client) error {
		for {
			try, cancel := context.WithTimeout(ctx, 3*ElectionTimeout)
			_, err := c.Put(try, key, value)
			cancel()
			if err == nil || ctx.Err() != nil {
				return err
			}
		}
	})
}

// get gives a key's value, empty where there is none, and the revision at which it was read.
func get(t *testing.T, m *Member, key string) (value string, revision int64) {
	t.Helper()
	with(t, []*Member{m}, func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.Get(ctx, key)
		if err != nil {
			return err
		}
		for _, kv := range r.Kvs {
			value = string(kv.Value)
		}
		revision = r.Header.Revision
		return nil
	})
	return value, revision
}

func TestAKilledMemberHasWhatItAnsweredAndIsWhereItWas(t *testing.T) {
	m := started(t, 1, Options{}).Members()[0]
	put(t, m, "k", "before")
	url, pid := m.URL(), m.Process().Pid()
	if err := m.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m.Running() || !process.Gone(pid) || m.Healthy(t.Context()) == nil {
		t.Error("it was killed and is there")
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v, _ := get(t, m, "k"); v != "before" || m.URL() != url {
		t.Errorf("it has %q, at %s", v, m.URL())
	}
	if err := m.Start(t.Context()); err == nil {
		t.Error("it was started twice")
	}
	if err := m.Stop(t.Context()); err != nil || m.Running() {
		t.Errorf("stopped in order: %v", err)
	}
}

func TestAPausedMemberAnswersNobodyUntilItIsResumed(t *testing.T) {
	m := started(t, 1, Options{}).Members()[0]
	if err := m.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err := process.ReadStat(m.Process().Pid()); err != nil || st.State != 'T' {
		t.Errorf("it is paused and in state %c, %v", st.State, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if m.Healthy(short) == nil {
		t.Error("it is paused and answers")
	}
	if err := m.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.AwaitHealthy(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAMemberThatCannotStartSaysWhyWithTheEndOfItsLog(t *testing.T) {
	m := create(t, 1, Options{}).Members()[0]
	stranger, err := net.Listen("tcp", m.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if err := m.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v", err)
	}
	if m.Running() {
		t.Error("it runs")
	}
}

func TestDataComesBackFromASnapshotAndWithItTheRevision(t *testing.T) {
	m := started(t, 1, Options{}).Members()[0]
	put(t, m, "k", "old")
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	in := m.in
	with(t, []*Member{m}, func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.Snapshot(ctx)
		if err != nil {
			return err
		}
		f, err := os.Create(snapshot)
		if err != nil {
			return err
		}
		_, err = f.ReadFrom(r)
		return errors.Join(err, f.Close(), r.Close())
	})
	_, before := get(t, m, "k")
	put(t, m, "k", "new")
	restore := func(dir string) error {
		args := append([]string{"snapshot", "restore", snapshot, "--data-dir=" + dir}, m.RestoreFlags()...)
		if out, err := exec.Command(in.Program("etcdutl"), args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := m.ReplaceData(restore); err == nil {
		t.Error("the data of a running server was replaced")
	}
	if err := m.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.ReplaceData(func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), errors.New("no such snapshot")) }); err == nil {
		t.Error("a failure was kept secret")
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v, _ := get(t, m, "k"); v != "new" {
		t.Errorf("after a replacement that failed it has %q", v)
	}
	if err := errors.Join(m.Crash(t.Context()), m.ReplaceData(restore), m.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	if v, revision := get(t, m, "k"); v != "old" || revision != before {
		t.Errorf("restored, it has %q at revision %d; want %d", v, revision, before)
	}
}

func TestMembersHaveNoWayToOneAnotherButTheirLinks(t *testing.T) {
	nowhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := nowhere.Addr().String()
	nowhere.Close()
	var pairs []string
	c := create(t, 3, Options{PeerLink: func(from, to, _ string) (string, error) {
		pairs = append(pairs, from+" "+to)
		return addr, nil
	}})
	want := []string{"etcd-1 etcd-2", "etcd-1 etcd-3", "etcd-2 etcd-1", "etcd-2 etcd-3", "etcd-3 etcd-1", "etcd-3 etcd-2"}
	if slices.Sort(pairs); !slices.Equal(pairs, want) {
		t.Errorf("asked for links between %v", pairs)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*ElectionTimeout)
	defer cancel()
	if err := c.Start(ctx); err == nil {
		t.Error("members without a way to one another elected a leader")
	}
}

func TestAClusterOverLinksAgreesAndAMemberThatWasAwayCatchesUp(t *testing.T) {
	var mu sync.Mutex
	used := map[string]int{}
	c := started(t, 3, Options{PeerLink: func(from, to, upstream string) (string, error) {
		return counted(t, upstream, func() { mu.Lock(); defer mu.Unlock(); used[from+" "+to]++ })
	}})
	members := c.Members()
	put(t, members[0], "k", "1")
	if err := members[2].Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, members[1], "k", "2") // two are a majority
	if err := errors.Join(members[2].Start(t.Context()), members[2].AwaitHealthy(t.Context())); err != nil {
		t.Fatal(err)
	}
	if v, _ := get(t, members[2], "k"); v != "2" {
		t.Errorf("it came back and has %q", v)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(used) != 6 {
		t.Errorf("links that were used: %v", used)
	}
}

// counted is a link that counts its connections. It ends with the test.
func counted(t *testing.T, upstream string, count func()) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed
			}
			count()
			wg.Go(func() { splice(client, upstream) })
		}
	})
	return l.Addr().String(), nil
}

// splice joins a connection with one to upstream until either ends.
func splice(client net.Conn, upstream string) {
	defer client.Close()
	server, err := net.Dial("tcp", upstream)
	if err != nil {
		return
	}
	defer server.Close()
	var wg sync.WaitGroup
	pump := func(to, from net.Conn) {
		_, _ = to.(*net.TCPConn).ReadFrom(from) // the end of either side is the end of both
		to.Close()
		from.Close()
	}
	wg.Go(func() { pump(server, client) })
	wg.Go(func() { pump(client, server) })
	wg.Wait()
}

func TestAnEvenNumberOfMembersIsRefused(t *testing.T) {
	for _, n := range []int{-1, 0, 2, 4} {
		if _, err := (&Installation{}).Create(n, Options{Name: "etcd", Folder: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "odd") {
			t.Errorf("%d: %v", n, err)
		}
	}
}
