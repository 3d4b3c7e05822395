package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"fenceproof/deploy/process"

	"golang.org/x/sys/unix"
)

// Demolish ends whatever server works on the data directory, without asking it, deletes the directory, and gives back
// the shared memory that the server had of the machine. It needs no Instance: it is for those who clean up after a
// process that cannot do it any more. Where folder is a link to the directory, both are deleted. What does not exist is
// no error.
func Demolish(ctx context.Context, folder string) error {
	data, err := filepath.EvalSymlinks(folder)
	if errors.Is(err, os.ErrNotExist) {
		return removeTree(folder) // nothing, or a link to nothing
	}
	if err != nil {
		return fmt.Errorf("find a data directory: %w", err)
	}
	return errors.Join(killServer(ctx, data), removeSharedMemory(data), unmount(data), removeTree(data), removeTree(folder))
}

// unmount takes away the volume on a data directory, where there is one and we may.
func unmount(data string) error {
	err := unix.Unmount(data, unix.MNT_DETACH)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOENT) {
		return nil // there is none, or we could never have mounted one
	}
	if err != nil {
		return fmt.Errorf("unmount the volume of a data directory: %w", err)
	}
	return nil
}

// killServer kills every process that works in the data directory: all of PostgreSQL's do, those that left the
// postmaster's session as well. The postmaster is stopped first, so that it starts no other.
func killServer(ctx context.Context, data string) error {
	const rounds = 10 // a process that was being born in the first round is seen in the second
	for range rounds {
		pids, err := process.WorkingIn(data, "postgres")
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		if err := process.KillAll(ctx, pids); err != nil {
			return err
		}
	}
	return fmt.Errorf("end the server in %s: it keeps making processes", data)
}

// removeSharedMemory removes the System V segment that a killed server left: postmaster.pid names its key and id. It does so as
// whoever the server ran as, who needs no capability for what is theirs.
func removeSharedMemory(data string) error {
	file := filepath.Join(data, "postmaster.pid")
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it ended in order and removed the segment itself
	}
	if err != nil {
		return fmt.Errorf("read which shared memory a server left: %w", err)
	}
	key, id, ok := segment(string(text))
	if !ok {
		return nil // it was killed before it had any
	}
	owner, err := process.Owner(file)
	if err != nil {
		return err
	}
	return process.As(owner, func() error { return removeSegment(owner, key, id) })
}

// removeSegment removes a segment, if it is still the owner's. The id may have been given to somebody else meanwhile; the key, which
// comes from the directory, tells.
func removeSegment(owner process.User, key int32, id int) error {
	var desc unix.SysvShmDesc
	_, err := unix.SysvShmCtl(id, unix.IPC_STAT, &desc)
	switch {
	case errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EIDRM):
		return nil // it is gone
	case errors.Is(err, syscall.EACCES) && os.Geteuid() == owner.UID:
		return nil // the owner may look at what is theirs: this is somebody else's
	case err != nil:
		return fmt.Errorf("look at shared memory %d: %w", id, err)
	case desc.Perm.Key != key:
		return nil
	}
	if _, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil); err != nil {
		return fmt.Errorf("remove shared memory %d: %w", id, err)
	}
	return nil
}

// segment reads key and id of the segment from the seventh line of postmaster.pid. The server prints the key, a signed
// 32-bit number, as an unsigned 64-bit one.
func segment(text string) (key int32, id int, ok bool) {
	lines := strings.Split(text, "\n")
	if len(lines) < 7 {
		return 0, 0, false
	}
	f := strings.Fields(lines[6])
	if len(f) != 2 {
		return 0, 0, false
	}
	wide, err1 := strconv.ParseUint(f[0], 10, 64)
	id, err2 := strconv.Atoi(f[1])
	return int32(wide), id, err1 == nil && err2 == nil
}

// removeTree deletes a data directory.
func removeTree(data string) error {
	if err := os.RemoveAll(data); err != nil {
		return fmt.Errorf("delete a data directory: %w", err)
	}
	return nil
}
