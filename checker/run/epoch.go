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
	log := e.takeLockLog()
	if log == nil {
		return nil
	}
	return log.Detach(ctx)
}

// takeLockLog takes the lock store's witness, nil between two epochs. Then there is none.
func (e *evidence) takeLockLog() log {
	e.mu.Lock()
	defer e.mu.Unlock()
	taken := e.lockLog
	e.lockLog = nil
	return taken
}

// beginEpoch begins to watch the lock store anew, as it is now: before its clients are let in.
func (e *evidence) beginEpoch(ctx context.Context, s *local.Stack) error {
	return e.watchAnew(ctx, func(ctx context.Context, epoch int) (log, error) { return e.followLocks(ctx, s, epoch) })
}

// watchAnew begins the next epoch where there is no witness. What nobody watches is no evidence, so where there is none
// afterwards the history says so. It takes as long as the store does to answer, and what is measured goes on meanwhile.
func (e *evidence) watchAnew(ctx context.Context, follow func(ctx context.Context, epoch int) (log, error)) error {
	epoch, watched := e.nextEpoch()
	if watched {
		return nil
	}
	log, err := follow(ctx, epoch)
	if err != nil {
		e.rec.Record(history.LockDB, history.Event{Type: contract.Info, Proc: contract.LockDB, Op: history.OpLostPlace, Epoch: epoch,
			Msg: fmt.Sprintf("nobody watches the lock store since it was put back: %v", err)})
		return fmt.Errorf("begin epoch %d of the lock store's log: %w", epoch, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lockLog = log
	return nil
}

// nextEpoch is the epoch that begins; watched tells that the present one goes on.
func (e *evidence) nextEpoch() (epoch int, watched bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lockLog != nil {
		return e.epoch, true
	}
	e.epoch++
	return e.epoch, false
}
