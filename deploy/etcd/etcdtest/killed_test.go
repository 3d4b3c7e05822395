package etcdtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"fenceproof/deploy/process"
)

// victimVariable makes the test's own binary a test that is going to be killed.
const victimVariable = "ETCDTEST_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victimVariable) != "" {
		members, end, err := start(3, true)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		if os.Getenv(victimVariable) == "paused" {
			for _, m := range members {
				err = errors.Join(err, m.Pause(context.Background()))
			}
		}
		fmt.Println("members", members[0].Folder(), members[1].Folder(), members[2].Folder(), err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or whoever was to kill it is gone
		runtime.KeepAlive(end)               // held until then: with it goes the janitor's pipe, and then the members
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestNothingOutlivesATestThatIsKilled(t *testing.T) {
	for _, state := range []string{"running", "paused"} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), victimVariable+"="+state)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		held, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() }) // normally it is dead
		line, err := bufio.NewReader(out).ReadString('\n')
		f := strings.Fields(line)
		if err != nil || len(f) != 5 || f[4] != "<nil>" {
			t.Fatalf("the victim says %q, %v", line, err)
		}
		var all []int
		for _, folder := range f[1:4] {
			pids, err := process.WorkingIn(folder, "etcd")
			if err != nil || len(pids) != 1 {
				t.Fatalf("the victim's member has processes %v, %v", pids, err)
			}
			all = append(all, pids...)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait() // it was killed, and says so
		for _, pid := range all {
			await(t, state+": the end of a member", func() bool { return process.Gone(pid) })
		}
		await(t, state+": the folder to vanish", func() bool {
			_, err := os.Stat(filepath.Dir(filepath.Dir(f[1])))
			return errors.Is(err, os.ErrNotExist)
		})
	}
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
