package witness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// journalEvery is how often the rail's journal is looked at.
const journalEvery = 10 * time.Millisecond

// Journal records the rail's append-only file of money moved, one event per line. The rail writes and syncs a line
// before it answers, so what was answered is in the file.
type Journal struct {
	sink Sink
	stop context.CancelFunc
	done chan struct{}

	mu    sync.Mutex
	tail  tail
	shown watermarks
	lost  error

	ending sync.Once
	ended  error
}

// FollowJournal starts to record the file at path, which may not be there yet. Whoever calls it calls Close.
func FollowJournal(path string, sink Sink) *Journal {
	ctx, stop := context.WithCancel(context.Background())
	j := &Journal{sink: sink, stop: stop, done: make(chan struct{}), tail: tail{path: path}}
	go func() {
		defer close(j.done)
		for pause(ctx, journalEvery) {
			if j.look(false) != nil {
				return
			}
		}
	}()
	return j
}

// Drain returns nil once every transfer that was answered before the call has been recorded, and an error that wraps
// ErrLost when that will never be.
func (j *Journal) Drain(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("drain the rail's journal: %w", err)
	}
	if err := j.look(true); err != nil {
		return fmt.Errorf("drain the rail's journal: %w", err)
	}
	return nil
}

// Close records what is left, stops, and marks the history as complete, unless the place was lost. A last line without
// an end is no transfer: the rail was killed while it wrote it, and has answered nobody.
func (j *Journal) Close(ctx context.Context) error {
	j.ending.Do(func() {
		j.stop()
		<-j.done
		j.ended = j.Drain(context.WithoutCancel(ctx))
		j.mu.Lock()
		defer j.mu.Unlock()
		j.tail.close()
		if j.ended == nil {
			j.sink.Complete(history.Journal)
		}
	})
	return j.ended
}

// look records every line that is new.
func (j *Journal) look(asked bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lost != nil {
		return j.lost
	}
	covers := j.sink.Now()
	if err := j.tail.read(0, j.line); err != nil {
		j.lost = fmt.Errorf("%w: the rail's journal after byte %d: %w", ErrLost, j.tail.off, err)
		recordLost(j.sink, history.Journal, contract.RailStub, 0, j.lost.Error())
		return j.lost
	}
	if j.shown.due(j.sink.Now(), asked) {
		recordWatermark(j.sink, history.Journal, contract.RailStub, 0, covers)
	}
	return nil
}

// transfer is one line of the journal.
type transfer struct {
	RailReference string `json:"railReference"`
	ClientRef     string `json:"clientRef"`
	AmountMinor   int64  `json:"amountMinor"`
	Currency      string `json:"currency"`
	AcceptedAt    string `json:"acceptedAt"`
}

// line records a complete line. One that is only the beginning of a transfer is none: a rail that was killed, or had no
// room on the disk, in the middle of a line ends that line before it writes the next, and has answered nobody for it.
// Any other line that is no transfer cannot come from a rail that works: it may hide money moved.
func (j *Journal) line(line []byte) error {
	var t transfer
	switch err := json.Unmarshal(line, &t); {
	case err != nil && broken(line):
		return nil
	case err != nil:
		return fmt.Errorf("the line %.200q is no transfer: %w", line, err)
	}
	if t.RailReference == "" || t.ClientRef == "" || t.AmountMinor <= 0 || t.Currency == "" {
		return fmt.Errorf("the line %.200q is no transfer: %w", line,
			errors.New("it needs railReference, clientRef, an amountMinor above 0, and currency"))
	}
	j.sink.Record(history.Journal, history.Event{Type: contract.OK, Proc: contract.RailStub, Op: history.OpMoney,
		Payout: t.ClientRef, Amount: t.AmountMinor, Currency: t.Currency, RailRef: t.RailReference})
	j.shown.news = true
	return nil
}

// broken tells whether line is the beginning of a JSON object that lacks its end.
func broken(line []byte) bool {
	var whole json.RawMessage
	err := json.NewDecoder(bytes.NewReader(line)).Decode(&whole)
	return errors.Is(err, io.ErrUnexpectedEOF) && line[0] == '{'
}
