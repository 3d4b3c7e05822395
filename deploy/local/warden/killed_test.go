package warden

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"fenceproof/deploy/process"

	"golang.org/x/sys/unix"
)

// init fills in the role of a harness that is killed: one family runs, one is stopped, one was half killed.
func init() {
	roles["harness"] = func(dir string) error {
		ctx := context.Background()
		w, err := Start(ctx, filepath.Join(dir, "log"))
		if err != nil {
			return err
		}
		guarded := filepath.Join(dir, "guarded")
		if err := errors.Join(w.Guard(ctx, Leftover{Folder, guarded}), os.Mkdir(guarded, 0o700)); err != nil {
			return err
		}
		ps := map[string]process.Process{}
		for _, n := range []string{"running", "stopped", "orphaned"} {
			if ps[n], err = w.Launch(ctx, familyCommand(filepath.Join(dir, n))); err != nil {
				return err
			}
		}
		fmt.Println("warden", w.cmd.Process.Pid, w.cgroup)
		bufio.NewReader(os.Stdin).ReadString('\n') // until the test has seen all pids
		if err := process.Pause(ctx, ps["stopped"]); err != nil {
			return err
		}
		if err := ps["orphaned"].Signal(syscall.SIGKILL); err != nil {
			return err
		}
		<-ps["orphaned"].Done()
		return nil
	}
}

func TestNothingOutlivesAHarnessThatIsKilled(t *testing.T) {
	dir := t.TempDir()
	harness, in, out := role(t, "harness", dir)
	f := strings.Fields(line(t, out))
	wardenPid, err := strconv.Atoi(f[1])
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, n := range []string{"running", "stopped", "orphaned"} {
		all = append(all, pids(t, filepath.Join(dir, n), 2)...)
	}
	fmt.Fprintln(in)
	if got := line(t, out); got != "ready" {
		t.Fatal(got)
	}
	if err := harness.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	harness.Wait() // it was killed, and says so
	awaitAllGone(t, append(all, wardenPid))
	awaitNoFile(t, filepath.Join(dir, "guarded"))
	if len(f) > 2 {
		awaitNoFile(t, f[2])
	}
	if text, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || len(text) > 0 {
		t.Errorf("the warden complained: %s %v", text, err)
	}
}

func TestNothingOutlivesAWardenThatIsKilled(t *testing.T) {
	w := start(t)
	dir := t.TempDir()
	guarded := filepath.Join(dir, "guarded")
	if err := errors.Join(w.Guard(t.Context(), Leftover{Folder, guarded}), os.Mkdir(guarded, 0o700)); err != nil {
		t.Fatal(err)
	}
	running, stopped := filepath.Join(dir, "running"), filepath.Join(dir, "stopped")
	r, err := w.Launch(t.Context(), familyCommand(running))
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Launch(t.Context(), familyCommand(stopped))
	if err != nil {
		t.Fatal(err)
	}
	all := append(pids(t, running, 2), pids(t, stopped, 2)...)
	if w.cgroup == "" {
		all = []int{r.Pid(), s.Pid()} // grandchildren that hide in a session of their own need the cgroup
	}
	t.Cleanup(func() { endFamilies(t, running, stopped) })
	if err := process.Pause(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-w.Lost()
	<-r.Done()
	<-s.Done()
	awaitAllGone(t, all)
	awaitNoFile(t, guarded)
	if w.cgroup != "" {
		awaitNoFile(t, w.cgroup)
	}
	if _, err := w.Launch(t.Context(), familyCommand(running)); !errors.Is(err, errLost) {
		t.Errorf("launch after the warden's end: %v", err)
	}
	if err := w.Close(t.Context()); !errors.Is(err, errLost) {
		t.Errorf("close after the warden's end: %v", err)
	}
}

// init fills in the role of a warden without a cgroup: it has a child, and an orphan whose parent is gone.
func init() {
	roles["tree"] = func(dir string) error {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return err
		}
		for _, n := range []string{"child", "orphaned"} {
			p, err := process.Direct{}.Launch(context.Background(), familyCommand(filepath.Join(dir, n)))
			if err != nil {
				return err
			}
			fmt.Println(p.Pid())
			bufio.NewReader(os.Stdin).ReadString('\n') // until the test has seen all pids
			if n == "orphaned" {
				if err := p.Signal(syscall.SIGKILL); err != nil {
					return err
				}
				<-p.Done()
			}
		}
		return killDescendants(context.Background())
	}
}

func TestTheTreeOfProcessesIsKilledWhereThereIsNoCgroup(t *testing.T) {
	dir := t.TempDir()
	_, in, out := role(t, "tree", dir)
	var all []int
	for _, n := range []string{"child", "orphaned"} {
		line(t, out)
		all = append(all, pids(t, filepath.Join(dir, n), 2)...)
		fmt.Fprintln(in)
	}
	if got := line(t, out); got != "ready" {
		t.Fatal(got)
	}
	for _, pid := range all {
		if !process.Gone(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
}

// endFamilies ends what a killed warden cannot reach for want of a cgroup, or what a broken one forgot.
func endFamilies(t *testing.T, files ...string) {
	for _, f := range files {
		if err := process.KillAll(context.Background(), pids(t, f, 2)); err != nil {
			t.Error(err)
		}
	}
}
