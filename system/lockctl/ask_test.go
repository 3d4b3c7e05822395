package lockctl_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"fenceproof/system/lockctl"

	"golang.org/x/sys/unix"
)

// terminal is a real one, at which somebody types line.
func terminal(t *testing.T, line string) *os.File {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	screen, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	if _, err := keyboard.WriteString(line); err != nil {
		t.Fatal(err)
	}
	return screen
}

func TestOnlyAYesAtTheTerminalDoesIt(t *testing.T) {
	s := newSystem(t)
	for line, want := range map[string]int{"\n": 1, "n\n": 1, "yes, please\n": 1, "\x04": 1, "y\n": 0, "YES\n": 0} {
		token := s.hold("k", "executor-2")
		var out, err bytes.Buffer
		status := lockctl.Run(context.Background(), []string{"revoke", "k", "--operator", "olga", "--reason", "it hangs since noon"}, s.environ(),
			lockctl.Streams{In: terminal(t, line), Out: &out, Err: &err})
		r := s.want(said{status, out.String(), err.String()}, want, fmt.Sprintf("revoke token %d of k, held by executor-2 until 20", token), "Z? [y/N] ")
		if want == 1 {
			s.want(r, 1, "not confirmed: nothing was changed")
		}
		if held := s.held("k").Held; held != (want == 1) {
			t.Errorf("after %q it is held: %t", line, held)
		}
		if want == 1 {
			s.check(s.store.Release(s.Context(), "k", token))
		}
	}
}

func TestWhoIsInterruptedAtTheQuestionHasConfirmedNothing(t *testing.T) {
	s := newSystem(t)
	s.hold("k", "executor-2")
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	asked := &meanwhile{do: cancel}
	status := lockctl.Run(ctx, []string{"revoke", "k", "--operator", "olga", "--reason", "it hangs since noon"}, s.environ(),
		lockctl.Streams{In: terminal(t, ""), Out: &out, Err: asked})
	s.want(said{status, out.String(), asked.text.String()}, 1, "[y/N] \nlockctl: not confirmed: nothing was changed")
	if !s.held("k").Held {
		t.Error("it was revoked")
	}
}

// meanwhile does something while a question is asked.
type meanwhile struct {
	text bytes.Buffer
	do   func()
}

func (m *meanwhile) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("[y/N]")) {
		m.do()
	}
	return m.text.Write(p)
}

// A worker claims while the operator thinks it over, with a token that nobody knew of. The guard is past that one, too.
func TestWhatWasUsedWhileTheQuestionWasOpenCountsAsWell(t *testing.T) {
	s := newSystem(t)
	account, _ := s.account(0)
	fence := int64(1 << 40)
	var out bytes.Buffer
	asked := &meanwhile{do: func() { s.pay(`UPDATE account SET fence = $2 WHERE account_id = $1`, account, fence) }}
	status := lockctl.Run(t.Context(), []string{"restore-guard", "--operator", "olga", "--reason", "it hangs since noon"}, s.environ(),
		lockctl.Streams{In: terminal(t, "y\n"), Out: &out, Err: asked})
	s.want(said{status, out.String(), asked.text.String()}, 0, "paydb has seen no token at all", fmt.Sprintf("token %d (account.fence)", fence), fmt.Sprintf("NEXT TOKEN      %d or above", fence+1<<32+1))
}

// full is a disk without room for what is printed.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, unix.ENOSPC }

func TestADeedThatCannotBeShownIsNotCalledUndone(t *testing.T) {
	for _, format := range []string{"--json=true", "--json=false"} {
		s := newSystem(t)
		s.hold("k", "executor-2")
		_, payouts := s.account(0, "PENDING")
		for _, args := range [][]string{{"revoke", "k"}, {"abandon", payouts[0]}, {"restore-guard"}} {
			var err bytes.Buffer
			status := lockctl.Run(t.Context(), deed(append(args, format)...), s.environ(), lockctl.Streams{In: strings.NewReader(""), Out: full{}, Err: &err})
			s.want(said{status, "", err.String()}, 3, "it was done, but what was done could not be shown", "no space left on device")
		}
		if s.held("k").Held || s.payout(payouts[0])[:9] != "ABANDONED" || s.sequence() <= 1<<32 {
			t.Error("something was not done")
		}
	}
}
