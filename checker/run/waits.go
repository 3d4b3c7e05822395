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

// pid is a process's id, 0 where it has none.
func (r *state) pid(name contract.Process) int {
	p, err := r.stack.Process(string(name))
	if err != nil {
		return 0
	}
	return p.Pid()
}

// showWaits records every waitsEvery for how long clients were kept from running by others, until stop is called: nobody is
// to blame for being late because the machine was. pid is a client's process, 0 where it has none. A machine that does not
// count what its processes wait for tells of nobody.
func showWaits(rec *history.Recorder, clients []contract.Process, pid func(contract.Process) int) (stop func()) {
	if len(clients) == 0 {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(waitsEvery)
		defer tick.Stop()
		var w process.Waits
		pids := map[contract.Process]int{}
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			attrs := map[string]string{}
			for _, c := range clients {
				now := pid(c)
				if now != pids[c] {
					w.Forget(pids[c])
				}
				if pids[c] = now; now == 0 {
					continue
				}
				if waited, err := w.Since(now); err == nil && waited >= aWait {
					attrs[string(c)] = waited.Round(time.Millisecond).String()
				}
			}
			rec.Record(history.Run, history.Event{Type: contract.Info, Proc: "harness", Op: history.OpWaits, Attrs: attrs})
		}
	}()
	return func() { close(done); <-ended }
}
