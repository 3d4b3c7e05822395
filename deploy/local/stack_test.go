package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fenceproof/deploy/local/warden"
	"fenceproof/deploy/postgres"
	"fenceproof/deploy/process"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) {
	warden.RunIfAsked()
	if len(os.Args) == 4 && os.Args[1] == asClient {
		actAsClient(os.Args[2], os.Args[3])
		return
	}
	if dir := os.Getenv(harnessVariable); dir != "" {
		fmt.Print(actAsHarness(dir))
		select {}
	}
	status := m.Run()
	if err := os.RemoveAll(builtDir); err != nil {
		fmt.Println(err)
		status = 1
	}
	os.Exit(status)
}

// patience bounds every wait of these tests; none takes a tenth of it.
const patience = 30 * time.Second

var builtDir string

// build builds the system's binaries once.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "fenceproof-bin-")
	if err != nil {
		return "", err
	}
	builtDir = dir
	out, err := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "fenceproof/system/cmd/...").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the system: %w:\n%s", err, out)
	}
	return dir, nil
})

// config is a small stack in a folder of its own.
func config(t *testing.T) Config {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	in, err := postgres.Prepare(t.Context(), func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	return Config{RunDir: runDir(t), BinDir: bin, Postgres: in, Executors: 2, Progress: func(line string) { t.Log(line) }}
}

// runDir is a folder for a run that a server under another user can enter.
func runDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fenceproof-run-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func boot(t *testing.T, c Config) *Stack {
	t.Helper()
	begin := time.Now()
	s, err := Boot(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("booted in %v", time.Since(begin).Round(time.Millisecond))
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("close the stack: %v", err)
		}
	})
	return s
}

// await polls until cond holds.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) { // between two looks
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

func TestTheWholeSystemBootsAndLeavesNothing(t *testing.T) {
	c := config(t)
	witnessed := false
	c.BeforeServices = func(ctx context.Context, s *Stack) error {
		witnessed = true
		if _, err := s.Process(LockServer); err == nil {
			return errors.New("lock-server has started before the witnesses")
		}
		for db, table := range map[string]string{LockDB: "lock_entry", PayDB: "payout"} {
			if err := tableExists(ctx, s, db, table); err != nil {
				return err
			}
		}
		return nil
	}
	var hops interposed
	c.Interpose = hops.interpose
	s := boot(t, c)
	if want := "executor-1→lock-server executor-1→payment-resource executor-1→rail-proxy executor-2→lock-server executor-2→payment-resource executor-2→rail-proxy rail-proxy→rail-stub reconciler→lock-server reconciler→payment-resource reconciler→rail-stub"; hops.String() != want {
		t.Errorf("interposed on %s\nwant %s", hops.String(), want)
	}
	if !witnessed {
		t.Error("BeforeServices was not called")
	}
	var pids []int
	for _, name := range s.config.names() {
		p, err := s.Process(name)
		if err != nil {
			t.Fatal(err)
		}
		if !p.Running() || process.Gone(p.Pid()) {
			t.Errorf("%s does not run", name)
		}
		pids = append(pids, p.Pid())
	}
	if got := len(s.Links()); got != 7+3*c.Executors {
		t.Errorf("there are %d links", got)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if !process.Gone(pid) {
			t.Errorf("process %d outlived the stack", pid)
		}
	}
	if _, err := os.Stat(filepath.Join(c.RunDir, "data")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data is still there: %v", err)
	}
	if hops.open != 0 {
		t.Errorf("%d interposers were not closed", hops.open)
	}
	if text, err := os.ReadFile(s.LogPath("warden")); err != nil || len(text) > 0 {
		t.Errorf("the warden complained: %s %v", text, err)
	}
}

// interposed notes on which hops it was put, and passes the server's own address on.
type interposed struct {
	mu    sync.Mutex
	names []string
	open  int
}

func (i *interposed) interpose(from, to, upstream string) (string, io.Closer, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.names = append(i.names, LinkName(from, to))
	i.open++
	return upstream, i, nil
}

func (i *interposed) Close() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.open--
	return nil
}

func (i *interposed) String() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	slices.Sort(i.names)
	return strings.Join(i.names, " ")
}

func tableExists(ctx context.Context, s *Stack, db, table string) error {
	url, err := s.SuperURL(db)
	if err != nil {
		return err
	}
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	var n int
	err = c.QueryRow(ctx, "SELECT count(*) FROM pg_class WHERE relname = $1", table).Scan(&n)
	if err == nil && n == 0 {
		err = fmt.Errorf("%s has no table %s", db, table)
	}
	return errors.Join(err, c.Close(ctx))
}

func TestEveryProcessCanBePausedResumedKilledAndRestarted(t *testing.T) {
	s := boot(t, config(t))
	for _, name := range s.config.names() {
		p, err := s.Process(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st, err := process.ReadStat(p.Pid()); err != nil || st.State != 'T' {
			t.Errorf("%s is paused and in state %c, %v", name, st.State, err)
		}
		if err := p.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Restart(t.Context()); err == nil {
			t.Errorf("%s was restarted while it ran", name)
		}
		if err := p.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := p.Pid()
		if err := p.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p.Running() || !process.Gone(before) {
			t.Errorf("%s was killed and is there", name)
		}
		if died := s.Died(); len(died) > 0 {
			t.Errorf("%s was killed, and these died by themselves: %v", name, died)
		}
		if err := p.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p.Pid() == before || !p.Running() {
			t.Errorf("%s was restarted and does not run", name)
		}
	}
	for _, name := range []string{LockServer, PaymentResource, RailProxy, RailStub, Reconciler, Executor(1)} {
		url, err := s.AdminURL(name)
		if err != nil {
			t.Fatal(err)
		}
		await(t, name+" to be ready again", func() bool { return ready(t.Context(), url+"/readyz") == nil })
	}
	for _, name := range []string{LockDB, RailStub} {
		if p, err := s.Process(name); err != nil || syscall.Kill(p.Pid(), syscall.SIGKILL) != nil {
			t.Fatal(err)
		}
	}
	await(t, "two to have died by themselves", func() bool {
		died := s.Died()
		return len(died) == 2 && died[0] == Death{LockDB, "signal: killed"} && died[1] == Death{RailStub, "signal: killed"}
	})
	if p, err := s.Process(RailStub); err != nil || p.Kill(t.Context()) != nil || len(s.Died()) != 2 {
		t.Errorf("one that is dead was killed (%v), and these are left: %v", err, s.Died())
	}
}

func TestAServiceThatDiesDuringBootIsAnErrorWithItsLog(t *testing.T) {
	c := config(t)
	c.Env = map[string]map[string]string{RailProxy: {"RAIL_PROXY_TIMEOUT": "soon"}}
	s, err := Boot(t.Context(), c)
	if err == nil {
		t.Fatal("booted", s.Close(t.Context()))
	}
	for _, want := range []string{RailProxy, "RAIL_PROXY_TIMEOUT", "exit status 2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if _, err := os.Stat(filepath.Join(c.RunDir, "data")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data is still there: %v", err)
	}
}

func TestVariablesForNobodyAreRefused(t *testing.T) {
	c := Config{RunDir: t.TempDir(), BinDir: "bin", Postgres: &postgres.Installation{}, Executors: 1,
		Env: map[string]map[string]string{"executor-2": {"EXECUTOR_POLL": "1s"}}}
	if _, err := Boot(t.Context(), c); err == nil || !strings.Contains(err.Error(), `"executor-2"`) {
		t.Errorf("got %v", err)
	}
}

func TestTwoStacksAtOnceDoNotDisturbOneAnother(t *testing.T) {
	a, b := config(t), config(t)
	var stacks [2]*Stack
	err := together(t.Context(),
		func(ctx context.Context) (err error) { stacks[0], err = Boot(ctx, a); return err },
		func(ctx context.Context) (err error) { stacks[1], err = Boot(ctx, b); return err })
	for _, s := range stacks {
		if s != nil {
			defer s.Close(context.Background())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := stacks[0].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	url, err := stacks[1].AdminURL(LockServer)
	if err != nil {
		t.Fatal(err)
	}
	if err := ready(t.Context(), url+"/readyz"); err != nil {
		t.Errorf("closing one stack hurt the other: %v", err)
	}
	if err := stacks[1].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestACutLinkHurtsOneClientOnly(t *testing.T) {
	s := boot(t, config(t))
	cut, err := s.Link(LinkName(Executor(1), LockServer))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := s.Link(LinkName(Executor(2), LockServer))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []Direction{Both, ToServer, ToClient} {
		if !answers(t, cut) || !answers(t, whole) {
			t.Fatal("a link does not work before it is cut")
		}
		if err := cut.Cut(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if answers(t, cut) {
			t.Errorf("direction %d: an answer came over a cut link", d)
		}
		if !answers(t, whole) {
			t.Errorf("direction %d: the other client was cut as well", d)
		}
		if err := cut.Heal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "an answer over the healed link", func() bool { return answers(t, cut) })
}

// answers tells whether anything comes back over a link. Silence is recognised by waiting.
func answers(t *testing.T, l *Link) bool {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 300 * time.Millisecond}
	resp, err := c.Get("http://" + l.Address() + "/v1/locks/nobody")
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil
}
