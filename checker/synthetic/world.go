package synthetic

import (
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// world is the system in virtual time. Everything runs in one goroutine: what happens next is the earliest thing due.
type world struct {
	o     Options
	rng   *rand.Rand
	files *files
	now   int64 // nanoseconds since the beginning
	due   queue[doing]
	tasks map[*task]struct{}
	calls int64

	ttl   time.Duration // of locks and sessions
	locks lockStore
	*payments
	clients []*client
	pauses  *pauses
	driving bool // payouts are still offered
	over    bool // the run has ended
	plotted bool // what is planted has come to its end, or nothing is
	count   Made
}

// doing is what is due: a task that goes on, or something that a server does.
type doing struct {
	task *task
	do   func()
}

// task is something that takes time, written as a function that sleeps and waits. A task of a process stands still
// while the process is stopped.
type task struct {
	w     *world
	proc  *process
	yield func(int64) bool
	next  func() (int64, bool)
	end   func()
	idle  bool // it waits to be woken
}

// process is what a task runs in: it can be stopped and goes on where it was.
type process struct {
	name    contract.Process
	stopped bool
	parked  []*task
}

// ended unwinds a task that is not wanted any more.
type ended struct{}

const never = math.MaxInt64

func (w *world) spawn(p *process, body func(*task)) {
	t := &task{w: w, proc: p}
	t.next, t.end = iter.Pull(func(yield func(int64) bool) {
		defer func() {
			if r := recover(); r != nil && r != (ended{}) {
				panic(r)
			}
		}()
		t.yield = yield
		body(t)
	})
	w.tasks[t] = struct{}{}
	w.due.push(w.now, doing{task: t})
}

func (t *task) sleep(d time.Duration) { t.until(t.w.now + int64(d)) }

// until sleeps until at, and as much longer as its process is stopped.
func (t *task) until(at int64) {
	if !t.yield(at) {
		panic(ended{})
	}
}

// wait sleeps until it is woken.
func (t *task) wait() { t.until(never) }

func (w *world) wake(t *task) {
	if t.idle {
		t.idle = false
		w.due.push(w.now, doing{task: t})
	}
}

// after lets something happen that no process can hold up.
func (w *world) after(d time.Duration, do func()) { w.due.push(w.now+int64(d), doing{do: do}) }

// step does what is due next; false when nothing is.
func (w *world) step() bool {
	at, ok := w.due.first()
	if !ok || w.over || w.files.err != nil {
		return false
	}
	w.now = at
	w.files.advance(at)
	d := w.due.pop()
	switch t := d.task; {
	case t == nil:
		d.do()
	case t.proc != nil && t.proc.stopped:
		t.proc.parked = append(t.proc.parked, t)
	default:
		again, more := t.next()
		switch {
		case !more:
			delete(w.tasks, t)
		case again == never:
			t.idle = true
		default:
			w.due.push(max(again, w.now), doing{task: t})
		}
	}
	return true
}

func (w *world) stop(p *process) { p.stopped = true }

// resume lets the tasks of p go on, one shortly after the other.
func (w *world) resume(p *process) {
	p.stopped = false
	for _, t := range p.parked {
		w.due.push(w.now+w.span(50*time.Microsecond, 2*time.Millisecond), doing{task: t})
	}
	p.parked = nil
}

// span draws a duration between two.
func (w *world) span(from, to time.Duration) int64 { return int64(from) + w.rng.Int64N(int64(to-from)) }

func (w *world) between(from, to time.Duration) time.Duration { return time.Duration(w.span(from, to)) }

func (w *world) chance(perMille int) bool { return w.rng.IntN(1000) < perMille }

// How late each witness's events arrive: mostly a little, now and then after a stall.
func (w *world) late(of history.Witness) int64 {
	switch {
	case of == history.Logs:
		return w.span(time.Millisecond, 55*time.Millisecond)
	case of == history.Journal:
		return w.span(100*time.Microsecond, 11*time.Millisecond)
	case w.chance(10):
		return w.span(5*time.Millisecond, 80*time.Millisecond)
	}
	return w.span(100*time.Microsecond, 4*time.Millisecond)
}

// see records what a witness sees of something that has just happened.
func (w *world) see(by history.Witness, e history.Event) {
	w.files.arrive(by, w.now+w.late(by), true, e)
}

// tell records an event at once.
func (w *world) tell(by history.Witness, e history.Event) { w.files.arrive(by, w.now, false, e) }

func (w *world) phase(name string) {
	w.tell(history.Run, history.Event{Type: contract.Info, Proc: "harness", Op: history.OpPhase, Msg: name})
}

// alive are the harness's signs of life.
func (w *world) alive(t *task) {
	for {
		t.sleep(100*time.Millisecond + w.between(0, time.Millisecond))
		w.tell(history.Run, history.Event{Type: contract.Info, Proc: "harness", Op: history.OpAlive})
	}
}

// sources are the witnesses that say how far they have come, and what they watch.
func (w *world) sources() []source {
	if w.o.Workload == lockWorkload {
		return []source{{history.LockDB, w.locks.proc()}}
	}
	return []source{{history.PayDB, contract.PayDB}, {history.LockDB, w.locks.proc()}, {history.Journal, contract.RailStub}}
}

type source struct {
	of   history.Witness
	proc contract.Process
}

func (w *world) watermark(of history.Witness, proc contract.Process) {
	e := history.Event{Type: contract.Info, Proc: proc, Op: history.OpWatermark, Covers: w.now}
	if l, ok := w.locks.(*locks); ok && of == history.LockDB {
		e.Epoch = l.epoch
	}
	w.see(of, e)
}

// watermarks says now and then for each witness that it has seen everything up to now.
func (w *world) watermarks(t *task) {
	for {
		for _, s := range w.sources() {
			w.watermark(s.of, s.proc)
		}
		t.sleep(w.between(200*time.Millisecond, 280*time.Millisecond))
	}
}
