package warden

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"fenceproof/deploy/process"
)

// answerLimit bounds every single request to the warden.
const answerLimit = 10 * time.Second

// errLost is what everybody hears when the warden has ended unasked.
var errLost = errors.New("the warden has ended: everything that it had started was killed")

// Warden is the harness's side. It implements process.Launcher; its methods are safe for several goroutines.
type Warden struct {
	cmd    *exec.Cmd
	conn   net.Conn
	cgroup string
	ended  chan struct{} // closed after the warden has ended and everything of it is gone

	mu        sync.Mutex
	out       *json.Encoder
	last      int64
	waiting   map[int64]chan message
	procs     map[int]*proc
	leftovers []Leftover
	closing   bool
	lost      error
}

// Start starts a warden for this process. Its messages, which it has only when something could not be removed, are
// appended to the file log.
func Start(ctx context.Context, log string) (*Warden, error) { return launch(ctx, log, nil) }

// launch starts a warden whose command was changed by with, where that is not nil.
func launch(ctx context.Context, log string, with func(*exec.Cmd)) (*Warden, error) {
	if !asked.Load() {
		return nil, errors.New("start the warden: the program must call warden.RunIfAsked before anything else")
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make the warden's socket: %w", err)
	}
	theirs, ours := os.NewFile(uintptr(pair[0]), "warden"), os.NewFile(uintptr(pair[1]), "harness")
	conn, err := net.FileConn(ours)
	if err := errors.Join(err, ours.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("open the warden's socket: %w", err), theirs.Close())
	}
	cmd, err := begin(theirs, log, with)
	if err := errors.Join(err, theirs.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("start the warden: %w", err), conn.Close())
	}
	w := &Warden{cmd: cmd, conn: conn, out: json.NewEncoder(conn), ended: make(chan struct{}),
		waiting: map[int64]chan message{}, procs: map[int]*proc{}}
	greeting := make(chan message, 1)
	w.waiting[0] = greeting
	go w.read()
	select {
	case m, ok := <-greeting:
		if !ok {
			return nil, errors.New("start the warden: it ended at once; see " + log)
		}
		w.cgroup = m.Cgroup
		return w, nil
	case <-ctx.Done():
		err := fmt.Errorf("start the warden: %w", context.Cause(ctx))
		return nil, errors.Join(err, w.Close(context.WithoutCancel(ctx)))
	}
}

// begin runs the program that we are once more, in a session of its own: signals of the terminal do not reach it.
func begin(socket *os.File, log string, with func(*exec.Cmd)) (*exec.Cmd, error) {
	out, err := process.Command{Path: name, Log: log}.OpenLog()
	if err != nil {
		return nil, err
	}
	defer out.Close()                     // the warden has its own
	cmd := exec.Command("/proc/self/exe") // the very file that runs, even if another was built in its place
	cmd.Args, cmd.Dir, cmd.Env = []string{name}, "/", []string{"PATH=/usr/bin:/bin"}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = out, out, []*os.File{socket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if with != nil {
		with(cmd)
	}
	return cmd, cmd.Start()
}

// read takes in what the warden says until it ends, and then settles what it left unsettled.
func (w *Warden) read() {
	in := json.NewDecoder(bufio.NewReader(w.conn))
	for {
		var m message
		if err := in.Decode(&m); err != nil {
			break
		}
		w.take(m)
	}
	w.settle()
	close(w.ended)
}

func (w *Warden) take(m message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.ID == 0 && m.Pid != 0 {
		if p := w.procs[m.Pid]; p != nil {
			delete(w.procs, m.Pid)
			p.end(m.Status)
		}
		return
	}
	c := w.waiting[m.ID]
	delete(w.waiting, m.ID)
	if c == nil {
		return // whoever asked has given up
	}
	if p, ok := w.starting(m); ok {
		m.proc, w.procs[m.Pid] = p, p // here, in the order of the messages: the news of its end may be the next
	}
	c <- m
}

// starting makes the process that an answer to a start is about.
func (w *Warden) starting(m message) (*proc, bool) {
	if m.Pid == 0 {
		return nil, false
	}
	p := &proc{w: w, pid: m.Pid, done: make(chan struct{})}
	if s, err := process.ReadStat(m.Pid); err == nil {
		p.start = s.Start
	}
	return p, true
}

// ask sends a request and waits for the answer.
func (w *Warden) ask(ctx context.Context, r request) (message, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	c, err := w.post(ctx, r)
	if err != nil {
		return message{}, err
	}
	select {
	case m, ok := <-c:
		if !ok {
			return message{}, errLost
		}
		if m.Error != "" {
			return m, errors.New(m.Error)
		}
		return m, nil
	case <-ctx.Done():
		return message{}, fmt.Errorf("the warden does not answer: %w", context.Cause(ctx))
	}
}

func (w *Warden) post(ctx context.Context, r request) (<-chan message, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost != nil {
		return nil, w.lost
	}
	w.last++
	r.ID = w.last
	c := make(chan message, 1)
	w.waiting[r.ID] = c
	deadline, _ := ctx.Deadline()
	if err := w.conn.SetWriteDeadline(deadline); err != nil {
		return nil, fmt.Errorf("speak to the warden: %w", err)
	}
	if err := w.out.Encode(r); err != nil {
		delete(w.waiting, r.ID)
		return nil, fmt.Errorf("speak to the warden: %w", err)
	}
	return c, nil
}

// Launch implements process.Launcher.
func (w *Warden) Launch(ctx context.Context, c process.Command) (process.Process, error) {
	m, err := w.ask(ctx, request{Op: opStart, Command: &c})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	return m.proc, nil
}

// Guard has the warden remove l when the run ends, however it ends. A run that must not leave l behind calls it before l
// is made.
func (w *Warden) Guard(ctx context.Context, l Leftover) error {
	w.mu.Lock()
	w.leftovers = append(w.leftovers, l)
	w.mu.Unlock()
	if _, err := w.ask(ctx, request{Op: opGuard, Leftover: &l}); err != nil {
		return fmt.Errorf("have the warden guard %s: %w", l, err)
	}
	return nil
}

// Release takes a Guard back: l was removed, or shall stay.
func (w *Warden) Release(ctx context.Context, l Leftover) error {
	w.mu.Lock()
	w.leftovers = slices.DeleteFunc(w.leftovers, func(x Leftover) bool { return x == l })
	w.mu.Unlock()
	if _, err := w.ask(ctx, request{Op: opRelease, Leftover: &l}); err != nil {
		return fmt.Errorf("have the warden release %s: %w", l, err)
	}
	return nil
}

// Close kills whatever was started and still runs, removes whatever is still guarded, and ends the warden. Its error
// says what could not be removed.
func (w *Warden) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, cleaning+answerLimit)
	defer cancel()
	c, err := w.post(ctx, request{Op: opClose})
	if errors.Is(err, errLost) {
		<-w.ended
		return err
	}
	if err != nil {
		return errors.Join(err, w.abandon())
	}
	select {
	case m, ok := <-c:
		<-w.ended
		if !ok {
			return errLost
		}
		if m.Error != "" {
			return fmt.Errorf("clean up after the run: %s", m.Error)
		}
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("the warden does not end: %w", context.Cause(ctx)), w.abandon())
	}
}

// abandon kills a warden that does not answer; settle then does its work.
func (w *Warden) abandon() error {
	err := w.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-w.ended
	return err
}

// Lost is closed when the warden has ended, and with it everything that it had started. Unless Close was called that is
// the end of the run.
func (w *Warden) Lost() <-chan struct{} { return w.ended }

// settle runs after the warden's end. When that came unasked it does the warden's last work.
func (w *Warden) settle() {
	_ = w.conn.Close()     // both ends are done with it
	status := w.cmd.Wait() // a failure has been answered, or is made good below
	w.mu.Lock()
	w.lost = errLost
	procs, leftovers := w.procs, w.leftovers
	for _, c := range w.waiting {
		close(c)
	}
	w.waiting, w.procs = map[int64]chan message{}, map[int]*proc{}
	orderly := w.closing && status == nil
	w.mu.Unlock()
	if !orderly {
		w.cleanInstead(procs, leftovers)
	}
	for _, p := range procs {
		p.end(errLost.Error())
	}
}

// cleanInstead removes what a warden that was killed did not. The kernel has killed its children with it; their
// children may live on where there is no cgroup, those of PostgreSQL are known by where they work.
func (w *Warden) cleanInstead(procs map[int]*proc, leftovers []Leftover) {
	ctx, cancel := context.WithTimeout(context.Background(), cleaning)
	defer cancel()
	var errs []error
	for _, p := range procs {
		errs = append(errs, p.finish(ctx))
	}
	errs = append(errs, removeAll(ctx, leftovers)...)
	if w.cgroup != "" {
		errs = append(errs, removeCgroup(ctx, w.cgroup))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = errors.Join(append([]error{errLost}, errs...)...)
}
