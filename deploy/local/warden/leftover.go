package warden

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"fenceproof/deploy/postgres"

	"golang.org/x/sys/unix"
)

// remove takes the leftover away; one that is gone is no error.
func (l Leftover) remove(ctx context.Context) error {
	switch l.Kind {
	case Folder:
		return os.RemoveAll(l.Path)
	case ServerData:
		return postgres.Demolish(ctx, l.Path)
	case Cgroup:
		return removeCgroup(ctx, l.Path)
	case Mount:
		err := unix.Unmount(l.Path, unix.MNT_DETACH)
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) {
			return nil // nothing is mounted there
		}
		return err
	default:
		return fmt.Errorf("kind %q is unknown", l.Kind)
	}
}
