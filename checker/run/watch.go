package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"fenceproof/checker/verdict"
)

// Watch is for whoever stands on top of a run and waits for certain violations: the run ends as soon as all of them were
// found. What it saw may be read when Verify has returned.
type Watch struct {
	// For are the invariants to wait for; none means that the run takes its whole time.
	For []string
	// Found says of each violated invariant how long after the beginning of the drive its first violation was found.
	Found map[string]time.Duration
	// Steps is how many steps of the plan had their effect.
	Steps int

	began time.Time
}

// watchEvery is how often the judge is asked; it bounds the error of Watch.Found.
const watchEvery = 20 * time.Millisecond

// note writes down what the judge has found by now, and tells whether nothing is missing any more.
func (w *Watch) note(ids []string) (complete bool) {
	for _, id := range ids {
		if _, known := w.Found[id]; !known {
			w.Found[id] = time.Since(w.began)
		}
	}
	for _, id := range w.For {
		if _, found := w.Found[id]; !found {
			return false
		}
	}
	return len(w.For) > 0
}

// errFound is why a watched run ends early.
var errFound = errors.New("stopped: violated as expected")

// watch ends the context that it returns when everything that is watched for was found. end must be called.
func (r *state) watch(ctx context.Context) (watched context.Context, end func()) {
	w := r.cfg.Watch
	if w == nil {
		return ctx, func() {}
	}
	w.Found, w.began = map[string]time.Duration{}, time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		var seen int64
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			n := r.judge.Found()
			if n == seen {
				continue
			}
			seen = n
			if w.note(r.judge.Violated()) {
				cancel(fmt.Errorf("%w: %s", errFound, strings.Join(w.For, ", ")))
				return
			}
		}
	})
	return ctx, func() { cancel(nil); watcher.Wait() }
}

// watched tells the watch how the run ended: what was found only when the whole history was judged, and which steps of
// the plan had their effect.
func (r *state) watched(v *verdict.Run) {
	w := r.cfg.Watch
	if w == nil || w.Found == nil {
		return // not watched, or ended before its drive
	}
	var ids []string
	for _, i := range v.Invariants {
		if i.Status == verdict.Violated {
			ids = append(ids, i.ID)
		}
	}
	w.note(ids)
	w.Steps = r.engine.Status().Windows
}
