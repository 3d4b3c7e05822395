package vskew

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"fenceproof/deploy/process"

	"golang.org/x/sys/unix"
)

// roleVariable makes the test's own binary another program: one whose clock is moved, or one that moves it. Nobody may
// move the clocks of his own children, so this takes two.
const roleVariable = "VSKEW_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role, rest, _ := strings.Cut(os.Getenv(roleVariable), " "); role {
	case "":
		os.Exit(m.Run())
	case "reader":
		letAnybodyTrace()
		read()
	case "mover":
		serveMoves()
	case "hang":
		hang(rest)
	case "waiter":
		letAnybodyTrace()
		waitInTheKernel()
	}
}

// threads is how many threads of a reader ask for the time all the while.
const threads = 6

// reading is what a reader has seen: its clocks beside the kernel's, which nobody moves.
type reading struct {
	Shift    time.Duration // of the wall clock, now
	Drift    time.Duration // of the monotonic clock, now
	Readings int64         // how often its threads have asked
	Torn     int64         // how often a reading was neither the true time nor a whole number of minutes away
	Apart    int64         // how often the monotonic clock was not the kernel's
	Rounds   [threads]int64
}

// kernel asks the kernel itself, past the vDSO.
func kernel(clock uintptr) time.Duration {
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano())
}

// near is how far two readings of one clock may be apart on a busy machine.
const near = 2 * time.Second

// off is how far d is from the nearest whole minute.
func off(d time.Duration) time.Duration { return (d - d.Round(time.Minute)).Abs() }

// read is the reader: threads that ask for the time without a break, and a line for each line that it is sent.
func read() {
	var readings, torn, apart atomic.Int64
	var rounds [threads]atomic.Int64
	began, zero := time.Now(), kernel(unix.CLOCK_MONOTONIC)
	drift := func() time.Duration { return time.Since(began) - (kernel(unix.CLOCK_MONOTONIC) - zero) }
	for n := range threads {
		go func() {
			runtime.LockOSThread()
			for {
				if off(time.Duration(time.Now().UnixNano())-kernel(unix.CLOCK_REALTIME)) > near {
					torn.Add(1)
				}
				if drift().Abs() > near {
					apart.Add(1)
				}
				readings.Add(1)
				rounds[n].Add(1)
				if n > 1 {
					time.Sleep(time.Millisecond)
				}
			}
		}()
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		r := reading{Shift: time.Duration(time.Now().UnixNano()) - kernel(unix.CLOCK_REALTIME), Drift: drift(), Readings: readings.Load(), Torn: torn.Load(), Apart: apart.Load()}
		for n := range rounds {
			r.Rounds[n] = rounds[n].Load()
		}
		text, _ := json.Marshal(r)
		fmt.Println(string(text))
	}
}

// serveMoves is the mover: each line is a command, each answer an error or nothing.
func serveMoves() {
	ctx := context.Background()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		f := strings.Fields(in.Text())
		pid, _ := strconv.Atoi(f[1])
		by, _ := time.ParseDuration(f[2])
		err := error(nil)
		switch f[0] {
		case "move":
			err = Move(ctx, pid, by)
		case "family":
			err = MoveFamily(ctx, pid, by)
		case "strobe": // a thousand moves, to and fro
			for n := 0; n < 1000 && err == nil; n++ {
				err = Move(ctx, pid, time.Duration(n%3-1)*by)
			}
		}
		if err == nil {
			fmt.Println("done")
		} else {
			fmt.Println(err)
		}
	}
}

// hang is a mover that gets no further than some of the steps, with the process stopped.
func hang(args string) {
	var pid, steps int
	fmt.Sscan(args, &pid, &steps)
	mem, err := open(pid, anybody, os.O_RDWR)
	for n := 0; err == nil || errors.Is(err, ErrLate) && n < 20; n++ { // a busy machine may need more than one attempt
		err = whileStopped(context.Background(), pid, func([]thread) error {
			v, err := readVDSO(pid, mem)
			if err == nil {
				err = v.write(mem, v.missing()[:steps])
			}
			fmt.Println("hangs", err)
			select {}
		})
	}
	fmt.Println(err)
}

// waitInTheKernel is a program with a thread that sleeps in the kernel and hears of nothing but its end: it waits for what it
// has forked to run something else (CLONE_VFORK), which that never does. It prints the pid of that.
func waitInTheKernel() {
	debug.SetGCPercent(-1) // nobody may wait for that thread
	go func() {
		runtime.LockOSThread()
		const pdeathsig = 1 // PR_SET_PDEATHSIG
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, unix.CLONE_VFORK|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		for pid == 0 && errno == 0 { // the child: nothing of Go's works here but bare system calls
			syscall.RawSyscall(syscall.SYS_PRCTL, pdeathsig, uintptr(syscall.SIGKILL), 0)
			syscall.RawSyscall(syscall.SYS_PAUSE, 0, 0, 0)
		}
		runtime.UnlockOSThread()
	}()
	for { // until it is there
		of, err := process.Descendants(os.Getpid())
		if err == nil && len(of) == 1 {
			fmt.Println(of[0])
			break
		}
		time.Sleep(time.Millisecond)
	}
	read()
}

// program is the test's own binary in a role.
type program struct {
	testing.TB
	cmd *exec.Cmd
	in  interface{ Write([]byte) (int, error) }
	out *bufio.Reader
}

func start(t testing.TB, role string) *program {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &program{t, cmd, in, bufio.NewReader(out)}
}

func (p *program) pid() int { return p.cmd.Process.Pid }

func (p *program) line() string {
	p.Helper()
	text, err := p.out.ReadString('\n')
	if err != nil {
		p.Fatalf("%v after %q", err, text)
	}
	return strings.TrimSpace(text)
}

// ask sends a line and reads one.
func (p *program) ask(format string, args ...any) string {
	p.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.Fatal(err)
	}
	return p.line()
}

// do has a mover do something, which must succeed.
func (p *program) do(format string, args ...any) {
	p.Helper()
	if answer := p.ask(format, args...); answer != "done" {
		p.Fatalf("%s: %s", fmt.Sprintf(format, args...), answer)
	}
}

// reads has a reader say what it sees.
func (p *program) reads() (r reading) {
	p.Helper()
	if err := json.Unmarshal([]byte(p.ask("?")), &r); err != nil {
		p.Fatal(err)
	}
	return r
}

// letAnybodyTrace has the kernel let more than our ancestors trace us, where kernel.yama.ptrace_scope is 1: the programs of
// these tests are siblings. Where there is no Yama there is nothing to ask for.
func letAnybodyTrace() {
	const ptracer, anybody = 0x59616d61, ^uintptr(0) // PR_SET_PTRACER, PR_SET_PTRACER_ANY
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, ptracer, anybody, 0)
}

// scope is kernel.yama.ptrace_scope as far as it concerns us; 0 where it does not.
func scope() (n int) {
	if text, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil && os.Geteuid() != 0 {
		n, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	return n
}

// moves starts a mover, or skips the test where nobody may trace anybody.
func moves(t testing.TB) *program {
	t.Helper()
	if scope() > 1 {
		t.Skip("kernel.yama.ptrace_scope lets root trace others, and nobody else")
	}
	return start(t, "mover")
}

// ofAnybody skips the test where a mover may trace only who lets him.
func (p *program) ofAnybody() {
	p.Helper()
	if scope() > 0 {
		p.Skip("kernel.yama.ptrace_scope lets a process trace its descendants and who lets it, and this test's program does not")
	}
}
