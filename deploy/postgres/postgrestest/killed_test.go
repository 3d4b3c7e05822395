package postgrestest

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
	"strconv"
	"strings"
	"testing"
	"time"

	"fenceproof/deploy/process"
)

// victimVariable makes the test's own binary a test that is going to be killed.
const victimVariable = "POSTGRESTEST_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victimVariable) != "" {
		i, end, err := start("off")
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		if os.Getenv(victimVariable) == "paused" {
			err = process.Pause(context.Background(), i.Process())
		}
		fmt.Println("data", i.DataFolder(), err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or whoever was to kill it is gone
		runtime.KeepAlive(end)               // held until then: with it goes the janitor's pipe, and then the server
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
		line, err := bufio.NewReader(out).ReadString('\n')
		f := strings.Fields(line)
		if err != nil || len(f) != 3 || f[2] != "<nil>" {
			t.Fatalf("the victim says %q, %v", line, err)
		}
		pids, err := process.WorkingIn(f[1], "postgres")
		if err != nil || len(pids) < 4 {
			t.Fatalf("the victim's server has processes %v, %v", pids, err)
		}
		key := segmentKey(t, f[1])
		if !segmentExists(t, key) {
			t.Fatal("the server has no System V segment: the test would prove nothing")
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait() // it was killed, and says so
		for _, pid := range pids {
			await(t, state+": the end of the server", func() bool { return process.Gone(pid) })
		}
		await(t, state+": the folder to vanish", func() bool {
			_, err := os.Stat(filepath.Dir(f[1]))
			return errors.Is(err, os.ErrNotExist)
		})
		await(t, state+": the shared memory to vanish", func() bool { return !segmentExists(t, key) })
	}
}

// await polls until cond holds.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(time.Millisecond) { // between two looks
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// segmentKey reads the key of a server's segment, as the kernel prints it, from the seventh line of postmaster.pid.
func segmentKey(t *testing.T, data string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := strconv.ParseUint(strings.Fields(strings.Split(string(text), "\n")[6])[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(int(int32(key)))
}

func segmentExists(t *testing.T, key string) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Fields(line)[0] == key {
			return true
		}
	}
	return false
}
