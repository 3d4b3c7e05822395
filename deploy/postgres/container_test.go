package postgres

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// containers are what root is left with of its capabilities, as setpriv takes them, and the stories that are told once more there.
var containers = []struct{ who, left, stories string }{
	{"root that may not administer the system", "-sys_admin", "TestNothingOfACrashedServerStays"},
	{"root in a container of Docker's", "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap," +
		"+net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap",
		"TestNothingStaysOfAServerWhoseFirstProcessEndedByItself TestDemolishLeavesNothingOfAServerThatRuns"},
}

func TestNothingStaysOfAServerInAContainerEither(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("we are not root, and have no capabilities that could be dropped")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skipf("capabilities cannot be dropped without setpriv (package util-linux): %v", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := prepared(); err != nil { // what must be fetched and built is, before the child is waited for
		t.Fatal(err)
	}
	for _, c := range containers {
		t.Run(c.who, func(t *testing.T) {
			retell(t, []string{setpriv, "--bounding-set=" + c.left, "--inh-caps=-all", exe}, strings.Fields(c.stories))
		})
	}
}

// retell runs stories in a process of their own, which command begins.
func retell(t *testing.T, command, stories []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := append(command[1:], "-test.v", "-test.run=^("+strings.Join(stories, "|")+")$")
	out, err := exec.CommandContext(ctx, command[0], args...).CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	for _, story := range stories {
		if !strings.Contains(string(out), "--- PASS: "+story) {
			t.Errorf("%s was not told, or came out otherwise:\n%s", story, out)
		}
	}
}
