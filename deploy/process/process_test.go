package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const parentVariable = "PROCESS_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		p, err := Direct{}.Launch(context.Background(), sleeper())
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.Pid())
		select {}
	}
	goleak.VerifyTestMain(m)
}

func sleeper() Command { return Command{Path: "/bin/sleep", Args: []string{"1000"}, Dir: "/"} }

func TestTheStateIsReadWhateverTheProgramIsCalled(t *testing.T) {
	fields := " S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 99 rest"
	for _, name := range []string{"sh", "a b", ") S 1 (", "x)y"} {
		s, err := parseStat([]byte("42 (" + name + ")" + fields))
		if want := (Stat{Pid: 42, Parent: 7, State: 'S', Start: 12345}); err != nil || s != want {
			t.Errorf("%q: %+v, %v", name, s, err)
		}
	}
	for _, torn := range []string{"", "42", "42 (sh) S 1", "x (sh)" + fields} {
		if _, err := parseStat([]byte(torn)); err == nil {
			t.Errorf("%q was read", torn)
		}
	}
}

func TestAProcessSeesNothingButTheEnvironmentThatItIsGiven(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for _, env := range [][]string{nil, {"ONLY=this"}} {
		p, err := Direct{}.Launch(t.Context(), Command{Path: "/usr/bin/env", Env: env, Dir: "/", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
	}
	if text, err := os.ReadFile(log); err != nil || string(text) != "ONLY=this\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestAPausedProcessIsStoppedInEveryThreadAndDiesAllTheSame(t *testing.T) {
	p, err := Direct{}.Launch(t.Context(), sleeper())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := Pause(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if ok, err := stopped(p.Pid()); !ok || err != nil {
			t.Errorf("after pause: stopped %v, %v", ok, err)
		}
		if err := Resume(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if ok, err := resumed(p.Pid()); !ok || err != nil {
			t.Errorf("after resume: resumed %v, %v", ok, err)
		}
	}
	if err := errors.Join(Pause(t.Context(), p), Kill(t.Context(), p)); err != nil {
		t.Fatal(err)
	}
	if !Gone(p.Pid()) || p.Status() != "signal: killed" {
		t.Errorf("gone %v, %s", Gone(p.Pid()), p.Status())
	}
	if err := Kill(t.Context(), p); err != nil {
		t.Errorf("killing it again: %v", err)
	}
	if err := Pause(t.Context(), p); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("pausing what is dead: %v", err)
	}
}

func TestAProcessThatIgnoresTheRequestToEndIsKilledAndReported(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p, err := Direct{}.Launch(t.Context(), Command{Path: "/bin/sh", Args: []string{"-c", "trap '' TERM; echo ready; while :; do /bin/sleep 1000; done"}, Dir: "/", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(effectLimit); ; time.Sleep(look) {
		if text, _ := os.ReadFile(log); len(text) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the shell does not start")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := Stop(ctx, p, syscall.SIGTERM); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if !Gone(p.Pid()) {
		t.Error("it is still there")
	}
}

func TestAChildDiesWithAParentThatIsKilled(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), parentVariable+"=yes")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(line)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // it was killed, and says so
	if err := AwaitGone(t.Context(), []int{pid}); err != nil {
		t.Error(err)
	}
}

func TestAChildOutlivesTheThreadsOfItsParent(t *testing.T) {
	p, err := Direct{}.Launch(t.Context(), sleeper())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // threads that end, as those of locked goroutines do
		done := make(chan struct{})
		go func() { runtime.LockOSThread(); close(done) }()
		<-done
	}
	select {
	case <-p.Done():
		t.Errorf("it died of a thread's end: %s", p.Status())
	default:
	}
	if err := Kill(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}
