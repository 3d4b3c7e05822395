package vskew

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fenceproof/deploy/process"
)

// at fails unless the reader's wall clock is by away from the true one, and its monotonic clock is not.
func at(t *testing.T, r *program, by time.Duration) {
	t.Helper()
	switch got := r.reads(); {
	case (got.Shift - by).Abs() > near:
		t.Fatalf("the wall clock is %s off; %s was asked for", got.Shift, by)
	case got.Drift.Abs() > near:
		t.Fatalf("the monotonic clock is %s off", got.Drift)
	case got.Torn != 0 || got.Apart != 0:
		t.Fatalf("of %d readings %d were of no time that was asked for, and %d of another monotonic time", got.Readings, got.Torn, got.Apart)
	}
}

// runs fails unless every thread of the reader goes on.
func runs(t *testing.T, r *program) {
	t.Helper()
	before := r.reads()
	for end := time.Now().Add(20 * time.Second); ; {
		now, on := r.reads(), 0
		for n := range now.Rounds {
			if now.Rounds[n] > before.Rounds[n] {
				on++
			}
		}
		if on == threads {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d threads go on", on, threads)
		}
		time.Sleep(time.Millisecond) // between two looks
	}
}

func TestAGoProgramReadsTheMovedTimeAndHasTheTrueOneBack(t *testing.T) {
	m, r := moves(t), start(t, "reader")
	at(t, r, 0)
	for _, by := range []time.Duration{time.Hour, -time.Hour, time.Minute, 0} {
		m.do("move %d %s", r.pid(), by)
		at(t, r, by)
		if got, err := offset(r.pid(), anybody); err != nil || got != by {
			t.Errorf("the offset reads %s (%v), not %s", got, err, by)
		}
	}
	runs(t, r)
}

func TestNoThreadEverReadsATimeThatWasNotAskedFor(t *testing.T) {
	m, r := moves(t), start(t, "reader")
	before := r.reads().Readings
	m.do("strobe %d 1h", r.pid())
	m.do("move %d 0s", r.pid())
	at(t, r, 0)
	if n := r.reads().Readings - before; n < 1000 {
		t.Errorf("it was read only %d times meanwhile", n)
	}
}

func TestACProgramAndAllThatItForksReadTheMovedTime(t *testing.T) {
	m := moves(t)
	m.ofAnybody()
	// bash asks the C library for the time, and for the second time a child that it forks.
	sh := exec.Command("bash", "-c", `while read line; do printf -v now '%(%s)T' -1; echo "$now $(printf '%(%s)T' -1)"; done`)
	in, _ := sh.StdinPipe()
	var out bytes.Buffer
	lines := make(chan string)
	pipe, err := sh.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sh.Start(); err != nil {
		t.Skipf("there is no bash: %v", err)
	}
	t.Cleanup(func() { _ = sh.Process.Kill(); _ = sh.Wait() })
	go func() {
		defer close(lines)
		for {
			b := make([]byte, 1)
			if _, err := pipe.Read(b); err != nil {
				return
			}
			if b[0] == '\n' {
				lines <- out.String()
				out.Reset()
				continue
			}
			out.Write(b)
		}
	}()
	for _, by := range []time.Duration{time.Hour, -time.Hour, 0} {
		m.do("family %d %s", sh.Process.Pid, by)
		fmt.Fprintln(in, "?")
		var own, forked int64
		if _, err := fmt.Sscan(<-lines, &own, &forked); err != nil {
			t.Fatal(err)
		}
		for who, secs := range map[string]int64{"it": own, "what it forked": forked} {
			if shift := time.Until(time.Unix(secs, 0)); (shift - by).Abs() > near+time.Second {
				t.Errorf("%s reads a time %s away; %s was asked for", who, shift, by)
			}
		}
	}
}

func TestAPausedProcessIsMovedAndStaysPaused(t *testing.T) {
	m, r := moves(t), start(t, "reader")
	runs(t, r)
	if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	await(t, "it to stop", func() bool { s, err := process.ReadStat(r.pid()); return err == nil && s.State == 'T' })
	m.do("move %d 1h", r.pid())
	await(t, "it to be stopped as before", func() bool { s, err := process.ReadStat(r.pid()); return err == nil && s.State == 'T' })
	if err := r.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	at(t, r, time.Hour)
	runs(t, r)
}

// A mover that is killed leaves the process running after any of its steps, and the next one finishes them.
func TestAMoverThatIsKilledLeavesTheProcessRunning(t *testing.T) {
	for steps := range len(entries) + 2 {
		t.Run(fmt.Sprintf("after %d steps", steps), func(t *testing.T) {
			m, r := moves(t), start(t, "reader")
			runs(t, r)
			h := start(t, fmt.Sprintf("hang %d %d", r.pid(), steps))
			if got := h.line(); got != "hangs <nil>" {
				t.Fatal(got)
			}
			if s, err := process.ReadStat(r.pid()); err != nil || s.State != 't' {
				t.Fatalf("its state is %c (%v), not t: it was not stopped at all", s.State, err)
			}
			if err := h.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = h.cmd.Wait()
			runs(t, r)
			at(t, r, 0)
			m.do("move %d 1h", r.pid())
			at(t, r, time.Hour)
		})
	}
}

func TestAProcessThatDiesWhileItIsMovedDoesNoHarm(t *testing.T) {
	m := moves(t)
	for n := range 20 {
		r := start(t, "reader")
		if n%2 == 0 {
			runs(t, r)
		}
		go func() { time.Sleep(time.Duration(n) * 100 * time.Microsecond); _ = r.cmd.Process.Kill() }()
		for {
			answer := m.ask("strobe %d 1m", r.pid())
			if strings.HasSuffix(answer, os.ErrProcessDone.Error()) {
				break
			}
			if answer != "done" {
				t.Fatalf("of a process that was killed it says %s", answer)
			}
		}
		_ = r.cmd.Wait()
	}
	r := start(t, "reader") // and nobody else is moved
	at(t, r, 0)
	m.do("move %d 1h", r.pid())
	at(t, r, time.Hour)
}

func TestAChildOfTheMoverItselfIsRefused(t *testing.T) {
	r := start(t, "reader")
	if err := Move(context.Background(), r.pid(), time.Hour); !errors.Is(err, ErrOwnChild) {
		t.Errorf("it says %v", err)
	}
	at(t, r, 0)
}

func TestAMoveTooFarIsRefused(t *testing.T) {
	if err := Move(context.Background(), os.Getppid(), 2*Limit); err == nil {
		t.Error("a clock may be moved by two years")
	}
}

// The stub and its source belong together where nobody can assemble it, too: who changes one of them writes both sums anew.
func TestTheStubAndItsSourceWereChangedTogether(t *testing.T) {
	source, err := os.ReadFile("stub_amd64.S")
	if err != nil {
		t.Fatal(err)
	}
	for name, is := range map[string]struct{ got, want string }{
		"stub_amd64.S":   {fmt.Sprintf("%x", sha256.Sum256(source)), "9227ba289ea8a73b37bd23dfda7dc85e7c9e2a330c6ef71a101ee5575d3d270d"},
		"stub_amd64.bin": {fmt.Sprintf("%x", sha256.Sum256(stub)), "376cf2bd5ea8e703956ebd98c77d3cf5bb63e3a4bbd783f61af5229639d453cf"},
	} {
		if is.got != is.want {
			t.Errorf("%s is %s, and was %s when the other one was made", name, is.got, is.want)
		}
	}
}

func TestTheStubIsWhatItsSourceAssemblesTo(t *testing.T) {
	dir := t.TempDir()
	object, raw := filepath.Join(dir, "stub.o"), filepath.Join(dir, "stub.bin")
	for _, args := range [][]string{{"as", "-o", object, "stub_amd64.S"}, {"objcopy", "-O", "binary", "-j", ".text", object, raw}} {
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Skip("there is no assembler here")
		}
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	got, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, stub) {
		t.Error("stub_amd64.bin is not what stub_amd64.S assembles to")
	}
}

func await(t *testing.T, what string, seen func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !seen(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
