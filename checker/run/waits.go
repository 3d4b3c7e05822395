package run

import (
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/deploy/process"
)

const (
	waitsEvery = 100 * time.Millisecond
	aWait      = 5 * time.Millisecond // what is less says nothing
)

// clients are the clients of the lock that have to be in time.
func (r *state) clients() (all []contract.Process) {
	if r.cfg.locks() { // whose clients come late on purpose
		return nil
	}
	for i := range r.cfg.Plan.Executors {
		all = append(all, contract.Executor(i+1))
	}
	return append(all, contract.Reconciler)
}

// pid is a process's id, 0 where it was never started.
func (r *state) pid(name contract.Process) int {
	p, err := r.stack.Process(string(name))
	if err != nil {
		return 0
	}
	return p.Pid()
}

// showWaits records every waitsEvery for how long clients were kept from running by others, until stop is called, and once more
// then: nobody is to blame for being late because the machine was. pid is a client's process, 0 where it has none. A machine that
// does not count what its processes wait for tells of nobody.
func showWaits(rec *history.Recorder, clients []contract.Process, pid func(contract.Process) int) (stop func()) {
	if len(clients) == 0 || !process.Counted() {
		return func() {}
	}
	w := waiting{rec: rec, pid: pid, looked: map[contract.Process]look{}}
	stopped := regularly(waitsEvery, func() { w.ask(clients) })
	return func() { stopped(); w.ask(clients) }
}

// waiting follows what clients wait for.
type waiting struct {
	rec    *history.Recorder
	pid    func(contract.Process) int
	of     process.Waits
	looked map[contract.Process]look
}

// look is when a client was looked at last, and the process that it was.
type look struct {
	pid int
	at  time.Time
}

// ask records how long each client has waited since it was asked last. What several threads waited at one time is no longer than
// that time, and one wait at most had begun before it. The kernel may count while it is asked, so for how long that took is told.
func (w *waiting) ask(clients []contract.Process) {
	began, attrs := time.Now(), map[string]string{}
	for _, c := range clients {
		last, pid, now := w.looked[c], w.pid(c), time.Now()
		if last.pid != pid {
			w.of.Forget(last.pid)
		}
		w.looked[c] = look{pid, now}
		if pid == 0 {
			continue
		}
		sum, longest, err := w.of.Since(pid)
		if err != nil {
			continue // it has ended: nobody is late who is not there
		}
		if waited := min(sum, now.Sub(last.at)+longest); waited >= aWait {
			attrs[string(c)] = waited.Round(time.Millisecond).String()
		}
	}
	attrs[history.AskedFor] = time.Since(began).String()
	w.rec.Record(history.Run, history.Event{Type: contract.Info, Proc: "harness", Op: history.OpWaits, Attrs: attrs})
}
