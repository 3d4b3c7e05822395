package postgres

import (
	"bufio"
	"context"
	_ "embed" // the statements
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

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

// How a server speaks of ENOSPC: in its log, and to whoever asks for room (disk_full).
const (
	noSpace  = "No space left on device"
	diskFull = "53100"
)

const (
	// roomLimit bounds how much room is asked for, and how many segments of the log are used up: far more than a volume has.
	roomLimit = 64
	// page is what the server writes at once: with less than that free it has room for nothing.
	page = 8192
	// freeAgain is how long is waited before it is asked again what was answered with something else.
	freeAgain = 20 * time.Millisecond
)

// executor is what the server is asked for room over.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Fill fills the volume to its last byte, and gives what was seen: that nothing is free, and how the server refused to write
// for want of room. It is an error when the server goes on writing.
func (i *Instance) Fill(ctx context.Context) (seen string, err error) {
	if i.volume == nil {
		return "", fmt.Errorf("fill the volume of %s: %w", i.name, errNoVolume)
	}
	v := i.volume
	v.mark = size(i.log)
	if v.open, err = i.ask(ctx); err != nil {
		return "", fmt.Errorf("fill the volume of %s: %w", i.name, err)
	}
	if seen, err = i.full(ctx); err != nil {
		return "", fmt.Errorf("fill the volume of %s: %w", i.name, err)
	}
	return seen, nil
}

// KeepFull fills what has become free on a full volume: the server recycles segments of its log.
func (i *Instance) KeepFull(ctx context.Context) error {
	if i.volume == nil || i.volume.open == nil {
		return fmt.Errorf("keep the volume of %s full: %w, or it is not full", i.name, errNoVolume)
	}
	if err := i.volume.fill(ctx); err != nil {
		return fmt.Errorf("keep the volume of %s full: %w", i.name, err)
	}
	return nil
}

// Full gives what is to be seen of a volume that is kept full: that nothing is free, and how the server refuses to write. It
// is an error when the server writes all the same, or refuses for another reason.
func (i *Instance) Full(ctx context.Context) (seen string, err error) {
	if i.volume == nil || i.volume.open == nil {
		return "", fmt.Errorf("see that the volume of %s is full: %w, or it is not full", i.name, errNoVolume)
	}
	if seen, err = i.full(ctx); err != nil {
		return "", fmt.Errorf("see that the volume of %s is full: %w", i.name, err)
	}
	return seen, nil
}

// full fills, asks for room and looks what is free, until there is nothing and the server has said so.
func (i *Instance) full(ctx context.Context) (string, error) {
	v := i.volume
	for {
		if err := v.fill(ctx); err != nil {
			return "", err
		}
		refused, refusal := i.refused(ctx, v.open)
		free, err := v.free()
		switch {
		case err != nil:
			return "", err
		case refusal == nil && free < page:
			return fmt.Sprintf("%d of %d bytes are free; asked to write, the server: %s", free, v.bytes, refused), nil
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(fmt.Errorf("%d of %d bytes are free, and the server was not seen to have no room", free, v.bytes), refusal)
		case <-time.After(freeAgain):
		}
	}
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

// refused has the server write until it cannot for want of room, and says how it put that: in its answer, or in its log where
// it ended instead of answering. Any other refusal is an error, as is none.
func (i *Instance) refused(ctx context.Context, open executor) (string, error) {
	for range roomLimit {
		_, err := open.Exec(ctx, takeRoom)
		var answer *pgconn.PgError
		switch {
		case err == nil:
		case errors.As(err, &answer) && answer.Code == diskFull:
			return answer.Error(), nil
		default:
			if line := i.wrote("PANIC", "FATAL"); line != "" {
				return line, nil
			}
			return "", err
		}
	}
	return "", errors.New("the server goes on writing")
}

// wrote is the first line of the log, since the volume began to be filled, that has one of the words and says that there is no
// space; empty where there is none.
func (i *Instance) wrote(words ...string) string {
	f, err := os.Open(i.log)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewReader(io.NewSectionReader(f, i.volume.mark, 1<<62))
	for {
		line, err := lines.ReadString('\n')
		for _, word := range words {
			if strings.Contains(line, noSpace) && strings.Contains(line, word) {
				return strings.TrimSpace(line)
			}
		}
		if err != nil {
			return ""
		}
	}
}

// ExhaustLog has the server begin new segments of its write-ahead log on a full volume, until it has none left: it panics,
// recovers, finds no room to say so, and gives up. The result is what it wrote of that and how it ended; it is an error when
// it did not end.
func (i *Instance) ExhaustLog(ctx context.Context) (seen string, err error) {
	if i.volume == nil || i.volume.open == nil {
		return "", fmt.Errorf("use up the log of %s: %w, or it is not full", i.name, errNoVolume)
	}
	for n := 0; err == nil && n < roomLimit; n++ {
		_, err = i.volume.open.Exec(ctx, nextSegment)
	}
	for {
		select {
		case <-i.proc.Done():
			if line := i.wrote("PANIC"); line != "" {
				return line + "; then it gave up: " + i.proc.Status(), nil
			}
			return "", fmt.Errorf("use up the log of %s: it ended (%s) without a word of that", i.name, i.proc.Status())
		case <-ctx.Done():
			return "", errors.Join(fmt.Errorf("use up the log of %s: it has not ended; of a panic it says %q: %w", i.name, i.wrote("PANIC"), context.Cause(ctx)), err)
		case <-time.After(look):
		}
	}
}

// fill writes the filler until the file system has no room for a single byte more.
func (v *volume) fill(ctx context.Context) error {
	f, err := os.OpenFile(filepath.Join(v.path(), filler), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		if err = context.Cause(ctx); err != nil {
			break
		}
		if _, err = f.Write(chunk); errors.Is(err, syscall.ENOSPC) {
			chunk, err = chunk[:len(chunk)/2], nil
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, f.Close())
}
