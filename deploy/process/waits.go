package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Waits follows for how long processes were kept from running by others: their threads were ready to, and no processor was
// free. The kernel counts that for every thread (/proc/<pid>/task/<tid>/schedstat). The zero value has seen nobody. It is not
// safe for several goroutines.
type Waits struct {
	threads map[thread]time.Duration // what each had waited in all, when it was looked at last
	known   map[int]bool             // processes that were looked at
}

type thread struct{ pid, tid int }

// Counted tells whether the kernel counts for how long processes wait.
func Counted() bool {
	_, err := waited("/proc/self/schedstat")
	return err == nil
}

// Since is for how long the threads of a process have waited since it was looked at last, all together and the one that waited for
// longest, 0 at the first look. A wait counts once it is over, so longest can be more than the time between two looks. What a thread
// waited that has ended since is not known. os.ErrNotExist says that there is no such process, or that the kernel does not count.
func (w *Waits) Since(pid int) (sum, longest time.Duration, err error) {
	folder := filepath.Join("/proc", strconv.Itoa(pid), "task")
	entries, err := os.ReadDir(folder)
	if err != nil {
		return 0, 0, fmt.Errorf("list the threads of process %d: %w", pid, err)
	}
	if w.threads == nil {
		w.threads, w.known = map[thread]time.Duration{}, map[int]bool{}
	}
	var gone error
	seen := 0
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		waited, err := waited(filepath.Join(folder, e.Name(), "schedstat"))
		if errors.Is(err, syscall.ESRCH) || errors.Is(err, fs.ErrNotExist) {
			gone = fs.ErrNotExist // it ended just now
			continue
		}
		if err != nil {
			return 0, 0, fmt.Errorf("ask how long process %d was kept from running: %w", pid, err)
		}
		seen++
		t := thread{pid, tid}
		if w.known[pid] {
			d := max(0, waited-w.threads[t])
			sum, longest = sum+d, max(longest, d)
		}
		w.threads[t] = waited
	}
	if seen == 0 {
		return 0, 0, fmt.Errorf("ask how long process %d was kept from running: none of its threads can be asked: %w", pid, gone)
	}
	w.known[pid] = true
	return sum, longest, nil
}

// Forget forgets a process that has ended.
func (w *Waits) Forget(pid int) {
	delete(w.known, pid)
	for t := range w.threads {
		if t.pid == pid {
			delete(w.threads, t)
		}
	}
}

// waited reads the second of the numbers that schedstat has of a thread: nanoseconds for which it was ready and did not run.
func waited(file string) (time.Duration, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) != 3 {
		return 0, fmt.Errorf("%s: %q is not of three numbers", file, text)
	}
	n, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return time.Duration(n), nil
}
