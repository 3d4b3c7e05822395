package witness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// standing is how far the witness of a store has come, and who waits for it.
type standing struct {
	sink    Sink
	witness history.Witness
	proc    contract.Process
	epoch   int

	kick   chan struct{} // asks for a watermark now
	asking atomic.Int32  // how many wait in Drain

	mu      sync.Mutex
	covered int64 // everything committed before this time has been recorded
	lost    error
	trouble error         // why the store was last not reached
	changed chan struct{} // closed, and made anew, when one of the above changes
}

// begin makes s ready to be waited for.
func (s *standing) begin(sink Sink, w history.Witness, proc contract.Process, epoch int) {
	s.sink, s.witness, s.proc, s.epoch = sink, w, proc, epoch
	s.kick, s.changed = make(chan struct{}, 1), make(chan struct{})
}

// Drain returns nil once everything that was committed before the call has been recorded. An error wraps ErrLost when
// that will never be; otherwise it is not known, because the store did not answer until ctx ended.
func (s *standing) Drain(ctx context.Context) error {
	s.asking.Add(1)
	defer s.asking.Add(-1)
	from := s.sink.Now()
	select {
	case s.kick <- struct{}{}:
	default: // one is asked for already, and will be made after from
	}
	for {
		s.mu.Lock()
		covered, lost, changed := s.covered, s.lost, s.changed
		s.mu.Unlock()
		switch {
		case lost != nil:
			return fmt.Errorf("drain the witness of %s: %w", s.proc, lost)
		case covered >= from:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("drain the witness of %s: it is not known whether all commits were recorded: %w",
				s.proc, errors.Join(ctx.Err(), s.lastTrouble()))
		}
	}
}

// endTimeout bounds Detach and Close where their context has no deadline of its own.
const endTimeout = 10 * time.Second

// end drains and halts. When the last commits are not known, the place is lost.
func (s *standing) end(ctx context.Context, halt func()) error {
	err := s.Drain(ctx)
	halt()
	if err != nil && !errors.Is(err, ErrLost) {
		s.losePlace(fmt.Errorf("the last commits are not known: %w", err))
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// bounded gives ctx a deadline where it has none.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, is := ctx.Deadline(); is {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, endTimeout)
}

// cover notes that everything committed before stamp has been recorded.
func (s *standing) cover(stamp int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.covered, s.trouble = stamp, nil
	s.announce()
}

func (s *standing) lastCovered() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.covered
}

// note remembers why the store was not reached, for the sentence of a Drain that fails.
func (s *standing) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = err
}

func (s *standing) lastTrouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble
}

// losePlace records once that the place is lost, and why.
func (s *standing) losePlace(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return
	}
	s.lost = fmt.Errorf("%w: %w", ErrLost, why)
	recordLost(s.sink, s.witness, s.proc, s.epoch, why.Error())
	s.announce()
}

func (s *standing) isLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost != nil
}

func (s *standing) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}
