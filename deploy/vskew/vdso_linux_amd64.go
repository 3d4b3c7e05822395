package vskew

import (
	"bytes"
	"debug/elf"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// stub is the code that takes over; stub_amd64.S says what it does.
//
//go:embed stub_amd64.bin
var stub []byte

// Where things stand in the stub.
const (
	entryClockGettime = 0x00
	entryGettimeofday = 0x50
	entryTime         = 0xb0
	offsetsAt         = 0xe0 // two of 8 bytes
	whichAt           = 0xf0 // which of them counts: one byte
)

// entries are the functions that are redirected, and where to.
var entries = []struct {
	name string
	to   int64
}{
	{"__vdso_clock_gettime", entryClockGettime},
	{"__vdso_gettimeofday", entryGettimeofday},
	{"__vdso_time", entryTime},
}

const (
	jumpSize = 5 // of jmp rel32
	wordSize = 8 // written at once
)

// vdso is the vDSO of a process: its bytes, and where it wants to be written.
type vdso struct {
	base  int64
	image []byte
	stub  int64            // where the stub is, or goes: in the zeros behind the end of the image
	funcs map[string]int64 // the functions' addresses
}

// write is one step of redirecting: each leaves the process in a state in which it can run on.
type write struct {
	at   int64
	what []byte
}

// readVDSO reads the vDSO of pid through mem, its memory.
func readVDSO(pid int, mem io.ReaderAt) (*vdso, error) {
	lo, hi, err := vdsoRange(pid)
	if err != nil {
		return nil, err
	}
	v := &vdso{base: lo, image: make([]byte, hi-lo), funcs: map[string]int64{}}
	if _, err := mem.ReadAt(v.image, lo); err != nil {
		return nil, fmt.Errorf("read its vDSO: %w", err)
	}
	f, err := elf.NewFile(bytes.NewReader(v.image))
	if err != nil {
		return nil, fmt.Errorf("read its vDSO: %w", err)
	}
	if f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 {
		return nil, fmt.Errorf("its vDSO is one of %s, and the code is for %s", f.Machine, elf.EM_X86_64)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("read its vDSO's symbols: %w", err)
	}
	for _, s := range symbols {
		if s.Size >= jumpSize {
			v.funcs[s.Name] = lo + int64(s.Value)
		}
	}
	for _, e := range entries {
		if at := v.funcs[e.name]; at == 0 || at%wordSize != 0 {
			return nil, fmt.Errorf("its vDSO has no %s that can be redirected", e.name)
		}
	}
	return v, v.place()
}

// place finds where the stub is, or where there is room for it.
func (v *vdso) place() error {
	at := (len(v.image) - len(stub)) &^ 15
	if at < 0 {
		return errors.New("its vDSO is too small")
	}
	v.stub = v.base + int64(at)
	there := v.image[at : at+len(stub)]
	if bytes.Equal(there[:offsetsAt], stub[:offsetsAt]) || bytes.Count(there, []byte{0}) == len(there) {
		return nil
	}
	return errors.New("its vDSO has no room behind its end")
}

// redirected tells whether all of the functions lead to the stub.
func (v *vdso) redirected() bool { return len(v.missing()) == 0 }

// missing are the steps that are still to be done, in their order: what is led to is there before anybody is led there.
func (v *vdso) missing() (steps []write) {
	at := v.stub - v.base
	if !bytes.Equal(v.image[at:at+offsetsAt], stub[:offsetsAt]) {
		steps = append(steps, write{v.stub, stub})
	}
	for _, e := range entries {
		from := v.funcs[e.name]
		there := v.image[from-v.base : from-v.base+wordSize]
		word := bytes.Clone(there) // what follows the jump stays as it is: somebody may be there
		word[0] = 0xe9             // jmp rel32
		binary.LittleEndian.PutUint32(word[1:], uint32(int32(v.stub+e.to-(from+jumpSize))))
		if !bytes.Equal(there, word) {
			steps = append(steps, write{from, word})
		}
	}
	return steps
}

// inside tells whether code at address is in the middle of what a jump replaces. Of a thread that is in a signal's handler it is
// asked where that is; what the signal has interrupted is on the thread's stack, and nobody looks there. It would have to be
// one of the first instructions of a clock function.
func (v *vdso) inside(address int64) bool {
	for _, e := range entries {
		if from := v.funcs[e.name]; address > from && address < from+jumpSize {
			return true
		}
	}
	return false
}

// vdsoRange is where the vDSO of pid is.
func vdsoRange(pid int) (lo, hi int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("look for its vDSO: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &lo, &hi); err != nil {
			return 0, 0, fmt.Errorf("look for its vDSO: %q: %w", line, err)
		}
		return lo, hi, nil
	}
	return 0, 0, errNoVDSO
}
