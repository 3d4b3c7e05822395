package lockserver_test

import (
	"log/slog"
	"strings"
	"testing"

	"fenceproof/deploy/etcd"
	"fenceproof/system/lock"
	"fenceproof/system/lock/etcdstore"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// backend is a backend that lock servers of a test share, empty at first.
type backend interface {
	// serve has one more lock server serve it.
	serve(t testing.TB, maxWaiters int) *service
	// keys lists the locks that are stored, stored counts them and the sessions.
	keys(t testing.TB) []string
	stored(t testing.TB) int
}

// onBoth runs a test on both backends: whoever calls a lock server cannot tell which one it has.
func onBoth(t *testing.T, test func(t *testing.T, b backend)) {
	t.Run("pg", func(t *testing.T) { test(t, pgBackend(emptied(t))) })
	t.Run("etcd", func(t *testing.T) { test(t, emptiedEtcd(t)) })
}

// served is onBoth for tests that need no more than one lock server.
func served(t *testing.T, test func(t *testing.T, v *service)) {
	onBoth(t, func(t *testing.T, b backend) { test(t, b.serve(t, 100)) })
}

// pgBackend is the URL of a lockdb.
type pgBackend string

func (b pgBackend) serve(t testing.TB, maxWaiters int) *service {
	return serve(t, string(b), maxWaiters)
}

func (b pgBackend) keys(t testing.TB) []string {
	return query[[]string](&service{t: t, database: string(b)}, "SELECT coalesce(array_agg(lock_key), '{}') FROM lock_entry")
}

func (b pgBackend) stored(t testing.TB) int {
	return query[int](&service{t: t, database: string(b)}, "SELECT (SELECT count(*) FROM lock_session) + (SELECT count(*) FROM lock_entry)")
}

// etcdBackend is an etcd of one member.
type etcdBackend struct {
	member *etcd.Member
	client *clientv3.Client
}

func newEtcdBackend(t testing.TB, m *etcd.Member) *etcdBackend {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.URL()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // there is nothing to learn from it
	return &etcdBackend{m, c}
}

// emptiedEtcd is the etcd that most tests use, one after the other.
func emptiedEtcd(t testing.TB) *etcdBackend {
	t.Helper()
	b := newEtcdBackend(t, member)
	if _, err := b.client.Delete(t.Context(), "fenceproof/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *etcdBackend) serve(t testing.TB, maxWaiters int) *service {
	t.Helper()
	open := func(log *slog.Logger) (lock.Store, error) { return etcdstore.Open([]string{b.member.URL()}, log) }
	v := serveOn(t, "etcd", open, maxWaiters)
	eventually(t, "the lock server reaches etcd", func() bool { return v.do("GET", "/v1/locks/nothing", "").status == 200 })
	return v
}

func (b *etcdBackend) keys(t testing.TB) (all []string) {
	t.Helper()
	r, err := b.client.Get(t.Context(), "fenceproof/lock/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range r.Kvs {
		all = append(all, strings.TrimPrefix(string(kv.Key), "fenceproof/lock/"))
	}
	return all
}

func (b *etcdBackend) stored(t testing.TB) int {
	t.Helper()
	r, err := b.client.Get(t.Context(), "fenceproof/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return int(r.Count)
}
