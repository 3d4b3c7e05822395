package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"fenceproof/deploy/process"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// Volume is a file system of its own for an instance's data, small enough to be filled.
type Volume struct {
	// Bytes is its size. A fresh data directory takes 40 MB of it, each segment of the write-ahead log 16 MB.
	Bytes int64
	// Mount mounts it on a folder that exists, for the user that the server runs as (nil for ourselves), where the server
	// will find it, and gives the folder as the server sees it.
	Mount func(folder string, bytes int64, owner *process.User) (*os.File, error)
}

// volumeSettings keep the write-ahead log of a server on a volume small, and leave it hardly any segments in reserve.
var volumeSettings = map[string]string{"max_wal_size": "64MB", "min_wal_size": "32MB"}

// filler is the file that fills a volume. The server takes no notice of it.
const filler = "filler"

// volume is an instance's volume as it stands.
type volume struct {
	dir   *os.File // the folder as the server sees it
	bytes int64
	open  *pgx.Conn // the session that asks the server for room; nil where there is none
	mark  int64     // how long the log was when the volume began to be filled
}

// path is where we find what the server finds in its data directory.
func (v *volume) path() string { return fmt.Sprintf("/proc/self/fd/%d", v.dir.Fd()) }

// view is the data directory as we can get at it.
func (i *Instance) view() string {
	if i.volume == nil {
		return i.data
	}
	return i.volume.path()
}

// mountVolume puts the data directory on a volume of its own.
func (i *Instance) mountVolume(v *Volume) error {
	if v == nil {
		return nil
	}
	if err := os.Mkdir(i.data, 0o700); err != nil {
		return fmt.Errorf("make a place for the volume: %w", err)
	}
	dir, err := v.Mount(i.data, v.Bytes, i.in.user())
	if err != nil {
		return err
	}
	i.volume = &volume{dir: dir, bytes: v.Bytes}
	return nil
}

// Keep gives back all that an instance holds but its data, after Stop or Crash. What is on a volume it copies to the disk, as the
// volume goes with the run.
func (i *Instance) Keep() error {
	if i.volume == nil {
		return i.port.Release()
	}
	if err := i.in.account.copyTree(i.data, i.view()+"/."); err != nil {
		return fmt.Errorf("keep the data of %s, which is on a volume: %w", i.name, err)
	}
	err := i.volume.dir.Close()
	i.volume = nil
	return errors.Join(err, i.in.account.own(i.data), i.port.Release())
}

// errNoVolume says that there is nothing to fill.
var errNoVolume = errors.New("its data has no volume of its own")

// Free takes the filler away. It may be tried again.
func (i *Instance) Free(ctx context.Context) error {
	if i.volume == nil {
		return fmt.Errorf("free the volume of %s: %w", i.name, errNoVolume)
	}
	v := i.volume
	if v.open != nil {
		_ = v.open.Close(ctx) // it may be broken: the server may have ended
		v.open = nil
	}
	if err := os.Remove(filepath.Join(v.path(), filler)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("free the volume of %s: %w", i.name, err)
	}
	free, err := v.free()
	if err != nil {
		return fmt.Errorf("free the volume of %s: %w", i.name, err)
	}
	if free == 0 {
		return fmt.Errorf("free the volume of %s: without the filler it is still full: %d bytes are too few for this run", i.name, v.bytes)
	}
	return nil
}

// Writes is nil when the server writes what it is asked to.
func (i *Instance) Writes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	c, err := i.ask(ctx)
	if err != nil {
		return fmt.Errorf("have %s write something: %w", i.name, err)
	}
	return c.Close(ctx)
}

// free is how many bytes the file system has left.
func (v *volume) free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(v.dir.Fd()), &st); err != nil {
		return 0, fmt.Errorf("ask how much is free: %w", err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}
