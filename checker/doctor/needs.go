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

// Machine is this machine, as far as it was looked at: everything is tried once, when it is asked for first.
type Machine struct {
	clocks, volumes func(context.Context) error
	memory          func() (int64, error)
}

// NewMachine has looked at nothing yet.
func NewMachine() *Machine {
	return &Machine{
		clocks:  once(func(ctx context.Context) error { return tried(ctx, (*ward).clock) }),
		volumes: once(func(ctx context.Context) error { return tried(ctx, (*ward).volume) }),
		memory:  sync.OnceValues(available),
	}
}

func once(look func(context.Context) error) func(context.Context) error {
	var first sync.Once
	var err error
	return func(ctx context.Context) error {
		first.Do(func() { err = look(ctx) })
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

// Lacks says what this machine cannot do of what a run needs; nil where it can do all of it.
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
	free, err := m.memory()
	if err != nil {
		return err
	}
	return enough(n.Memory, free)
}

// How often a machine is asked that says no, and how long is waited in between.
const (
	asks     = 3
	askEvery = 3 * time.Second
)

// Insist asks this machine for what a run needs, and again where it says no: somebody may take its memory for a moment, and a
// probe come too late while it is busy.
func Insist(ctx context.Context, n Needs) error { return insist(ctx, n, NewMachine) }

func insist(ctx context.Context, n Needs, look func() *Machine) (err error) {
	for i := range asks {
		if i > 0 {
			select {
			case <-ctx.Done():
				return err
			case <-time.After(askEvery):
			}
		}
		if err = look().Lacks(ctx, n); err == nil {
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
