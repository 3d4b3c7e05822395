// Package filelock keeps processes from making the same thing at the same time.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// look is how often a lock that is held by another is tried again.
const look = 20 * time.Millisecond

// Lock takes the lock that the file at path stands for, making the file if need be, and waits for it until ctx ends. It
// is given back by the returned function or by the end of the process. The file stays: removing it would let two hold it.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	release := func() { _ = f.Close() } // closing is unlocking, and there is nothing to be lost in the file
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return release, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			release()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			release()
			return nil, fmt.Errorf("wait for another process that holds %s: %w", path, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
