package etcdstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"fenceproof/deploy/etcd"
	"fenceproof/deploy/etcd/etcdtest"
	"fenceproof/system/lock"
	"fenceproof/system/lock/locktest"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) {
	status := locktest.Main(m, (*testing.M).Run)
	if err := goleak.Find(); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func TestContract(t *testing.T) {
	locktest.Run(t, locktest.Backends{
		Shared: func(t testing.TB) locktest.Backend { return newBackend(t) },
		Own:    func(t testing.TB) locktest.Lone { return newBackend(t) },
		Server: func(t testing.TB) locktest.Server { return newBackend(t) },
	})
}

// backend is an etcd of one member with a client of the test's own.
type backend struct {
	member *etcd.Member
	client *clientv3.Client

	mu      sync.Mutex
	grants  map[string][]int64 // by lock: the revisions at which its key was put
	markers int                // that the log has passed
	put     int                // that were put
	moved   *sync.Cond
}

func newBackend(t testing.TB) *backend {
	t.Helper()
	return newBackendOn(t, etcdtest.Start(t))
}

func newBackendOn(t testing.TB, m *etcd.Member) *backend {
	t.Helper()
	b := &backend{member: m, grants: map[string][]int64{}}
	b.moved = sync.NewCond(&b.mu)
	b.client = connect(t, b.member.URL())
	ctx, cancel := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	log := b.client.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(1))
	reading.Go(func() { b.read(log) })
	t.Cleanup(func() {
		cancel()
		reading.Wait()
	})
	return b
}

func connect(t testing.TB, url string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // there is nothing to learn from it
	return c
}

// read keeps the log: every put of a lock's key, from the first revision on.
func (b *backend) read(log clientv3.WatchChan) {
	for r := range log {
		b.mu.Lock()
		for _, e := range r.Events {
			key, isLock := strings.CutPrefix(string(e.Kv.Key), "fenceproof/lock/")
			switch {
			case string(e.Kv.Key) == marker:
				b.markers++
			case isLock && e.Type == clientv3.EventTypePut:
				b.grants[key] = append(b.grants[key], e.Kv.ModRevision)
			}
		}
		b.moved.Broadcast()
		b.mu.Unlock()
	}
}

// marker is a key that says that the log has been read up to where it was put.
const marker = "marker-of-the-test"

func (b *backend) Address() string { return b.member.Address() }

func (b *backend) Open(t testing.TB, address string) lock.Store {
	t.Helper()
	return open(t, "http://"+address)
}

func open(t testing.TB, endpoints ...string) lock.Store {
	t.Helper()
	return openLogging(t, slog.DiscardHandler, endpoints...)
}

func openLogging(t testing.TB, log slog.Handler, endpoints ...string) lock.Store {
	t.Helper()
	s, err := openStore(endpoints, slog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func (b *backend) Grants(t testing.TB, key string) []int64 {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.client.Put(t.Context(), marker, ""); err != nil {
		t.Fatal(err)
	}
	b.put++
	for want := b.put; b.markers < want; {
		b.moved.Wait()
	}
	return slices.Clone(b.grants[key])
}

// keys lists what stands under a prefix, without it.
func (b *backend) keys(t testing.TB, prefix string) []string {
	t.Helper()
	r, err := b.client.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	all := []string{}
	for _, kv := range r.Kvs {
		all = append(all, strings.TrimPrefix(string(kv.Key), prefix))
	}
	return all
}

func (b *backend) Keys(t testing.TB) []string { return b.keys(t, "fenceproof/lock/") }

func (b *backend) Audit(t testing.TB, id string) (a locktest.Audit) {
	t.Helper()
	r, err := b.client.Get(t.Context(), "fenceproof/revocation/"+id)
	if err != nil || len(r.Kvs) != 1 || r.Kvs[0].Lease != 0 {
		t.Fatalf("revocation %s: %+v, %v", id, r, err)
	}
	if err := json.Unmarshal(r.Kvs[0].Value, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func (b *backend) Pause(t testing.TB)  { do(t, b.member.Pause) }
func (b *backend) Resume(t testing.TB) { do(t, b.member.Resume) }
func (b *backend) Crash(t testing.TB)  { do(t, b.member.Crash) }
func (b *backend) Start(t testing.TB)  { do(t, b.member.Start) }

func (b *backend) Stall(t testing.TB, _ string) func() {
	b.Pause(t)
	return func() { b.Resume(t) }
}

func do(t testing.TB, step func(context.Context) error) {
	t.Helper()
	if err := step(t.Context()); err != nil {
		t.Fatal(err)
	}
}
