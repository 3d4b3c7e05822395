package witness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// EtcdConfig says which etcd to watch, and as what.
type EtcdConfig struct {
	// Endpoints are the client URLs of all members (http://127.0.0.1:2379), past every link. One is enough; with several
	// the witness goes on at another member when one is stopped, killed or has no leader.
	Endpoints []string
	Proc      contract.Process
	// Epoch is written into every event. A planned restore detaches this witness and attaches a new one with the next epoch,
	// which begins with what is there then (see Snapshot); the first one begins with etcd's first revision.
	Epoch int
}

// Etcd records every revision that changes a session, a grant or a revocation of the lock on etcd, from the first
// revision on and in etcd's own order, as one commit event each: LSN is the revision in decimal, and the changes are rows
// as lockdb has them (see lockRows). Every row comes from the watch, which sees what was committed whoever committed it.
//
// A watermark rests on two facts: a linearizable read that began after the time it covers names the latest revision R,
// and the watch has passed R. When a member is stopped, killed or cut off, the watch goes on at the revision that was
// recorded last, which must come out the same; where it does not, where the revision goes back, or where etcd has
// compacted what was not recorded yet, the witness records OpLostPlace and stops. It also records each new leader's
// term, since an election lengthens leases (OpElection).
type Etcd struct {
	standing
	members []*member
	rows    *lockRows // of the watching goroutine, as is place
	place   revisionPlace
	asked   int // of the marking goroutine: the member whose turn it is

	stop    context.CancelFunc
	running sync.WaitGroup

	// Guarded by mu of standing.
	home   uint64  // the cluster's id, 0 until it answered
	passed int64   // every revision up to this one has been recorded
	term   uint64  // the latest term seen
	now    *stream // the present watch, nil between two
	shown  watermarks

	ending sync.Once
	ended  error
}

// AttachEtcd starts to record as history.LockDB. It returns once everything committed before the call has been recorded,
// from revision 1 on or, in a later epoch, from what is there; an error wraps ErrLost when etcd has none of that any more. On an error nothing goes on.
func AttachEtcd(ctx context.Context, cfg EtcdConfig, sink Sink) (*Etcd, error) {
	w := &Etcd{rows: newLockRows(), shown: watermarks{idle: electionIdle}}
	w.begin(sink, history.LockDB, cfg.Proc, cfg.Epoch)
	if len(cfg.Endpoints) == 0 {
		return nil, fmt.Errorf("attach the witness of %s: %w", cfg.Proc, errNoEndpoint)
	}
	for _, url := range cfg.Endpoints {
		m, err := dial(url)
		if err != nil {
			w.hangUp()
			return nil, fmt.Errorf("attach the witness of %s: %w", cfg.Proc, err)
		}
		w.members = append(w.members, m)
	}
	if cfg.Epoch > 0 {
		if err := w.beginEpoch(ctx); err != nil {
			w.hangUp()
			return nil, fmt.Errorf("attach the witness of %s: %w", cfg.Proc, err)
		}
	}
	run, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.running.Add(2)
	go func() { defer w.running.Done(); w.watch(run) }()
	go func() { defer w.running.Done(); w.mark(run) }()
	if err := w.Drain(ctx); err != nil {
		w.halt()
		return nil, fmt.Errorf("attach the witness of %s: %w", cfg.Proc, err)
	}
	return w, nil
}

var errNoEndpoint = errors.New("no endpoint of etcd was given")

// electionIdle is the least time between two watermarks while nothing happens. It is short, because a pause between them
// is how a judge sees that etcd did not answer.
const electionIdle = 400 * time.Millisecond

// Detach ends this epoch: it drains and stops. The history stays open for the next epoch's witness. etcd must still run,
// and its clients must be done. An error means that the end of the epoch is not known; OpLostPlace then says so in the
// history. Later calls return the same.
func (w *Etcd) Detach(ctx context.Context) error {
	w.ending.Do(func() {
		ctx, done := bounded(ctx)
		defer done()
		w.ended = w.end(ctx, w.halt)
	})
	return w.ended
}

// Close detaches and, where the witness kept its place to the end, marks its history as complete.
func (w *Etcd) Close(ctx context.Context) error {
	if err := w.Detach(ctx); err != nil {
		return err
	}
	w.sink.Complete(w.witness)
	return nil
}

// halt stops both goroutines, waits for them and closes the connections.
func (w *Etcd) halt() {
	w.stop()
	w.running.Wait()
	w.hangUp()
}

func (w *Etcd) hangUp() {
	for _, m := range w.members {
		_ = m.conn.Close() // nothing is on its way any more
	}
}

// pass notes that every revision up to rev has been recorded.
func (w *Etcd) pass(rev int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if rev > w.passed {
		w.passed = rev
		w.announce()
	}
}

// sameCluster refuses answers of another cluster than the one that answered first.
func (w *Etcd) sameCluster(id uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.home == 0 {
		w.home = id
	}
	if w.home != id {
		return misplaced{fmt.Errorf("another etcd cluster answers now (%x, it was %x)", id, w.home)}
	}
	return nil
}
