package witness

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

const (
	readTimeout = 2 * time.Second       // of one read at one member; a stopped member does not answer
	askEvery    = 30 * time.Millisecond // how often the watch is asked how far it has come
	silentFor   = time.Second           // a watch that is asked and says nothing for so long is hung up
)

// mark records a watermark every markEvery, and at once when Drain asks, until ctx ends or the place is lost.
func (w *Etcd) mark(ctx context.Context) {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	for !w.isLost() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.kick:
		}
		// A change that was committed by now has a revision that the read below cannot miss.
		covers := w.sink.Now()
		rev, err := w.latest(ctx)
		var m misplaced
		switch {
		case errors.As(err, &m):
			w.losePlace(m.why)
		case err != nil:
			w.note(err)
		case w.awaitPassed(ctx, rev):
			w.showWatermark(covers)
		}
	}
}

func (w *Etcd) showWatermark(covers int64) {
	w.mu.Lock()
	due := w.shown.due(w.sink.Now(), w.asking.Load() > 0)
	w.mu.Unlock()
	if due {
		recordWatermark(w.sink, w.witness, w.proc, w.epoch, covers)
	}
	w.cover(covers)
}

// latest is the latest revision, by a linearizable read at the first member that answers, beginning with the one that did
// last. It cannot be lower than one that was seen before the read began, unless etcd was put back to an older state.
func (w *Etcd) latest(ctx context.Context) (int64, error) {
	w.mu.Lock()
	passed := w.passed
	w.mu.Unlock()
	var errs []error
	for range w.members {
		h, err := w.members[w.asked].readLatest(ctx)
		if err != nil {
			errs = append(errs, err)
			w.asked = (w.asked + 1) % len(w.members)
			continue
		}
		if err := w.sameCluster(h.ClusterId); err != nil {
			return 0, err
		}
		if h.Revision < passed {
			return 0, misplaced{fmt.Errorf("etcd stands at revision %d and had been read to %d: it was put back to an older state", h.Revision, passed)}
		}
		w.elected(h.RaftTerm)
		return h.Revision, nil
	}
	return 0, errors.Join(errs...)
}

func (m *member) readLatest(ctx context.Context) (*etcdserverpb.ResponseHeader, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r, err := m.kv.Range(ctx, &etcdserverpb.RangeRequest{Key: []byte(etcdPrefix), CountOnly: true})
	if err != nil {
		return nil, fmt.Errorf("ask etcd at %s for its revision: %w", m.url, err)
	}
	return r.Header, nil
}

// elected records that etcd has had an election since the last read. The first term seen began before anything was.
func (w *Etcd) elected(term uint64) {
	w.mu.Lock()
	before := w.term
	w.term = max(before, term)
	w.mu.Unlock()
	if before != 0 && term > before {
		w.sink.Record(w.witness, history.Event{Type: contract.Info, Proc: w.proc, Op: history.OpElection, Epoch: w.epoch,
			Attrs: map[string]string{"term": strconv.FormatUint(term, 10)}, Msg: fmt.Sprintf("etcd is in term %d; it was %d", term, before)})
	}
}

// awaitPassed waits until the watch has passed rev. It keeps asking how far the watch has come, since a revision that
// changed nothing of the lock is not sent, and hangs up a watch that has fallen silent, so that another member is asked.
func (w *Etcd) awaitPassed(ctx context.Context, rev int64) bool {
	for {
		w.mu.Lock()
		passed, lost, changed, now := w.passed, w.lost, w.changed, w.now
		w.mu.Unlock()
		switch {
		case lost != nil || ctx.Err() != nil:
			return false
		case passed >= rev:
			return true
		}
		t := time.NewTimer(askEvery)
		select {
		case <-changed:
		case <-ctx.Done():
		case <-t.C:
			if now != nil {
				now.ask()
			}
		}
		t.Stop()
	}
}
