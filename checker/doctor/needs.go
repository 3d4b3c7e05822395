package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Needs are what a run takes of the machine besides programs and room on the disk.
type Needs struct {
	Clocks bool  // the wall clocks of processes are moved
	Memory int64 // so many bytes of file systems in memory are filled; 0 where nothing is mounted
}

// Machine is this machine, as far as it was looked at. What it was found to be able to do is not tried again, nor what it said no
// to as often as it is asked: it may only be busy, or somebody may take its memory for a moment.
type Machine struct {
	clocks, volumes func(context.Context) error
	memory          func(ctx context.Context, filled int64) error
}

// NewMachine has looked at nothing yet.
func NewMachine() *Machine {
	return &Machine{
		clocks:  kept(func(ctx context.Context) error { return tried(ctx, (*ward).clock) }),
		volumes: kept(func(ctx context.Context) error { return tried(ctx, (*ward).volume) }),
		memory:  room(available),
	}
}

// kept asks once for all. What was said to somebody who then gave up is not kept.
func kept(look func(context.Context) error) func(context.Context) error {
	var mu sync.Mutex
	var asked bool
	var answer error
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if !asked {
			answer = insist(ctx, look)
			asked = answer == nil || ctx.Err() == nil
		}
		return answer
	}
}

// room tells whether so much memory may be filled. What was available once is enough to say yes from then on: each run asks anew.
func room(available func() (int64, error)) func(context.Context, int64) error {
	var mu sync.Mutex
	var most int64                // that was available
	var refused int64 = 1<<63 - 1 // the least that was asked for in vain
	return func(ctx context.Context, filled int64) error {
		mu.Lock()
		defer mu.Unlock()
		if err := enough(filled, most); err == nil || filled >= refused {
			return err
		}
		seen := false
		err := insist(ctx, func(context.Context) error {
			free, err := available()
			if err != nil {
				return err
			}
			most, seen = max(most, free), true
			return enough(filled, most)
		})
		if err != nil && seen && ctx.Err() == nil {
			refused = filled
		}
		return err
	}
}

// tried is why a probe of the ward finds something lacking, and what mends that.
func tried(ctx context.Context, look func(*ward, context.Context, Surroundings) (State, string, string)) (err error) {
	w, err := openWard(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	if state, found, mend := look(w, ctx, Surroundings{}); state != Fine {
		return fmt.Errorf("%s; to mend that: %s", found, mend)
	}
	return nil
}

// Lacks says what this machine cannot do of what a run needs; nil where it can do all of it. A no takes some seconds at first.
func (m *Machine) Lacks(ctx context.Context, n Needs) error {
	if n.Clocks {
		if err := m.clocks(ctx); err != nil {
			return fmt.Errorf("clocks cannot be moved here: %w", err)
		}
	}
	if n.Memory == 0 {
		return nil
	}
	if err := m.volumes(ctx); err != nil {
		return fmt.Errorf("no disk can be filled here: %w", err)
	}
	return m.memory(ctx, n.Memory)
}

// How often a machine is asked that says no, and how long is waited in between.
const (
	asks     = 3
	askEvery = 3 * time.Second
)

// insist asks, and again where the answer is no, until ctx ends.
func insist(ctx context.Context, look func(context.Context) error) (err error) {
	for i := range asks {
		if i > 0 {
			select {
			case <-ctx.Done():
				return err
			case <-time.After(askEvery):
			}
		}
		if err = look(ctx); err == nil {
			return nil
		}
	}
	return err
}

// spareMemory is what a run takes besides the disks that it fills, and what the machine should be left.
const spareMemory = 1 << 30

// enough refuses to fill memory that is not there: the kernel would end somebody, and that would prove nothing.
func enough(filled, free int64) error {
	if free >= filled+spareMemory {
		return nil
	}
	return fmt.Errorf("disks of %d MB together are filled in memory, and of that %d MB are available; %d MB are needed: drive for a shorter time, do less at a time, or give the machine more",
		filled>>20, free>>20, (filled+spareMemory)>>20)
}

// available is how many bytes of memory may be used without anybody being pushed out of it.
func available() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("ask how much memory is available: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("ask how much memory is available: %q: %w", line, err)
			}
			return kb << 10, nil
		}
	}
	return 0, errors.New("ask how much memory is available: /proc/meminfo does not say")
}
