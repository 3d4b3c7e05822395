package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fenceproof/checker/history"
)

// intactEvery is how often the recorder is asked whether it still writes.
const intactEvery = 100 * time.Millisecond

// intact watches over a drive's own means until its time is up: without processes there is nothing to drive, and without
// a history nothing that comes afterwards is evidence of anything.
func intact(ctx context.Context, lost <-chan struct{}, rec *history.Recorder, drive time.Duration) error {
	over := time.NewTimer(drive)
	defer over.Stop()
	tick := time.NewTicker(intactEvery)
	defer tick.Stop()
	for {
		select {
		case <-lost:
			return errors.New("the warden has ended, and with it every process of the run")
		case <-ctx.Done():
			return nil
		case <-over.C:
			return nil
		case <-tick.C:
			if err := rec.Err(); err != nil {
				return fmt.Errorf("the history can no longer be written: %w", err)
			}
		}
	}
}
