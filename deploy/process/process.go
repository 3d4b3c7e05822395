// Package process starts child processes that cannot outlive their parent, and stops, resumes and kills them with the
// effect seen in /proc. It knows nothing of what the processes are.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Command says what to start.
type Command struct {
	// Path is the executable's absolute path, Args its arguments without the name.
	Path string
	Args []string
	// Env is the whole environment, in the form of os.Environ; nothing is inherited.
	Env []string
	// Dir is the working directory.
	Dir string
	// Log is the file to which standard output and standard error are appended. Empty means that they are dropped.
	Log string
	// User, where not nil, is who the process runs as; only root can name one.
	User *User
	// Cgroup, where not empty, is the folder of the cgroup (v2) in which the process begins.
	Cgroup string
}

// User is a numeric user and group.
type User struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// Process is a child process that was started.
type Process interface {
	// Pid is its process id. It stays its own until Done is closed.
	Pid() int
	// Signal sends a signal; os.ErrProcessDone when the process has ended. It never reaches a stranger that got the
	// same pid later.
	Signal(s syscall.Signal) error
	// Done is closed when the process has ended and was reaped.
	Done() <-chan struct{}
	// Status says how it ended ("exit status 1", "signal: killed"); only after Done.
	Status() string
}

// Launcher starts processes. They die when the launcher's own process dies, however it dies.
type Launcher interface {
	Launch(ctx context.Context, c Command) (Process, error)
}

// Direct launches children of this very process. The kernel kills them when this process dies; children of theirs it
// does not know of, for those there is the warden.
type Direct struct{}

type direct struct {
	cmd    *exec.Cmd
	done   chan struct{}
	status string
}

// Launch implements Launcher.
func (Direct) Launch(_ context.Context, c Command) (Process, error) {
	cmd, closeFiles, err := c.exec()
	if err != nil {
		return nil, err
	}
	p := &direct{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	err = <-started
	return orNothing(p, errors.Join(err, closeFiles()))
}

func orNothing(p *direct, err error) (Process, error) {
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.cmd.Path, err)
	}
	return p, nil
}

// run starts the process and stays on the thread that started it: the kernel sends the parent-death signal when the
// *thread* ends that did it.
func (p *direct) run(started chan<- error) {
	defer close(p.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	err = p.cmd.Wait()
	p.status = "exit status 0"
	if err != nil {
		p.status = err.Error()
	}
}

func (p *direct) Pid() int              { return p.cmd.Process.Pid }
func (p *direct) Done() <-chan struct{} { return p.done }
func (p *direct) Status() string        { return p.status }

func (p *direct) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		if errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return fmt.Errorf("send %v to process %d: %w", s, p.Pid(), err)
	}
	return nil
}

// exec makes the command of the standard library; the returned function closes what the parent holds of it.
func (c Command) exec() (*exec.Cmd, func() error, error) {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env, cmd.Dir = c.Env, c.Dir
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	attr, files, err := c.Attributes()
	if err != nil {
		return nil, nil, err
	}
	cmd.SysProcAttr = attr
	log, err := c.OpenLog()
	if err != nil {
		return nil, nil, errors.Join(err, closeAll(files)())
	}
	cmd.Stdout, cmd.Stderr = log, log
	return cmd, closeAll(append(files, log)), nil
}

// Attributes are the kernel's side of the command: a process group of its own, death with the parent, user and cgroup.
// The files must stay open until the process is started.
func (c Command) Attributes() (*syscall.SysProcAttr, []io.Closer, error) {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if c.User != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(c.User.UID), Gid: uint32(c.User.GID)}
	}
	if c.Cgroup == "" {
		return attr, nil, nil
	}
	dir, err := os.Open(c.Cgroup)
	if err != nil {
		return nil, nil, fmt.Errorf("open the cgroup of %s: %w", c.Path, err)
	}
	attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
	return attr, []io.Closer{dir}, nil
}

// OpenLog opens the file for the process's output.
func (c Command) OpenLog() (*os.File, error) {
	name := c.Log
	if name == "" {
		name = os.DevNull
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", c.Path, err)
	}
	return f, nil
}

func closeAll(files []io.Closer) func() error {
	return func() error {
		var errs []error
		for _, f := range files {
			errs = append(errs, f.Close())
		}
		return errors.Join(errs...)
	}
}
