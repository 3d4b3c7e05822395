package nemesis

// Disk-full: a database whose disk is full refuses what needs room, forgets nothing that it has answered, grants nothing
// twice, and serves again without anybody's help once there is room.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/nemesis/plan"
)

// Volumes is what a Stack can do besides, where the data of a process is on a volume that can be filled.
type Volumes interface {
	Volume(contract.Process) (Volume, error)
}

// Volume is a server and the volume that its data is on.
type Volume interface {
	// Fill leaves no byte free, and returns how the server then refused to write. From then on it may end by itself.
	Fill(ctx context.Context) (seen string, err error)
	// ExhaustLog uses up what a full server has left of its write-ahead log, and returns how it ended.
	ExhaustLog(ctx context.Context) (seen string, err error)
	// KeepFull fills what has become free on it: the server recycles segments of its log.
	KeepFull(ctx context.Context) error
	// Full is what is to be seen of one that is kept full; an error where the server does not refuse to write for that reason.
	Full(ctx context.Context) (seen string, err error)
	// Free takes away what fills it.
	Free(ctx context.Context) error
	// Writes is nil when the server writes again. One that has ended by itself is started first.
	Writes(ctx context.Context) error
}

// diskFull fills a volume and keeps it full; where log is set the server has no room for its log either, and ends.
type diskFull struct {
	v     Volume
	log   bool
	told  string
	ended bool // for want of room for its log

	stop   context.CancelFunc // of what keeps it full
	filled sync.WaitGroup
	failed error  // why it is not kept full any more
	last   string // what was seen of it in the end
}

// Limits of a full disk. Filling it takes as long as the memory that it is made of, and a server that has ended reads its
// log again.
const (
	fillLimit = 10 * time.Second
	fillEvery = 20 * time.Millisecond // between two looks for what has become free
	fullLimit = 5 * time.Second       // for it to be seen to be full still
	freeLimit = restartLimit
)

func (e *Engine) diskFull(s plan.Step, target contract.Process) (fault, error) {
	stack, ok := e.stack.(Volumes)
	if !ok {
		return nil, fmt.Errorf("%s: no data of this stack is on a volume", s.Fault)
	}
	v, err := stack.Volume(target)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Fault, err)
	}
	return &diskFull{v: v, log: s.Disk != nil && s.Disk.Log}, nil
}

func (f *diskFull) limits() (inject, heal time.Duration) { return fillLimit, freeLimit }

// seen is what the server said of its disk, and healed what it said at the end of the window.
func (f *diskFull) seen() string   { return f.told }
func (f *diskFull) healed() string { return f.last }

// attrs tells whether the server's log was used up as well.
func (f *diskFull) attrs() map[string]string {
	if !f.ended {
		return nil
	}
	return map[string]string{"log": "used up"}
}

func (f *diskFull) inject(ctx context.Context) (err error) {
	if f.told, err = f.v.Fill(ctx); err != nil {
		return err
	}
	filling, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	f.filled.Go(func() {
		for wait(filling, fillEvery) {
			if err := f.v.KeepFull(filling); err != nil {
				if filling.Err() == nil {
					f.failed = err
				}
				return
			}
		}
	})
	if f.log {
		var last string
		if last, err = f.v.ExhaustLog(ctx); err != nil {
			return err
		}
		f.told, f.ended = f.told+"; its log used up: "+last, true
	}
	return nil
}

// heal sees whether the volume was full to the end, frees it and asks the server to write, again and again until it does. It
// may have ended, or be about to: what has no room to write that it has recovered gives up.
func (f *diskFull) heal(ctx context.Context) error {
	faded := f.end(ctx)
	for attempt := 1; ; attempt++ {
		err := f.v.Free(ctx)
		if err == nil {
			err = f.v.Writes(ctx)
		}
		if err == nil {
			return faded
		}
		if !wait(ctx, restartEvery) {
			return errors.Join(fmt.Errorf("it does not write again after %d attempts", attempt), err)
		}
	}
}

// end ends what keeps the volume full, and looks at it a last time.
func (f *diskFull) end(ctx context.Context) (err error) {
	if f.stop == nil {
		return nil
	}
	f.stop()
	f.filled.Wait()
	ctx, cancel := context.WithTimeout(ctx, fullLimit)
	defer cancel()
	if f.last, err = f.v.Full(ctx); err != nil || f.failed != nil {
		return fmt.Errorf("%w: %w", errFaded, errors.Join(f.failed, err))
	}
	f.last = "to the end " + f.last
	return nil
}
