package run

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// This program is its own client: it keeps itself from running by more busy goroutines than there are processors.
func TestForHowLongAClientWaitedIsWrittenDown(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); errors.Is(err, os.ErrNotExist) {
		t.Skip("this kernel does not count for how long threads wait for a processor, as doctor says, and a run does without")
	}
	rec, err := history.Create(filepath.Join(t.TempDir(), "history"), history.Header{RunID: "waits", Started: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 1)
	rec.Subscribe(func(e *history.Event) {
		if e.W != history.Run || e.Op != history.OpWaits {
			return
		}
		select {
		case seen <- e.Attrs["executor-1"]:
		default:
		}
	})
	pid := func(p contract.Process) int {
		if p == contract.Executor(1) {
			return os.Getpid()
		}
		return 0 // it has not been started
	}
	stop := showWaits(rec, []contract.Process{contract.Executor(1), contract.Reconciler}, pid)
	var over atomic.Bool
	locked := 4 * runtime.NumCPU()
	previous := runtime.GOMAXPROCS(locked) // a thread each
	var busy sync.WaitGroup
	for range locked {
		busy.Go(func() {
			for n := 0; !over.Load(); n++ {
			}
		})
	}
	late := time.After(20 * time.Second)
	for waited := ""; waited == ""; {
		select {
		case waited = <-seen:
		case <-late:
			t.Error("nothing was written down of a process that waits all the time")
			waited = "never"
		}
	}
	over.Store(true)
	busy.Wait()
	runtime.GOMAXPROCS(previous)
	stop()
	if err := rec.Close(); err != nil {
		t.Error(err)
	}
}
