package vskew

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"fenceproof/deploy/process"

	"golang.org/x/sys/unix"
)

// stopLimit bounds how long a process is waited for to stop. One thread that sleeps in the kernel without hearing of
// signals holds it up, and must not hold up the others for longer than what depends on them would bear: a client of the
// lock has more than half a second between its last look at its lease and the moment from which what it sends is late.
const stopLimit = 100 * time.Millisecond

// noThread has a thread wait for what it traces itself, and for nothing of other threads of this process (__WNOTHREAD).
const noThread = 0x20000000

// thread is a thread that is stopped.
type thread struct{ tid int }

// at is where it goes on.
func (t thread) at() (int64, error) {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(t.tid, &r); err != nil {
		return 0, fmt.Errorf("look where thread %d is: %w", t.tid, err)
	}
	return int64(r.Rip), nil
}

// whileStopped runs do while no thread of the process runs. It is done by seizing them: should this process die meanwhile,
// the kernel lets them go on, and a process that was stopped before stays so afterwards.
func whileStopped(ctx context.Context, pid int, do func([]thread) error) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stopLimit, ErrLate)
	defer cancel()
	ended := onThread(func() (keep bool) {
		s := seizure{pid: pid, stopped: map[int]syscall.Signal{}, running: map[int]bool{}}
		if err = s.stop(ctx); err == nil {
			err = do(s.threads())
		}
		return s.letGo()
	})
	return errors.Join(err, ended)
}

// endLimit is how long a thread is waited for that is to end.
const endLimit = time.Second

// onThread runs do on a thread that nobody else uses meanwhile: only the thread that traces may ask for anything. Where do
// says that it may not be kept it ends, and the kernel lets go whatever it still traces; onThread returns when it has.
func onThread(do func() (keep bool)) error {
	ended := make(chan int, 1) // the thread that ends, 0 for none
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() { // Go never ends the first thread; as long as it is ours another goroutine has another one
			defer runtime.UnlockOSThread()
			inner := make(chan int, 1)
			go func() { runtime.LockOSThread(); alone(do, inner) }()
			ended <- <-inner
			return
		}
		alone(do, ended)
	}()
	tid := <-ended
	for end := time.Now().Add(endLimit); tid != 0; time.Sleep(50 * time.Microsecond) {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid)); errors.Is(err, os.ErrNotExist) {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("thread %d of this process, which traces another one, has not ended", tid)
		}
	}
	return nil
}

// alone runs do on the thread that this goroutine is locked to, which ends with it where it may not be kept: it stays locked
// then.
func alone(do func() (keep bool), ended chan<- int) {
	tid := 0
	if do() {
		runtime.UnlockOSThread()
	} else {
		tid = unix.Gettid()
	}
	ended <- tid
}

// seizure is the threads of a process that are traced.
type seizure struct {
	pid     int
	stopped map[int]syscall.Signal // with the signal that was on its way to the thread, 0 for none
	running map[int]bool           // not seen to have stopped yet
}

func (s *seizure) threads() (all []thread) {
	for tid := range s.stopped {
		all = append(all, thread{tid})
	}
	return all
}

// stop seizes and stops thread after thread, until there is none left. A thread that is stopped makes no others.
func (s *seizure) stop(ctx context.Context) error {
	for {
		fresh, err := s.seizeAll()
		if err != nil {
			return err
		}
		if err := s.awaitStops(ctx); err != nil {
			return err
		}
		if fresh == 0 {
			break
		}
	}
	if len(s.stopped) == 0 {
		return os.ErrProcessDone
	}
	return nil
}

// seizeAll seizes the threads that are not yet.
func (s *seizure) seizeAll() (fresh int, err error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.pid))
	if err != nil {
		return 0, fmt.Errorf("list its threads: %w", err)
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		if _, known := s.stopped[tid]; known {
			continue
		}
		err = unix.PtraceSeize(tid)
		if err == nil {
			s.running[tid] = true
			_ = unix.PtraceInterrupt(tid) // it fails for one that has died, which is seen by waiting for it
		}
		switch {
		case errors.Is(err, unix.ESRCH): // it has ended meanwhile
			continue
		case errors.Is(err, unix.EPERM) && process.Gone(tid): // dead, and not yet reaped
			continue
		case err != nil:
			return 0, fmt.Errorf("stop its thread %d: %w; is it traced by somebody else, or is tracing forbidden here?", tid, err)
		}
		fresh++
	}
	return fresh, nil
}

// awaitStops waits until every seized thread has stopped, or is dead.
func (s *seizure) awaitStops(ctx context.Context) error {
	for {
		for tid := range s.running {
			s.look(tid)
		}
		if len(s.running) == 0 {
			return nil
		}
		if err := pause(ctx, 50*time.Microsecond); err != nil {
			return fmt.Errorf("%w: %d of %d are running", err, len(s.running), len(s.running)+len(s.stopped))
		}
	}
}

// look asks whether a seized thread has stopped.
func (s *seizure) look(tid int) {
	var status syscall.WaitStatus
	got, err := syscall.Wait4(tid, &status, syscall.WALL|syscall.WNOHANG|noThread, nil)
	switch {
	case errors.Is(err, syscall.EINTR), err == nil && got == 0: // not yet
	case err == nil && status.Stopped():
		delete(s.running, tid)
		s.stopped[tid] = 0
		if status>>16 != unix.PTRACE_EVENT_STOP { // a signal was faster, and is still to be delivered
			s.stopped[tid] = status.StopSignal()
		}
	default: // dead
		delete(s.running, tid)
	}
}

// letGoLimit is how long threads are waited for that were seized and have neither stopped nor died.
const letGoLimit = 20 * time.Millisecond

// letGo lets every thread go on, with the signals that were on their way, and takes note of the deaths of the others: the
// dead stay with whoever traces them until he has. False when there is one that could not be let go.
func (s *seizure) letGo() (all bool) {
	for end := time.Now().Add(letGoLimit); ; time.Sleep(50 * time.Microsecond) {
		for tid := range s.running {
			s.look(tid)
		}
		for tid, signal := range s.stopped {
			_, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, syscall.PTRACE_DETACH, uintptr(tid), 0, uintptr(signal), 0, 0)
			if errno != 0 { // it was killed, and is none that can be let go
				s.running[tid] = true
			}
		}
		clear(s.stopped)
		if len(s.running) == 0 || time.Now().After(end) {
			return len(s.running) == 0
		}
	}
}
