package warden

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"fenceproof/deploy/process"
)

// proc is a process that the warden started.
type proc struct {
	w      *Warden
	pid    int
	start  uint64 // with the pid it is unmistakable
	once   sync.Once
	done   chan struct{}
	status string
}

func (p *proc) Pid() int              { return p.pid }
func (p *proc) Done() <-chan struct{} { return p.done }
func (p *proc) Status() string        { return p.status }

// Signal implements process.Process. The warden sends it, because only who reaps a process knows that the pid is its.
func (p *proc) Signal(s syscall.Signal) error {
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
	}
	m, err := p.w.ask(context.Background(), request{Op: opSignal, Pid: p.pid, Signal: int(s)})
	if m.Ended {
		return os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("send %v to process %d: %w", s, p.pid, err)
	}
	return nil
}

func (p *proc) end(status string) {
	p.once.Do(func() { p.status = status; close(p.done) })
}

// finish makes sure that the process is gone after its warden is.
func (p *proc) finish(ctx context.Context) error {
	s, err := process.ReadStat(p.pid)
	if errors.Is(err, os.ErrNotExist) || (err == nil && s.Start != p.start) {
		return nil
	}
	return process.KillAll(ctx, []int{p.pid})
}
