package run

import (
	"context"
	"fmt"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/deploy/local"
)

// endEpoch reads the lock store's log to its end, and has its witness go. The store must still run, and its clients must be
// gone: what they commit afterwards nobody sees. Where the end is not known the history says so, and the error does.
func (e *evidence) endEpoch(ctx context.Context) error {
	e.mu.Lock()
	log := e.lockLog
	e.lockLog = nil
	e.mu.Unlock()
	if log == nil {
		return nil
	}
	return log.Detach(ctx)
}

// beginEpoch begins to watch the lock store anew, as it is now: before its clients are let in. What nobody watches is no
// evidence, so where there is no witness the history says so.
func (e *evidence) beginEpoch(ctx context.Context, s *local.Stack) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lockLog != nil {
		return nil
	}
	e.epoch++
	log, err := e.followLocks(ctx, s)
	if err != nil {
		e.rec.Record(history.LockDB, history.Event{Type: contract.Info, Proc: contract.LockDB, Op: history.OpLostPlace, Epoch: e.epoch,
			Msg: fmt.Sprintf("nobody watches the lock store since it was put back: %v", err)})
		return fmt.Errorf("begin epoch %d of the lock store's log: %w", e.epoch, err)
	}
	e.lockLog = log
	return nil
}
