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

// How long it is tried to stop a process, and how long it runs between two attempts: after one that found a thread where a
// jump goes, and after one that did not stop it. It is not stopped for more than a fourth of the time.
const (
	tries       = 3 * time.Second
	insideAgain = time.Millisecond
	lateAgain   = 3 * stopLimit
)

// move redirects the process where it is not yet, and sets its offset. It is the one that began at start.
func move(ctx context.Context, pid int, start uint64, by time.Duration) error {
	mem, err := open(pid, start, os.O_RDWR)
	if by == 0 && errors.Is(err, os.ErrPermission) {
		return nil // who may not write there has written nothing, and it has the true time
	}
	if err != nil {
		return err
	}
	defer mem.Close()
	v, err := readVDSO(pid, mem)
	if err != nil {
		return err
	}
	if !v.redirected() {
		if by == 0 { // offsets are written when all is redirected
			return nil
		}
		if v, err = redirect(ctx, pid, mem); err != nil {
			return err
		}
	}
	return v.set(mem, by)
}

// open opens the memory of the process that began at start. It stays that one's, whoever has its pid afterwards.
func open(pid int, start uint64, flag int) (*os.File, error) {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), flag, 0)
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("%w: this takes the right to trace it, as its user, from a process above it or as root (kernel.yama.ptrace_scope; CAP_SYS_PTRACE in a container)", err)
	}
	if err != nil || start == anybody {
		return mem, err
	}
	if s, err := process.ReadStat(pid); err != nil || s.Start != start {
		return nil, errors.Join(os.ErrProcessDone, mem.Close())
	}
	return mem, nil
}

// redirect stops all threads of the process, writes what is missing and lets them go on.
func redirect(ctx context.Context, pid int, mem *os.File) (*vdso, error) {
	if s, err := process.ReadStat(pid); err != nil {
		return nil, err
	} else if s.Parent == os.Getpid() {
		return nil, ErrOwnChild
	}
	var v *vdso
	for end := time.Now().Add(tries); ; {
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
		again := insideAgain
		switch {
		case errors.Is(err, ErrLate):
			again = lateAgain
		case !errors.Is(err, errInside):
			return nil, err
		}
		if time.Now().Add(again).After(end) {
			return nil, fmt.Errorf("it was tried for %s: %w", tries, err)
		}
		if gone := pause(ctx, again); gone != nil {
			return nil, errors.Join(gone, err)
		}
	}
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

// offset is how far a process's wall clock is moved; 0 for one that never was.
func offset(pid int, start uint64) (time.Duration, error) {
	mem, err := open(pid, start, os.O_RDONLY)
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
