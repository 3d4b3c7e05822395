package run

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/deploy/local"
)

// deathsEvery is how often the stack is asked whether any of its processes has ended by itself.
const deathsEvery = 100 * time.Millisecond

// deaths writes into the history which processes of the system ended although nobody had asked them to.
type deaths struct {
	died func() []local.Death
	rec  interface {
		Record(history.Witness, history.Event) int64
	}
	told map[string]bool
}

// look tells of those that were not told of yet.
func (d *deaths) look() {
	for _, x := range d.died() {
		if d.told[x.Name] {
			continue
		}
		d.told[x.Name] = true
		d.rec.Record(history.Run, history.Event{Type: contract.Info, Proc: contract.Process(x.Name), Op: history.OpEnded,
			Msg: fmt.Sprintf("%s ended by itself (%s); logs/%s.log says more", x.Name, x.Status, x.Name)})
	}
}

// watchDeaths looks every deathsEvery until stop is called, and a last time then.
func (r *state) watchDeaths(ctx context.Context) (stop func()) {
	d := &deaths{died: r.stack.Died, rec: r.ev.rec, told: map[string]bool{}}
	ctx, cancel := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(deathsEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				d.look()
			}
		}
	})
	return func() {
		cancel()
		watcher.Wait()
		select {
		case <-r.stack.Lost(): // the warden has ended, and everything with it: that is the harness's own failure
		default:
			d.look()
		}
	}
}
