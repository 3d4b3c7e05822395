package warden

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fenceproof/deploy/process"

	"go.uber.org/goleak"
)

// roles are what the test's own binary does when it runs again as another process.
var roles = map[string]func(dir string) error{}

const roleVariable = "WARDEN_TEST_ROLE"

func TestMain(m *testing.M) {
	RunIfAsked()
	if role := roles[os.Getenv(roleVariable)]; role != nil {
		if err := role(os.Args[1]); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		fmt.Println("ready")
		select {}
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of these tests; none takes a tenth of it.
const patience = 20 * time.Second

// family is a shell that has a child in a session of its own, as PostgreSQL's backends are; both write down their pids.
const family = `setsid sh -c 'echo $$ >> "$0"; exec sleep 1000' "$0" & echo $$ >> "$0"; wait`

func familyCommand(file string) process.Command {
	return process.Command{Path: "/bin/sh", Args: []string{"-c", family, file}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/"}
}

// start starts a warden for the test and the function that ends it.
func start(t *testing.T) *Warden {
	t.Helper()
	w, err := Start(t.Context(), filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// await polls until cond holds.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// pids waits for n pids in the file.
func pids(t *testing.T, file string, n int) []int {
	t.Helper()
	var out []int
	await(t, fmt.Sprintf("%d pids in %s", n, file), func() bool {
		text, _ := os.ReadFile(file)
		out = nil
		for f := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, pid)
		}
		return len(out) == n
	})
	return out
}

func awaitAllGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		await(t, fmt.Sprintf("the end of process %d", pid), func() bool { return process.Gone(pid) })
	}
}

func awaitNoFile(t *testing.T, path string) {
	t.Helper()
	await(t, path+" to vanish", func() bool {
		_, err := os.Lstat(path)
		return errors.Is(err, os.ErrNotExist)
	})
}

func TestAChildsEndIsReportedWithItsStatus(t *testing.T) {
	w := start(t)
	for _, c := range []struct{ script, want string }{
		{"exit 0", "exit status 0"}, {"exit 3", "exit status 3"}, {"kill -9 $$", "signal: killed"},
	} {
		p, err := w.Launch(t.Context(), process.Command{Path: "/bin/sh", Args: []string{"-c", c.script}, Dir: "/"})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		if p.Status() != c.want {
			t.Errorf("%s: status %q, want %q", c.script, p.Status(), c.want)
		}
		if err := p.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s: a signal to an ended process: %v", c.script, err)
		}
		if m, err := w.ask(t.Context(), request{Op: opSignal, Pid: p.Pid()}); !m.Ended || err != nil {
			t.Errorf("%s: the warden would have sent a signal to a pid that it had given back: %+v, %v", c.script, m, err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAChildThatCannotStartIsAnErrorThatNamesIt(t *testing.T) {
	w := start(t)
	_, err := w.Launch(t.Context(), process.Command{Path: "/no/such/program", Dir: "/"})
	if err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("got %v", err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestPauseAndResumeReachTheWholeFamily(t *testing.T) {
	w := start(t)
	file := filepath.Join(t.TempDir(), "pids")
	p, err := w.Launch(t.Context(), familyCommand(file))
	if err != nil {
		t.Fatal(err)
	}
	all := pids(t, file, 2)
	if err := process.Pause(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		if s, err := process.ReadStat(pid); err != nil || s.State != 'T' {
			t.Errorf("after pause process %d is in state %c, %v", pid, s.State, err)
		}
	}
	if err := process.Resume(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		if s, err := process.ReadStat(pid); err != nil || s.State == 'T' {
			t.Errorf("after resume process %d is in state %c, %v", pid, s.State, err)
		}
	}
	if err := process.Kill(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	awaitAllGone(t, all)
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestCloseRemovesWhatIsGuardedAndKeepsWhatWasReleased(t *testing.T) {
	w := start(t)
	dir := t.TempDir()
	guarded, kept := filepath.Join(dir, "guarded"), filepath.Join(dir, "kept")
	for _, d := range []string{guarded, kept} {
		if err := errors.Join(w.Guard(t.Context(), Leftover{Folder, d}), os.Mkdir(d, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Release(t.Context(), Leftover{Folder, kept}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "pids")
	if _, err := w.Launch(t.Context(), familyCommand(file)); err != nil {
		t.Fatal(err)
	}
	all := pids(t, file, 2)
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		if !process.Gone(pid) {
			t.Errorf("process %d outlived the warden", pid)
		}
	}
	if _, err := os.Stat(guarded); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the guarded folder is still there: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("the released folder is gone: %v", err)
	}
	if w.cgroup != "" {
		awaitNoFile(t, w.cgroup)
	}
}

func TestCtrlCDoesNotReachTheWarden(t *testing.T) {
	w := start(t)
	if sid, err := syscall.Getpgid(w.cmd.Process.Pid); err != nil || sid != w.cmd.Process.Pid {
		t.Errorf("the warden is in process group %d, %v: signals of the terminal reach it", sid, err)
	}
	if err := w.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p, err := w.Launch(t.Context(), process.Command{Path: "/bin/sh", Args: []string{"-c", "exit 0"}, Dir: "/"})
	if err != nil {
		t.Fatalf("after SIGINT the warden does not work: %v", err)
	}
	<-p.Done()
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// role runs the test's own binary as another process.
func role(t *testing.T, name, dir string) (*exec.Cmd, *os.File, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", dir)
	cmd.Env = append(os.Environ(), roleVariable+"="+name)
	cmd.Stderr = os.Stderr
	childIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout = childIn, childOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	childIn.Close()
	childOut.Close()
	t.Cleanup(func() { cmd.Process.Kill(); in.Close(); out.Close() })
	return cmd, in, bufio.NewReader(out)
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("the other process says nothing: %v", err)
	}
	return strings.TrimSpace(s)
}
