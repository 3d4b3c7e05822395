package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"fenceproof/deploy/port"
	"fenceproof/deploy/postgres"
	"fenceproof/deploy/process"
)

// Process is one process of the stack, or a database server with all of its processes. Its methods may be called by
// several goroutines.
type Process interface {
	Name() string
	// Pid is the process id, for a database that of its first process; 0 before the first start.
	Pid() int
	// Running tells whether it has been started and has not ended. A paused process is running.
	Running() bool
	// Pause stops it (SIGSTOP) and returns when every thread of it is seen stopped.
	Pause(ctx context.Context) error
	// Resume lets it go on (SIGCONT) and returns when no thread of it is stopped any more.
	Resume(ctx context.Context) error
	// Kill ends it (SIGKILL), paused or not, and returns when all of it is gone. Killing what has ended is no error.
	Kill(ctx context.Context) error
	// Restart starts it again, after its end, with the same ports and data, and returns when it is ready.
	Restart(ctx context.Context) error
}

// Limits of starting and ending a service; only a hang meets them.
const (
	readyLimit = 20 * time.Second
	endLimit   = 8 * time.Second
	look       = 5 * time.Millisecond
)

// portAttempts bounds how often a service is started on other ports because a stranger listens on one of its.
const portAttempts = 3

// service is a process of the system.
type service struct {
	name     string
	program  string // path of the binary
	args     []string
	log      string
	launcher process.Launcher
	client   bool // it serves nobody and has no private listener
	// environ makes the environment for the present ports.
	environ func(s *service) []string

	mu          sync.Mutex
	public      *port.Reservation // nil when it serves nobody
	admin       *port.Reservation
	proc        process.Process
	pid         atomic.Int64 // of proc
	everStarted bool         // others know its ports by now
	asked       bool         // it was asked to end, or killed, and was not started again since
	killed      bool         // it was killed, likewise
}

func (s *service) Name() string { return s.name }

// Pid does not wait for somebody who starts or ends the process.
func (s *service) Pid() int { return int(s.pid.Load()) }

func (s *service) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running()
}

func (s *service) running() bool {
	if s.proc == nil {
		return false
	}
	select {
	case <-s.proc.Done():
		return false
	default:
		return true
	}
}

// do runs a step on the process, one at a time.
func (s *service) do(ctx context.Context, verb string, step func(context.Context, process.Process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return fmt.Errorf("%s %s: it was never started", verb, s.name)
	}
	if err := step(ctx, s.proc); err != nil {
		return fmt.Errorf("%s %s: %w", verb, s.name, err)
	}
	return nil
}

func (s *service) Pause(ctx context.Context) error  { return s.do(ctx, "pause", process.Pause) }
func (s *service) Resume(ctx context.Context) error { return s.do(ctx, "resume", process.Resume) }

func (s *service) Kill(ctx context.Context) error {
	return s.do(ctx, "kill", func(ctx context.Context, p process.Process) error {
		if s.running() {
			s.asked, s.killed = true, true
		}
		return process.Kill(ctx, p)
	})
}

func (s *service) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		return fmt.Errorf("restart %s: it is running", s.name)
	}
	return s.start(ctx)
}

// start starts the service and waits until it is ready. Only before its first success may it move to other ports.
func (s *service) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for attempt := 1; ; attempt++ {
		taken, err := s.startOnce(ctx)
		if err == nil {
			s.everStarted, s.asked, s.killed = true, false, false
			return nil
		}
		if !taken || s.everStarted || attempt == portAttempts {
			return fmt.Errorf("start %s: %w", s.name, err)
		}
		if err := s.movePorts(); err != nil {
			return fmt.Errorf("start %s: %w", s.name, err)
		}
	}
}

func (s *service) movePorts() error {
	for _, p := range []**port.Reservation{&s.public, &s.admin} {
		if *p == nil {
			continue
		}
		next, err := port.Reserve()
		if err != nil {
			return err
		}
		old := *p
		*p = next
		if err := old.Release(); err != nil {
			return err
		}
	}
	return nil
}

// startOnce tells as well whether it failed because a port was taken.
func (s *service) startOnce(ctx context.Context) (taken bool, err error) {
	from := logSize(s.log)
	s.proc, err = s.launcher.Launch(ctx, process.Command{Path: s.program, Args: s.args, Env: s.environ(s), Dir: filepath.Dir(s.log), Log: s.log})
	if err != nil {
		return false, err
	}
	s.pid.Store(int64(s.proc.Pid()))
	if err = s.awaitReady(ctx); err == nil {
		return false, nil
	}
	err = errors.Join(err, process.Kill(context.WithoutCancel(ctx), s.proc))
	text := logSince(s.log, from)
	return strings.Contains(text, "address already in use"), fmt.Errorf("%w; the end of %s:\n%s", err, s.log, lastLines(text))
}

// awaitReady asks the private listener until it says that the service is ready. A client is ready when it runs.
func (s *service) awaitReady(ctx context.Context) error {
	if s.client {
		return nil
	}
	url := "http://" + s.admin.Address() + "/readyz"
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		err := ready(ctx, url)
		if err == nil {
			return nil
		}
		select {
		case <-s.proc.Done():
			return fmt.Errorf("it ended: %s", s.proc.Status())
		case <-ctx.Done():
			return fmt.Errorf("it does not become ready (%w): %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// probe keeps no connections: each question is one of its own.
var probe = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Second}

func ready(ctx context.Context, url string) error {
	_, err := ask(ctx, url, 1<<12)
	return err
}

// ask is what url answers, no more than limit bytes of it, if the status is 200.
func ask(ctx context.Context, url string, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := probe.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %d: %s", url, resp.StatusCode, strings.TrimSpace(string(text[:min(len(text), 1<<12)])))
	}
	return text, nil
}

// stop asks the service to end; one that is paused goes on to do so.
func (s *service) stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return nil
	}
	s.asked = true
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	if err := s.proc.Signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", s.name, err)
	}
	if err := process.Stop(ctx, s.proc, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", s.name, err)
	}
	return nil
}

func (s *service) releasePorts() error {
	var errs []error
	for _, p := range []*port.Reservation{s.public, s.admin} {
		if p != nil {
			errs = append(errs, p.Release())
		}
	}
	return errors.Join(errs...)
}

// database is a PostgreSQL server as a process of the stack.
type database struct {
	mu sync.Mutex
	*postgres.Instance
	asked bool // it was asked to end, and was not started again since
}

func (d *database) Pid() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.Instance.Process(); p != nil {
		return p.Pid()
	}
	return 0
}

func (d *database) Running() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Instance.Running()
}

func (d *database) Pause(ctx context.Context) error  { return d.do(ctx, d.Instance.Pause) }
func (d *database) Resume(ctx context.Context) error { return d.do(ctx, d.Instance.Resume) }

func (d *database) Kill(ctx context.Context) error {
	return d.do(ctx, func(ctx context.Context) error {
		d.asked = d.asked || d.Instance.Running()
		return d.Instance.Crash(ctx)
	})
}

func (d *database) Restart(ctx context.Context) error {
	return d.do(ctx, func(ctx context.Context) error {
		err := d.Instance.Start(ctx)
		d.asked = d.asked && err != nil
		return err
	})
}

func (d *database) do(ctx context.Context, step func(context.Context) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return step(ctx)
}
