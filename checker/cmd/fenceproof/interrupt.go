package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// interruptible ends the context at the first SIGINT, SIGTERM or SIGHUP, so that the run heals, judges what there is and
// reports. Once more ends the process at once; the warden cleans up after it.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	got := make(chan os.Signal, 2)
	done := make(chan struct{})
	signal.Notify(got, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		var asked interruption
		for {
			select {
			case s := <-got:
				switch asked.at(time.Now()) {
				case judgeFirst:
					fmt.Fprintln(os.Stderr, "fenceproof: interrupted; healing, then judging what there is (once more ends at once)")
					cancel(fmt.Errorf("interrupted (%s)", s))
				case endAtOnce:
					fmt.Fprintln(os.Stderr, "fenceproof: ended at once; the run's folder holds what was recorded, and no verdict")
					os.Exit(128 + int(s.(syscall.Signal)))
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(got); close(done); cancel(nil) }
}

// oneWish is how long after the first signal others are the same wish. Whoever asks once may send two: timeout signals its
// child and then its group, and a terminal that closes is told of by the kernel and by the shell.
const oneWish = 500 * time.Millisecond

// wish is what a signal asks for.
type wish int

const (
	judgeFirst wish = iota // heal, and judge what there is
	sameAsked              // what was asked for already
	endAtOnce
)

// interruption knows when the first signal came.
type interruption struct{ first time.Time }

// at is what a signal asks for that comes now.
func (i *interruption) at(now time.Time) wish {
	switch {
	case i.first.IsZero():
		i.first = now
		return judgeFirst
	case now.Sub(i.first) < oneWish:
		return sameAsked
	}
	return endAtOnce
}
