package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"fenceproof/deploy/etcd"
	"fenceproof/deploy/postgres"
	"fenceproof/deploy/process"
)

// harnessVariable makes the test's own binary act as a harness whose stack runs in the folder that it names.
const harnessVariable = "LOCAL_TEST_HARNESS"

// etcdVariable has that stack keep its locks in an etcd of three members.
const etcdVariable = "LOCAL_TEST_ETCD"

// actAsHarness boots a stack and pauses some of it. It returns what the test waits to read.
func actAsHarness(dir string) string {
	if os.Getenv(volumeVariable) != "" {
		return actAsFullHarness(dir)
	}
	ctx := context.Background()
	in, err := postgres.Prepare(ctx, nil)
	if err != nil {
		return err.Error()
	}
	if os.Getenv(putBackVariable) != "" {
		return actAsRestoringHarness(dir, in)
	}
	c := Config{RunDir: dir, BinDir: os.Getenv("LOCAL_TEST_BIN"), Postgres: in, Executors: 2}
	paused := []string{Executor(1), LockDB, RailProxy}
	if os.Getenv(etcdVariable) != "" {
		if c.Etcd, err = etcd.Prepare(ctx, nil); err != nil {
			return err.Error()
		}
		c.Backend, c.EtcdMembers = BackendEtcd, 3
		paused = []string{"etcd-2", LockServer}
	}
	s, err := Boot(ctx, c)
	if err != nil {
		return err.Error()
	}
	for _, name := range paused {
		p, err := s.Process(name)
		if err == nil {
			err = p.Pause(ctx)
		}
		if err != nil {
			return err.Error()
		}
	}
	if s.etcd != nil {
		return fmt.Sprintln("ready", s.members[0].DataFolder(), s.members[1].DataFolder(), s.databases[PayDB].DataFolder())
	}
	return fmt.Sprintln("ready", s.databases[LockDB].DataFolder(), s.databases[PayDB].DataFolder())
}

// startHarness starts such a harness, with more variables for it.
func startHarness(t *testing.T, dir string, more ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), harnessVariable+"="+dir, "LOCAL_TEST_BIN="+bin)
	cmd.Env = append(cmd.Env, more...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() }) // normally it is dead
	return cmd, bufio.NewReader(out)
}

// awaitStack waits until a harness's stack is up, and gives its data directories.
func awaitStack(t *testing.T, out *bufio.Reader) []string {
	t.Helper()
	line, err := out.ReadString('\n')
	f := strings.Fields(line)
	if err != nil || len(f) < 3 || f[0] != "ready" {
		t.Fatalf("the harness says %q, %v", line, err)
	}
	return f[1:]
}

// segmentKey reads the key of a server's System V segment, as the kernel prints it, from postmaster.pid.
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

// mapsSharedMemory tells whether a process has a file in /dev/shm: what a killed one would leave there.
func mapsSharedMemory(t *testing.T, pid int) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "maps"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "/dev/shm/")
}

func TestNothingOfAStackOutlivesAHarnessThatIsKilled(t *testing.T) {
	dir := runDir(t)
	harness, out := startHarness(t, dir)
	data := awaitStack(t, out)
	all, err := process.Descendants(harness.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 15 {
		t.Fatalf("the stack has %d processes only", len(all))
	}
	for _, pid := range all {
		if mapsSharedMemory(t, pid) {
			t.Errorf("process %d has a file in /dev/shm, which nobody would remove", pid)
		}
	}
	var keys []string
	for _, d := range data {
		keys = append(keys, segmentKey(t, d))
		if !segmentExists(t, keys[len(keys)-1]) {
			t.Fatal("a server has no System V segment: the test would prove nothing")
		}
	}
	if err := harness.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		await(t, "the end of a process", func() bool { return process.Gone(pid) })
	}
	for i, d := range data {
		if segmentExists(t, keys[i]) {
			t.Errorf("System V segment %s is still there", keys[i])
		}
		if _, err := os.Stat(d); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the data is still there: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "rail-journal.ndjson")); err != nil {
		t.Errorf("the evidence is gone: %v", err)
	}
}

func TestNothingOutlivesAHarnessThatIsKilledWhileItBoots(t *testing.T) {
	if _, err := postgres.Prepare(t.Context(), nil); err != nil { // so that the harness need not
		t.Fatal(err)
	}
	for _, processes := range []int{1, 4, 11} { // from the warden alone to the first services
		dir := runDir(t)
		harness, _ := startHarness(t, dir)
		var all []int
		var err error
		await(t, "the stack to grow", func() bool {
			if all, err = process.Descendants(harness.Process.Pid); err != nil {
				t.Fatal(err)
			}
			_, err := os.Stat(filepath.Join(dir, "logs", "warden.log"))
			return err == nil && len(all) >= processes
		})
		if err := harness.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for _, pid := range all { // the warden is the first of them, and the last to end
			await(t, "the end of a process", func() bool { return process.Gone(pid) })
		}
		left, err := process.WorkingIn(filepath.Join(dir, "data", LockDB), "postgres")
		if err != nil || len(left) > 0 {
			t.Errorf("%d processes: the server outlived the harness: %v, %v", processes, left, err)
		}
		entries, err := os.ReadDir(filepath.Join(dir, "data"))
		if err != nil && !errors.Is(err, os.ErrNotExist) || len(entries) > 0 {
			t.Errorf("%d processes: data is still there: %v, %v", processes, entries, err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "logs", "warden.log")); err != nil || len(text) > 0 {
			t.Errorf("%d processes: the warden complained: %s %v", processes, text, err)
		}
	}
}
