package process

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Owner is who owns a file, or a process by its folder in /proc.
func Owner(path string) (User, error) {
	info, err := os.Stat(path)
	if err != nil {
		return User{}, fmt.Errorf("find out whose %s is: %w", path, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return User{}, fmt.Errorf("find out whose %s is: this system does not say", path)
	}
	return User{UID: int(st.Uid), GID: int(st.Gid)}, nil
}

// As runs f in a goroutine that acts as u, where we are root: what u may do with its own takes root a capability, which it
// may lack in a container. f must start neither goroutines nor processes. Where we are not root, or may not act as somebody else, f
// runs as ourselves; os.Geteuid tells it which.
func As(u User, f func() error) error {
	if os.Geteuid() != 0 || u.UID == 0 {
		return f()
	}
	acting.Lock()
	defer acting.Unlock()
	return elsewhere(func() error { return as(u, f) })
}

// acting is held by whoever acts as somebody else: what the kernel changes of the whole process then is put back.
var acting sync.Mutex

// elsewhere runs f in a goroutine of its own.
func elsewhere(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return <-done
}

// as changes the effective ids of its thread alone: the functions of package syscall change those of all threads.
func as(u User, f func() error) error {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() { // the kernel would forget that this process is to end with its parent
		defer runtime.UnlockOSThread()
		return elsewhere(func() error { return as(u, f) }) // not on this thread, which is ours
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("ask whether others may look at this process: %w", err)
	}
	uid, gid := os.Geteuid(), os.Getegid()
	setEffective(unix.SYS_SETRESGID, u.GID) // it may be enough to be the user
	setEffective(unix.SYS_SETRESUID, u.UID) // or else f is told by what it tries
	defer func() {
		back := setEffective(unix.SYS_SETRESUID, uid) && setEffective(unix.SYS_SETRESGID, gid)
		if dumpable == 1 { // whoever changes its user is closed to others by the kernel
			_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) // 1 is always taken
		}
		if back {
			runtime.UnlockOSThread() // or else the thread ends with this goroutine
		}
	}()
	return f()
}

// setEffective changes an effective id of this thread and leaves the real and the saved one, by which it is changed back.
func setEffective(call uintptr, id int) bool {
	const keep = ^uintptr(0)
	_, _, errno := unix.RawSyscall(call, keep, uintptr(id), keep)
	return errno == 0
}
