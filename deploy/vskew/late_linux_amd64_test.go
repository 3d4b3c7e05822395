package vskew

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/deploy/process"

	"golang.org/x/sys/unix"
)

// states are the states of all threads of a process.
func states(t *testing.T, pid int) (all string) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		rest := string(text[strings.LastIndexByte(string(text), ')')+1:])
		all += strings.Fields(rest)[0]
	}
	return all
}

// A thread that sleeps in the kernel hears of no stop. Nobody may be left stopped because of it, and it must not stop itself
// when it comes back and whoever asked for that has gone on to other things.
func TestAThreadThatDoesNotStopHoldsNobodyUpForLongAndIsNotStoppedLater(t *testing.T) {
	r := start(t, "waiter") // first, so that who traces it ends before: what is traced is gone when its tracer says so
	m := moves(t)
	child, err := strconv.Atoi(r.line())
	if err != nil {
		t.Fatal(err)
	}
	await(t, "a thread to sleep in the kernel", func() bool { return strings.Contains(states(t, r.pid()), "D") })
	var watch sync.WaitGroup
	over := make(chan struct{})
	var longest time.Duration
	watch.Go(func() { // how long its threads were stopped at a time, as they are seen to be
		var since time.Time
		for {
			select {
			case <-over:
				return
			default:
			}
			if s, err := process.ReadStat(r.pid()); err == nil && s.State == 't' {
				if since.IsZero() {
					since = time.Now()
				}
				longest = max(longest, time.Since(since))
			} else {
				since = time.Time{}
			}
			time.Sleep(time.Millisecond)
		}
	})
	if answer := m.ask("move %d 1h", r.pid()); !strings.Contains(answer, ErrLate.Error()) {
		t.Errorf("it says %s", answer)
	}
	close(over)
	watch.Wait()
	if longest > 4*stopLimit { // a machine in trouble needs some time to let it go on
		t.Errorf("it was stopped for %s at a time", longest)
	}
	if s := states(t, r.pid()); strings.Contains(s, "t") {
		t.Errorf("threads are left stopped: %s", s)
	}
	if err := unix.Kill(child, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the thread to come back", func() bool { return !strings.Contains(states(t, r.pid()), "D") })
	if s := states(t, r.pid()); strings.Contains(s, "t") {
		t.Errorf("the thread that came back late was stopped: %s", s)
	}
	m.do("move %d 1h", r.pid())
	if got := r.reads(); (got.Shift - time.Hour).Abs() > near {
		t.Errorf("its clock is %s off", got.Shift)
	}
}

// Go never ends a process's first thread, so what that traced would be traced until the process ends.
func TestAThreadThatMayNotBeKeptHasEnded(t *testing.T) {
	for range 50 {
		var tid int
		if err := onThread(func() bool { tid = unix.Gettid(); return false }); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid)); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("thread %d is there: %v", tid, err)
		}
		if tid == os.Getpid() {
			t.Fatal("it was the first thread")
		}
	}
}

// Go never ends a thread that no goroutine is locked to.
func TestAThreadThatMayBeKeptIsKept(t *testing.T) {
	threads := map[int]bool{}
	for range 50 {
		if err := onThread(func() bool { threads[unix.Gettid()] = true; return true }); err != nil {
			t.Fatal(err)
		}
	}
	for tid := range threads {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid)); err != nil {
			t.Errorf("of %d threads that were kept thread %d is gone: %v", len(threads), tid, err)
		}
	}
}

func TestAProcessThatWasNeverMovedIsPutRightWithoutBeingTouched(t *testing.T) {
	r := start(t, "reader") // a child of this very process: nobody of its own may redirect it
	if err := Move(context.Background(), r.pid(), 0); err != nil {
		t.Errorf("it says %v", err)
	}
	at(t, r, 0)
}

// A pid may be another process's by the time it is used.
func TestAStrangerWithThePidOfWhoHasEndedIsLeftAlone(t *testing.T) {
	r := start(t, "reader")
	s, err := process.ReadStat(r.pid())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := offset(s.Pid, s.Start); err != nil {
		t.Errorf("of the process itself it says %v", err)
	}
	if _, err := offset(s.Pid, s.Start+1); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("of another one that had its pid before it says %v", err)
	}
}
