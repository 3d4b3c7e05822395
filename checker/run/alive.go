package run

import (
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// aliveEvery is how often the harness shows that it runs. What is judged by the harness's clock is judged only where the
// harness itself did not stand still.
const aliveEvery = 100 * time.Millisecond

// showLife records a sign of life every aliveEvery until stop is called.
func showLife(rec *history.Recorder) (stop func()) {
	return regularly(aliveEvery, func() {
		rec.Record(history.Run, history.Event{Type: contract.Info, Proc: "harness", Op: history.OpAlive})
	})
}

// regularly does something in every interval until stop is called, which returns when the last is done.
func regularly(interval time.Duration, do func()) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				do()
			}
		}
	}()
	return func() { close(done); <-ended }
}
