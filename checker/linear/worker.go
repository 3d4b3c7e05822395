package linear

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// asked is set when the program can check a key under its other name. One that cannot would, started as a checker, do
// once more whatever it does.
var asked atomic.Bool

// RunIfAsked turns a process that was started under the checker's name into one, and returns at once in any other. Every
// binary that judges histories must call it before anything else in its main function, or in TestMain.
func RunIfAsked() {
	asked.Store(true)
	if os.Args[0] != name {
		return
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "check a key:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve checks the key that it is told of on in, and says on out what it found.
func serve(in io.Reader, out io.Writer) error {
	began := time.Now()
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("hear what to check: %w", err)
	}
	var t task
	if err := json.Unmarshal(text, &t); err != nil {
		return fmt.Errorf("hear what to check: %w", err)
	}
	if err := limit(t.Budget); err != nil {
		return err
	}
	var once sync.Once
	say := func(f finding) (err error) {
		once.Do(func() { err = json.NewEncoder(out).Encode(f) })
		return err
	}
	go watch(t.Budget, func() {
		_ = say(finding{Open: outOfMemory(t.Budget)}) // the process ends here, heard or not
		os.Exit(0)
	})
	f, err := readFrame(io.LimitReader(lines, t.Frame))
	if err != nil {
		return err
	}
	k, err := readKey(io.LimitReader(lines, t.Entries))
	if err != nil {
		return err
	}
	c, err := readClock(io.LimitReader(lines, t.Readings), k.expiries(), f.Steps)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines) // whoever asked has ended, and how does not matter
		os.Exit(1)
	}()
	return say(check(&t, k, f, c, began.Add(t.Budget.Time)))
}

// limit keeps the process to its memory: the collector works harder near the budget, and an address space that is larger
// than now by the budget is refused by the system.
func limit(b Budget) error {
	debug.SetMemoryLimit(b.Memory / 10 * 9)
	size, err := addressSpace()
	if err != nil {
		return err
	}
	most := uint64(size + b.Memory + arena)
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("limit the memory: %w", err)
	}
	return nil
}

// arena is what Go's runtime takes at a time, and keeps for its own books.
const arena = 256 << 20

// addressSpace is what the process has mapped, in bytes.
func addressSpace() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("see how large the process is: %w", err)
	}
	pages, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseInt(pages, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("see how large the process is: %w", err)
	}
	return n * int64(os.Getpagesize()), nil
}

// watch calls over once the process uses more than its budget of memory.
func watch(b Budget, over func()) {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for {
		time.Sleep(10 * time.Millisecond)
		metrics.Read(sample)
		if int64(sample[0].Value.Uint64()-sample[1].Value.Uint64()) > b.Memory {
			over()
			return
		}
	}
}
