// Package etcdtest gives tests a real etcd each, of one member or of several. Nothing of it outlives the test, whether
// that ends, fails, or is killed.
package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"fenceproof/deploy/etcd"
	"fenceproof/deploy/janitor"
)

// firstUse bounds everything that a first use may have to do, building etcd included.
const firstUse = 8 * time.Minute

var prepare = sync.OnceValues(func() (*etcd.Installation, error) {
	ctx, cancel := context.WithTimeout(context.Background(), firstUse)
	defer cancel()
	return etcd.Prepare(ctx, func(line string) { fmt.Fprintln(os.Stderr, line) })
})

// Start gives t an etcd of one member, healthy and empty. It is stopped and removed when t ends.
func Start(t testing.TB) *etcd.Member {
	t.Helper()
	return run(t, 1, true)[0]
}

// StartDurable is Start with fsync on, for benchmarks: what waits for the disk in production must wait for it there.
func StartDurable(t testing.TB) *etcd.Member {
	t.Helper()
	return run(t, 1, false)[0]
}

// StartCluster gives t an etcd of several members, healthy and empty. It is stopped and removed when t ends.
func StartCluster(t testing.TB, members int) []*etcd.Member {
	t.Helper()
	return run(t, members, true)
}

func run(t testing.TB, members int, unsafe bool) []*etcd.Member {
	t.Helper()
	m, end, err := start(members, unsafe)
	if err != nil {
		t.Fatalf("start etcd for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Errorf("remove the test's etcd: %v", err)
		}
	})
	return m
}

// Run is for a TestMain whose package shares one member among its tests: it starts one, hands it to use, runs the tests
// and removes it. It returns the exit status.
func Run(m *testing.M, use func(*etcd.Member)) int {
	members, end, err := start(1, true)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start etcd for the tests:", err)
		return 1
	}
	use(members[0])
	status := m.Run()
	if err := end(); err != nil {
		fmt.Fprintln(os.Stderr, "remove the tests' etcd:", err)
		return 1
	}
	return status
}

func start(n int, unsafe bool) ([]*etcd.Member, func() error, error) {
	in, err := prepare()
	if err != nil {
		return nil, nil, err
	}
	home, err := os.MkdirTemp("", "fenceproof-test-")
	if err != nil {
		return nil, nil, err
	}
	c, err := in.Create(n, etcd.Options{
		Name: "test", Folder: filepath.Join(home, "etcd"), Unsafe: unsafe,
		Log: func(name string) string { return filepath.Join(home, name+".log") },
	})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(home))
	}
	swept := []string{home}
	for _, m := range c.Members() {
		swept = append(swept, m.Folder())
	}
	g, err := janitor.Start(janitorName, swept...)
	if err != nil {
		return nil, nil, errors.Join(err, c.Remove(context.Background()), os.RemoveAll(home))
	}
	end := func() error {
		return errors.Join(c.Remove(context.Background()), os.RemoveAll(home), g.Dismiss())
	}
	if err := c.Start(context.Background()); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return c.Members(), end, nil
}
