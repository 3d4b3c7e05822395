package reports

import (
	"errors"
	"fmt"
	"io"

	"fenceproof/checker/history"
)

// reader is a history as this package reads it; *history.Reader is one.
type reader interface {
	Next(*history.Event) error
	Close() error
}

// opener begins a pass over the history.
type opener func() (reader, error)

func openHistory(dir string) opener {
	return func() (reader, error) {
		r, err := history.Open(dir)
		if err != nil {
			return nil, err
		}
		return r, nil
	}
}

// pass hands every event of a history to observe, in order of I. An error says what kept it from the end; what came
// before has been observed.
func pass(open opener, observe func(*history.Event)) (err error) {
	r, err := open()
	if err != nil {
		return fmt.Errorf("read the history for the report: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var e history.Event // one for all: nobody keeps it
	for {
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the history for the report: %w", err)
		}
		observe(&e)
	}
}
