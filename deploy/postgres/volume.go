package postgres

import (
	"context"
	_ "embed" // the statements
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"fenceproof/deploy/process"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

// Keep copies what is on the volume to the disk, after Stop: the volume goes with the run. An instance without one needs
// no keeping.
func (i *Instance) Keep() error {
	if i.volume == nil {
		return nil
	}
	if err := i.in.account.copyTree(i.data, i.view()+"/."); err != nil {
		return fmt.Errorf("keep the data of %s, which is on a volume: %w", i.name, err)
	}
	return i.in.account.own(i.data)
}

// errNoVolume says that there is nothing to fill.
var errNoVolume = errors.New("its data has no volume of its own")

// What a server is asked for room with, in a database that the system has no part in. What the table holds is not logged:
// where the log has no room left the server does not answer, it ends.
var (
	//go:embed sql/room_make.sql
	makeRoom string
	//go:embed sql/room_take.sql
	takeRoom string
	//go:embed sql/room_give_back.sql
	giveRoomBack string
	//go:embed sql/next_segment.sql
	nextSegment string
)

// noSpace is how a server's log speaks of ENOSPC.
const noSpace = "No space left on device"

// roomLimit bounds how much room is asked for, and how many segments of the log are used up: far more than a volume has.
const roomLimit = 64

// Fill fills the volume to its last byte, and gives what was seen: that nothing is free, and what the server answered when
// it was asked to write. It is an error when the server goes on writing.
func (i *Instance) Fill(ctx context.Context) (seen string, err error) {
	if i.volume == nil {
		return "", fmt.Errorf("fill the volume of %s: %w", i.name, errNoVolume)
	}
	v := i.volume
	v.mark = size(i.log)
	if v.open, err = i.ask(ctx); err != nil {
		return "", fmt.Errorf("fill the volume of %s: %w", i.name, err)
	}
	if err = v.fill(); err != nil {
		return "", fmt.Errorf("fill the volume of %s: %w", i.name, err)
	}
	refused := i.refusal(ctx, takeRoom)
	free, err := v.free()
	switch {
	case err != nil:
		return "", fmt.Errorf("fill the volume of %s: %w", i.name, err)
	case refused == "":
		return "", fmt.Errorf("fill the volume of %s: %d of %d bytes are free, and the server goes on writing", i.name, free, v.bytes)
	}
	return fmt.Sprintf("%d of %d bytes are free; asked to write, the server: %s", free, v.bytes, refused), nil
}

// ask opens a session and has it write a row, while there is room: everything that it needs besides room it has then.
func (i *Instance) ask(ctx context.Context) (*pgx.Conn, error) {
	c, err := pgx.Connect(ctx, i.SuperURL(superuser))
	if err != nil {
		return nil, err
	}
	for _, sql := range []string{makeRoom, takeRoom, giveRoomBack} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return nil, errors.Join(err, c.Close(ctx))
		}
	}
	return c, nil
}

// refusal has the server do something until it cannot, and says how it put that, in its answer or in its log; empty when
// it could each time.
func (i *Instance) refusal(ctx context.Context, sql string) string {
	for range roomLimit {
		_, err := i.volume.open.Exec(ctx, sql)
		var answer *pgconn.PgError
		switch {
		case err == nil:
		case errors.As(err, &answer):
			return answer.Error()
		default:
			return i.lastWords(ctx)
		}
	}
	return ""
}

// lastWords is the line of the log that says that there is no space. The server writes it before it breaks a connection;
// whoever writes it down may be behind.
func (i *Instance) lastWords(ctx context.Context) string {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		for line := range strings.Lines(since(i.log, i.volume.mark)) {
			if strings.Contains(line, noSpace) && (strings.Contains(line, "PANIC") || strings.Contains(line, "FATAL")) {
				return strings.TrimSpace(line)
			}
		}
		select {
		case <-ctx.Done():
			return ""
		case <-tick.C:
		}
	}
}

// ExhaustLog has the server begin new segments of its write-ahead log on a full volume, until it has none left: it panics,
// recovers, finds no room to say so, and gives up. The result is what it wrote of that.
func (i *Instance) ExhaustLog(ctx context.Context) (seen string, err error) {
	if i.volume == nil || i.volume.open == nil {
		return "", fmt.Errorf("use up the log of %s: %w, or it is not full", i.name, errNoVolume)
	}
	if seen = i.refusal(ctx, nextSegment); seen == "" {
		return "", fmt.Errorf("use up the log of %s: it goes on writing: %w", i.name, context.Cause(ctx))
	}
	return seen, nil
}

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

// fill writes the filler until the file system has no room for a single byte more.
func (v *volume) fill() error {
	f, err := os.OpenFile(filepath.Join(v.path(), filler), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		if _, err = f.Write(chunk); errors.Is(err, syscall.ENOSPC) {
			chunk, err = chunk[:len(chunk)/2], nil
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, f.Close())
}

// free is how many bytes the file system has left.
func (v *volume) free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(v.dir.Fd()), &st); err != nil {
		return 0, fmt.Errorf("ask how much is free: %w", err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}
