package warden

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"fenceproof/deploy/process"

	"golang.org/x/sys/unix"
)

// name is the name under which the harness's own binary runs again as its warden.
const name = "fenceproof-warden"

// socketFD is where the warden finds its socket.
const socketFD = 3

// cleaning bounds the warden's last work.
const cleaning = 30 * time.Second

// asked is set when the program can become a warden. One that cannot would, started under that name, do once more
// whatever it does, and start a warden.
var asked atomic.Bool

// RunIfAsked turns a process that was started under the warden's name into the warden, and returns at once in any other.
// Every binary that calls Start must call it before anything else in its main function, or in TestMain.
func RunIfAsked() {
	asked.Store(true)
	if os.Args[0] != name {
		return
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "warden:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// server is the warden's state.
type server struct {
	conn      net.Conn
	cgroup    string
	leftovers []Leftover

	mu   sync.Mutex
	out  *json.Encoder
	live map[int]bool  // started and not reaped: their pids are theirs
	born chan struct{} // there may be children again
}

// serve is the whole life of the warden. It stays on its thread, the main one: the processes that it starts die when
// the thread dies that started them, and this one does so only with the warden itself.
func serve() error {
	runtime.LockOSThread()
	s, err := newServer()
	if err != nil {
		return err
	}
	gone := make(chan struct{})
	reaped := make(chan struct{})
	go func() { defer close(reaped); s.reap(gone) }()
	closing := s.listen()
	err = s.clean()
	close(gone)
	if closing != nil {
		s.answer(closing.ID, err)
	}
	return errors.Join(err, s.conn.Close())
}

func newServer() (*server, error) {
	// Ctrl-C is for the harness. These are caught, not ignored: what is ignored stays so in the processes that we start.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	syscall.CloseOnExec(socketFD)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the parent of all orphans: %w", err)
	}
	if err := settleApart(); err != nil {
		return nil, err
	}
	f := os.NewFile(socketFD, "harness")
	conn, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("open the socket to the harness: %w", err)
	}
	s := &server{conn: conn, cgroup: makeCgroup(), out: json.NewEncoder(conn), live: map[int]bool{}, born: make(chan struct{}, 1)}
	s.send(message{Cgroup: s.cgroup})
	return s, nil
}

// listen does what the harness asks, until it asks for the end, which is returned, or is gone, or SIGTERM comes.
func (s *server) listen() *request {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		_ = s.conn.SetReadDeadline(time.Now()) // makes the loop below end; it fails only when that has ended
	}()
	in := json.NewDecoder(bufio.NewReader(s.conn))
	for {
		var r request
		if err := in.Decode(&r); err != nil {
			return nil
		}
		if r.Op == opClose {
			return &r
		}
		s.do(r)
	}
}

func (s *server) do(r request) {
	switch r.Op {
	case opStart:
		s.start(r)
	case opSignal:
		s.signal(r)
	case opGuard:
		s.leftovers = append(s.leftovers, *r.Leftover)
		s.answer(r.ID, nil)
	case opRelease:
		s.leftovers = slices.DeleteFunc(s.leftovers, func(l Leftover) bool { return l == *r.Leftover })
		s.answer(r.ID, nil)
	case opMount:
		s.answer(r.ID, r.Volume.mount())
	default:
		s.answer(r.ID, fmt.Errorf("operation %q is unknown", r.Op))
	}
}

// start holds the lock until the answer is on its way, so that the news of the process's end cannot overtake it.
func (s *server) start(r request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, err := s.fork(*r.Command)
	if err != nil {
		s.write(message{ID: r.ID, Error: err.Error()})
		return
	}
	s.live[pid] = true
	select {
	case s.born <- struct{}{}:
	default:
	}
	s.write(message{ID: r.ID, Pid: pid})
}

func (s *server) fork(c process.Command) (int, error) {
	if c.Cgroup == "" {
		c.Cgroup = s.cgroup
	}
	attr, files, err := c.Attributes()
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		defer f.Close() // opened for reading only
	}
	log, err := c.OpenLog()
	if err != nil {
		return 0, err
	}
	defer log.Close() // the child has its own
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	// Not os/exec: that would want to reap the process itself, and here one reaper reaps everything.
	return syscall.ForkExec(c.Path, append([]string{c.Path}, c.Args...), &syscall.ProcAttr{
		Dir: c.Dir, Env: c.Env, Files: []uintptr{null.Fd(), log.Fd(), log.Fd()}, Sys: attr,
	})
}

func (s *server) signal(r request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live[r.Pid] {
		s.write(message{ID: r.ID, Ended: true})
		return
	}
	m := message{ID: r.ID}
	if err := syscall.Kill(r.Pid, syscall.Signal(r.Signal)); err != nil {
		m.Error = err.Error()
	}
	s.write(m)
}

// reap waits for the end of every child, those that it inherited too, until gone is closed.
func (s *server) reap(gone <-chan struct{}) {
	for {
		err := awaitDead()
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // there are no children, and so no orphans to come either
			select {
			case <-gone:
				return
			case <-s.born:
			}
		default:
			s.bury()
		}
	}
}

// awaitDead waits for a child that has ended and leaves it unreaped, so that its pid still belongs to it.
func awaitDead() error { return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil) }

// bury reaps a child that has ended, and reports the end of one that was started. It does so under the lock, so that a
// signal never goes to a pid that was just given back.
func (s *server) bury() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	if err != nil || pid <= 0 {
		return // interrupted: it is found again
	}
	if s.live[pid] {
		delete(s.live, pid)
		s.write(message{Pid: pid, Status: describe(status)})
	}
}

// describe words a status as os/exec does.
func describe(w syscall.WaitStatus) string {
	if w.Signaled() {
		return "signal: " + w.Signal().String()
	}
	return fmt.Sprintf("exit status %d", w.ExitStatus())
}

func (s *server) answer(id int64, err error) {
	m := message{ID: id}
	if err != nil {
		m.Error = err.Error()
	}
	s.send(m)
}

func (s *server) send(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(m)
}

// write needs the lock. A harness that cannot be written to is gone, and reading notices that.
func (s *server) write(m message) { _ = s.out.Encode(m) }

// clean ends everything and removes everything. It goes on after a failure: as much as can be shall be gone.
func (s *server) clean() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleaning)
	defer cancel()
	errs := []error{killDescendants(ctx)}
	errs = append(errs, removeAll(ctx, s.leftovers)...)
	if s.cgroup != "" {
		errs = append(errs, removeCgroup(ctx, s.cgroup))
	}
	return errors.Join(errs...)
}

// killDescendants kills until there is nobody left: whoever is born meanwhile is killed in the next round.
func killDescendants(ctx context.Context) error {
	for {
		pids, err := process.Descendants(os.Getpid())
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		if err := process.KillAll(ctx, pids); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("kill what was started: it keeps making processes: %w", ctx.Err())
		}
	}
}

// removeAll removes leftovers, the latest first: what was made inside another goes before it.
func removeAll(ctx context.Context, leftovers []Leftover) (errs []error) {
	for _, l := range slices.Backward(leftovers) {
		if err := l.remove(ctx); err != nil {
			errs = append(errs, fmt.Errorf("remove %s: %w", l, err))
		}
	}
	return errs
}
