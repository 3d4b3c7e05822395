package process

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOneThreadActsAsSomebodyElseAndNobodyElseNotices(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may act as somebody else")
	}
	other, sentinel := User{UID: 65534, GID: 65534}, errors.New("what f says")
	before, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		err := As(other, func() error {
			if os.Geteuid() != other.UID || os.Getegid() != other.GID || os.Getuid() != 0 {
				t.Errorf("f is run as %d:%d of %d", os.Geteuid(), os.Getegid(), os.Getuid())
			}
			if unix.Gettid() == os.Getpid() {
				t.Error("it is the main thread")
			}
			if ids := effective(t); len(ids) != 2 {
				t.Errorf("the threads act as %v", ids)
			}
			return sentinel
		})
		if !errors.Is(err, sentinel) {
			t.Errorf("As says %v", err)
		}
	}
	if ids := effective(t); len(ids) != 1 || !ids["0 0"] {
		t.Errorf("afterwards the threads act as %v", ids)
	}
	if after, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || after != before {
		t.Errorf("others may look at this process: %d, before %d; %v", after, before, err)
	}
}

// effective are the effective ids of this process's threads.
func effective(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(files) == 0 {
		t.Fatalf("look at the threads: %v", err)
	}
	ids := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		var uid, gid string
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) == 5 && f[0] == "Uid:" {
				uid = f[2]
			} else if len(f) == 5 && f[0] == "Gid:" {
				gid = f[2]
			}
		}
		ids[uid+" "+gid] = true
	}
	return ids
}

// Whoever may not act as others does it as itself.
func TestWithoutTheRightToActAsOthersItIsDoneAsOurselves(t *testing.T) {
	const asked = "FENCEPROOF_TEST_ACT_AS"
	if os.Getenv(asked) != "" {
		if err := As(User{UID: 65534, GID: 65534}, func() error { return errors.New(strconv.Itoa(os.Geteuid())) }); err == nil || err.Error() != "0" {
			t.Errorf("it is done as %v", err)
		}
		return
	}
	setpriv, err := exec.LookPath("setpriv")
	if os.Geteuid() != 0 || err != nil {
		t.Skipf("we are not root, or have no setpriv (package util-linux) to drop capabilities with: %v", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), setpriv, "--bounding-set=-setuid,-setgid", "--inh-caps=-all", exe, "-test.v", "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), asked+"=1")
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}
