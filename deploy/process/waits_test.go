package process

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// busy starts a process that never rests, on one processor.
func busy(t *testing.T, on int) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // it was killed, and says so
	var only unix.CPUSet
	only.Set(on)
	if err := unix.SchedSetaffinity(cmd.Process.Pid, &only); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// Of three that share one processor each runs for a third of the time.
func TestWhoSharesAProcessorIsSeenToWaitForIt(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); errors.Is(err, os.ErrNotExist) {
		t.Skip("this kernel does not count for how long threads wait for a processor, as doctor says, and a run does without")
	}
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Fatal(err)
	}
	on := 0
	for !may.IsSet(on) {
		on++
	}
	pid := busy(t, on)
	busy(t, on)
	busy(t, on)
	var w Waits
	if first, _, err := w.Since(pid); err != nil || first != 0 {
		t.Fatalf("%v at the first look, %v", first, err)
	}
	var sum time.Duration
	for end := time.Now().Add(30 * time.Second); sum < 200*time.Millisecond; {
		d, longest, err := w.Since(pid)
		if err != nil || d < 0 || longest != d { // it has one thread
			t.Fatal(d, longest, err)
		}
		if sum += d; time.Now().After(end) {
			t.Fatalf("it has waited for %s in 30 s", sum)
		}
	}
	w.Forget(pid)
	if again, _, err := w.Since(pid); err != nil || again != 0 {
		t.Errorf("%v of one that was forgotten, %v", again, err)
	}
	if len(w.threads) != 1 {
		t.Errorf("%d threads are remembered", len(w.threads))
	}
}

func TestOfAProcessThatIsNotThereNothingIsKnown(t *testing.T) {
	if _, _, err := new(Waits).Since(1 << 30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
