package lockclient

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fenceproof/migrations"
	"fenceproof/system/lock"
	"fenceproof/system/lock/lockserver"
	"fenceproof/system/lock/pgstore"
	"fenceproof/system/migrate"

	"github.com/prometheus/client_golang/prometheus"
)

// realServer serves a lockdb of the test's own on real PostgreSQL.
func realServer(t *testing.T, name string) (url string, store lock.Store) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	if err := database.CreateDatabase(t.Context(), name, "lockapp"); err != nil {
		t.Fatal(err)
	}
	history, err := fs.Sub(migrations.LockDB, "lockdb")
	if err != nil {
		t.Fatal(err)
	}
	if err := migrate.Up(t.Context(), database.URL("lockapp", name), history, log); err != nil {
		t.Fatal(err)
	}
	s, err := pgstore.Open(database.URL("lockapp", name), log)
	if err != nil {
		t.Fatal(err)
	}
	server := lockserver.New(lockserver.Options{Store: s, Backend: "pg", DefaultTTL: time.Second, SessionTTL: time.Second,
		MaxWaiters: 100, Log: log, Registerer: prometheus.NewRegistry()})
	h := httptest.NewServer(server.Handler())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Run(ctx) }) // it ends with the context and has no error
	t.Cleanup(func() {
		cancel()
		running.Wait()
		h.Close()
		s.Close()
	})
	return h.URL, s
}

func realClient(t *testing.T, url, owner string) *Client {
	t.Helper()
	c, err := New(Options{BaseURL: url, OwnerID: owner, SessionTTL: time.Minute, Margin: 0.3, Log: slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestProcessesTakeTurnsAtAKeyOfARealServer(t *testing.T) {
	url, store := realServer(t, "turns")
	var inside, last atomic.Int64
	var all sync.WaitGroup
	for i := range 4 {
		c := realClient(t, url, fmt.Sprint("owner-", i))
		all.Go(func() {
			for range 5 {
				l, err := c.Acquire(t.Context(), "payout:a/b c", time.Minute, 30*time.Second)
				if err != nil {
					t.Error(err)
					return
				}
				if in, before := inside.Add(1), last.Swap(l.Token()); in != 1 || before >= l.Token() {
					t.Errorf("%d inside, token %d after %d", in, l.Token(), before)
				}
				if err := l.CheckStillHeld(10 * time.Second); err != nil {
					t.Error(err)
				}
				inside.Add(-1)
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n, err := store.Held(t.Context()); err != nil || n != 0 {
		t.Fatalf("%d grants are left, %v", n, err)
	}
}

func TestAServerThatIsNotThereIsUnavailable(t *testing.T) {
	h := httptest.NewServer(nil)
	h.Close()
	_, err := realClient(t, h.URL, "a").Acquire(t.Context(), "k", time.Second, 0)
	mustBe(t, err, lock.ErrUnavailable)
}

// A process that was stopped past its lease finds that out at its first look, whether or not a timer has fired, and
// although its clock would let it go on.
func TestAProcessThatWasStoppedPastItsLeaseKnowsAtItsFirstLook(t *testing.T) {
	url, store := realServer(t, "stopped")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), holderOf+"="+url)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	says := func() string { lines.Scan(); return lines.Text() }
	if got := says(); !strings.HasPrefix(got, "token ") {
		t.Fatalf("the holder says %q", got)
	}
	ask(t, in)
	if got := says(); got != "held: true" {
		t.Fatalf("before the stop it says %q", got)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for held := true; held; time.Sleep(5 * time.Millisecond) {
		i, err := store.Inspect(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		held = i.Held
	}
	ask(t, in) // it waits in the pipe: the answer is the first thing that the process does
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := says(); got != "held: false" {
		t.Fatalf("after the stop it says %q", got)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

func ask(t *testing.T, in io.Writer) {
	t.Helper()
	if _, err := fmt.Fprintln(in, "?"); err != nil {
		t.Fatal(err)
	}
}
