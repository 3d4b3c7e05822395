package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fenceproof/checker/verdict"
)

// binaries is the folder of the built suite and services. The tests run what a user runs.
var binaries string

func TestMain(m *testing.M) {
	os.Exit(withBinaries(m))
}

func withBinaries(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fenceproof-test-bin-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir+"/", "./checker/cmd/...", "./system/cmd/...")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		panic("build the suite and the services: " + err.Error() + "\n" + string(out))
	}
	binaries = dir
	return m.Run()
}

// command is one run of the command in a folder of its own.
type running struct {
	t    *testing.T
	cmd  *exec.Cmd
	runs string
	mu   sync.Mutex
	out  bytes.Buffer
	line chan string
	done chan struct{}
	err  error
}

const patience = 2 * time.Minute

// start begins a run of fenceproof; args come after "verify --runs DIR".
func start(t *testing.T, args ...string) *running {
	t.Helper()
	return startIn(t, binaries, args...)
}

// startIn is start with the binaries in the folder bin.
func startIn(t *testing.T, bin string, args ...string) *running {
	t.Helper()
	return startCommand(t, bin, "verify", args...)
}

// startCommand begins command --runs DIR.
func startCommand(t *testing.T, bin, command string, args ...string) *running {
	t.Helper()
	r := &running{t: t, runs: t.TempDir(), line: make(chan string, 10_000), done: make(chan struct{})}
	r.cmd = exec.Command(filepath.Join(bin, "fenceproof"), append([]string{command, "--runs", r.runs}, args...)...)
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.cmd.Stderr = r.cmd.Stdout
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go r.read(out)
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // it has ended unless the test failed
		<-r.done
		awaitNobody(t, r.runs)
		if out, status := fenceproof(t, "clean", "--runs", r.runs); status != 0 { // kept databases may lie elsewhere
			t.Errorf("clean ended with %d: %s", status, out)
		}
		if t.Failed() {
			t.Logf("it printed:\n%s", r.printed())
		}
	})
	return r
}

func (r *running) read(out io.Reader) {
	defer close(r.done)
	s := bufio.NewScanner(out)
	for s.Scan() {
		r.mu.Lock()
		r.out.WriteString(s.Text() + "\n")
		r.mu.Unlock()
		r.line <- s.Text()
	}
	r.err = r.cmd.Wait()
}

func (r *running) printed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}

// awaitLine waits until a line that holds text was printed.
func (r *running) awaitLine(text string) {
	r.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case l := <-r.line:
			if strings.Contains(l, text) {
				return
			}
		case <-r.done:
			r.t.Fatalf("it ended without printing %q", text)
		case <-deadline:
			r.t.Fatalf("it did not print %q", text)
		}
	}
}

// wait waits for the end and gives the exit status, −1 when a signal ended it.
func (r *running) wait() int {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatal("it did not end")
	}
	var exit *exec.ExitError
	if errors.As(r.err, &exit) {
		return exit.ExitCode()
	}
	if r.err != nil {
		r.t.Fatal(r.err)
	}
	return 0
}

// folder is the only run's folder.
func (r *running) folder() string {
	r.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(r.runs, "2*"))
	if err != nil || len(dirs) != 1 {
		r.t.Fatalf("the runs' folder holds %v (%v), not one run", dirs, err)
	}
	return dirs[0]
}

func (r *running) verdict() *verdict.Run {
	r.t.Helper()
	v, err := verdict.Read(r.folder())
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// fenceproof runs any other command to its end.
func fenceproof(t *testing.T, args ...string) (out string, status int) {
	t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "fenceproof"), args...)
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// leftovers lists the living processes that belong to the run in dir: by their command line, folder or open log.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		proc := filepath.Join("/proc", e.Name())
		cmdline, _ := os.ReadFile(filepath.Join(proc, "cmdline")) // it may have ended since
		cwd, _ := os.Readlink(filepath.Join(proc, "cwd"))
		stdout, _ := os.Readlink(filepath.Join(proc, "fd", "1"))
		environ, _ := os.ReadFile(filepath.Join(proc, "environ"))
		for _, s := range []string{string(cmdline), cwd, stdout, string(environ)} {
			if strings.Contains(s, dir) {
				left = append(left, e.Name()+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
				break
			}
		}
	}
	return left
}

// awaitNobody waits until no process of the run is left.
func awaitNobody(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		left := leftovers(t, dir)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("these are still there:\n%s", strings.Join(left, "\n"))
		}
		time.Sleep(50 * time.Millisecond) // the pause between two looks at the condition
	}
}

// killWarden ends the run's warden, its harness's only child.
func (r *running) killWarden() {
	r.t.Helper()
	pid := r.cmd.Process.Pid
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
	if err != nil {
		r.t.Fatal(err)
	}
	var children []string
	for _, f := range threads {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		children = append(children, strings.Fields(string(b))...)
	}
	if len(children) != 1 {
		r.t.Fatalf("the harness has the children %v, not one", children)
	}
	warden, err := strconv.Atoi(children[0])
	if err != nil {
		r.t.Fatal(err)
	}
	if err := syscall.Kill(warden, syscall.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
}

func signalTo(t *testing.T, r *running, s syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// withBroken is a folder with all programs, of which one is a script instead.
func withBroken(t *testing.T, program, script string) string {
	t.Helper()
	bin := t.TempDir()
	entries, err := os.ReadDir(binaries)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == program {
			continue
		}
		if err := os.Link(filepath.Join(binaries, e.Name()), filepath.Join(bin, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(bin, program), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return bin
}
