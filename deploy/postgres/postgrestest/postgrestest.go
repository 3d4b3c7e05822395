// Package postgrestest gives tests a real PostgreSQL server each. Nothing of it outlives the test, whether that ends,
// fails, or is killed.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"fenceproof/deploy/janitor"
	"fenceproof/deploy/postgres"
)

// firstUse bounds everything that a first use may have to do, fetching PostgreSQL included.
const firstUse = 5 * time.Minute

var prepare = sync.OnceValues(func() (*postgres.Installation, error) {
	ctx, cancel := context.WithTimeout(context.Background(), firstUse)
	defer cancel()
	return postgres.Prepare(ctx, func(line string) { fmt.Fprintln(os.Stderr, line) })
})

// Start gives t a server of its own, copied from an initialised data directory (about 0.1 s). It is stopped and removed
// when t ends.
func Start(t testing.TB) *postgres.Instance {
	t.Helper()
	return run(t, "off")
}

// StartDurable is Start with fsync on, for benchmarks: what waits for the disk in production must wait for it there.
func StartDurable(t testing.TB) *postgres.Instance {
	t.Helper()
	return run(t, "on")
}

func run(t testing.TB, fsync string) *postgres.Instance {
	t.Helper()
	i, end, err := start(fsync)
	if err != nil {
		t.Fatalf("start a PostgreSQL server for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Errorf("remove the test's PostgreSQL server: %v", err)
		}
	})
	return i
}

// Run is for a TestMain whose package shares one server among its tests: it starts one, hands it to use, runs the tests
// (m is a *testing.M, or what runs one) and removes it. It returns the exit status.
func Run(m interface{ Run() int }, use func(*postgres.Instance)) int {
	i, end, err := start("off")
	if err != nil {
		fmt.Fprintln(os.Stderr, "start a PostgreSQL server for the tests:", err)
		return 1
	}
	use(i)
	status := m.Run()
	if err := end(); err != nil {
		fmt.Fprintln(os.Stderr, "remove the tests' PostgreSQL server:", err)
		return 1
	}
	return status
}

func start(fsync string) (*postgres.Instance, func() error, error) {
	in, err := prepare()
	if err != nil {
		return nil, nil, err
	}
	home, err := os.MkdirTemp("", "fenceproof-test-")
	if err != nil {
		return nil, nil, err
	}
	if err := os.Chmod(home, 0o755); err != nil { // the server may run as another user
		return nil, nil, errors.Join(err, os.RemoveAll(home))
	}
	i, err := in.Create(postgres.Options{
		Name: "test", Folder: filepath.Join(home, "data"), Log: filepath.Join(home, "log"),
		// A test kills processes, not machines: what was written is in the kernel's hands and survives the one. Waiting
		// for the disk (fsync) would only make tests slow and dependent on their neighbours.
		Settings: map[string]string{"fsync": fsync},
	})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(home))
	}
	g, err := janitor.Start(janitorName, i.DataFolder(), home)
	if err != nil {
		return nil, nil, errors.Join(err, i.Remove(), os.RemoveAll(home))
	}
	end := func() error {
		ctx := context.Background()
		return errors.Join(i.Crash(ctx), i.Remove(), os.RemoveAll(home), g.Dismiss())
	}
	if err := i.Start(context.Background()); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return i, end, nil
}
