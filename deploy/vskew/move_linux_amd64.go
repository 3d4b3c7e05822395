package vskew

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"fenceproof/deploy/process"
)

// Supported says why clocks cannot be moved here; nil where they can.
func Supported() error { return nil }

// attempts bounds how often a process is stopped anew because one of its threads was where the jumps go.
const attempts = 50

// move redirects the process where it is not yet, and sets its offset.
func move(ctx context.Context, pid int, by time.Duration) error {
	mem, err := open(pid, os.O_RDWR)
	if err != nil {
		return err
	}
	defer mem.Close()
	v, err := readVDSO(pid, mem)
	if err != nil {
		return err
	}
	if !v.redirected() {
		if v, err = redirect(ctx, pid, mem); err != nil {
			return err
		}
	}
	return v.set(mem, by)
}

func open(pid, flag int) (*os.File, error) {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), flag, 0)
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("%w: this takes the right to trace it, as its user, from a process above it or as root (kernel.yama.ptrace_scope; CAP_SYS_PTRACE in a container)", err)
	}
	return mem, err
}

// redirect stops all threads of the process, writes what is missing and lets them go on.
func redirect(ctx context.Context, pid int, mem *os.File) (*vdso, error) {
	if s, err := process.ReadStat(pid); err != nil {
		return nil, err
	} else if s.Parent == os.Getpid() {
		return nil, ErrOwnChild
	}
	var v *vdso
	for range attempts {
		err := whileStopped(ctx, pid, func(threads []thread) (err error) {
			if v, err = readVDSO(pid, mem); err != nil {
				return err
			}
			for _, t := range threads {
				if at, err := t.at(); err != nil || v.inside(at) {
					return errors.Join(errInside, err)
				}
			}
			return v.write(mem, v.missing())
		})
		if err == nil {
			return v, nil
		}
		if !errors.Is(err, errInside) {
			return nil, err
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w in each of %d attempts", errInside, attempts)
}

// errInside: its thread would go on in the middle of a jump.
var errInside = errors.New("one of its threads was at the beginning of a clock function")

func (v *vdso) write(mem *os.File, steps []write) error {
	for _, s := range steps {
		if _, err := mem.WriteAt(s.what, s.at); err != nil {
			return fmt.Errorf("write into its vDSO: %w", err)
		}
		copy(v.image[s.at-v.base:], s.what)
	}
	return nil
}

// set writes the offset where nobody reads, and then the byte that says where to read.
func (v *vdso) set(mem *os.File, by time.Duration) error {
	which, at := v.current()
	if at == by {
		return nil
	}
	next := 1 - which
	var word [wordSize]byte
	binary.LittleEndian.PutUint64(word[:], uint64(by))
	return v.write(mem, []write{{v.stub + offsetsAt + int64(next)*wordSize, word[:]}, {v.stub + whichAt, []byte{next}}})
}

// current is the offset that counts, and which of the two that is.
func (v *vdso) current() (which byte, by time.Duration) {
	data := v.image[v.stub-v.base:]
	which = data[whichAt] & 1
	return which, time.Duration(binary.LittleEndian.Uint64(data[offsetsAt+int(which)*wordSize:]))
}

func offset(pid int) (time.Duration, error) {
	mem, err := open(pid, os.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer mem.Close()
	v, err := readVDSO(pid, mem)
	if err != nil || !v.redirected() {
		return 0, err
	}
	_, by := v.current()
	return by, nil
}

// pause sleeps, or ends with ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
