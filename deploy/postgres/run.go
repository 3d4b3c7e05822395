package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"fenceproof/deploy/port"
	"fenceproof/deploy/process"

	"github.com/jackc/pgx/v5"
)

// Limits of starting and stopping: far beyond what either takes, so that only a hang meets them.
const (
	startLimit = 30 * time.Second
	stopLimit  = 10 * time.Second
	tryLimit   = 2 * time.Second
	look       = 5 * time.Millisecond
)

// portAttempts bounds how often a first start is tried on another port.
const portAttempts = 5

// Start starts the server and returns when it answers queries, after crash recovery where that is due. A server that
// ends instead is an error with the end of its log. The port is the same each time.
func (i *Instance) Start(ctx context.Context) error {
	if i.Running() {
		return fmt.Errorf("start %s: it is running", i.name)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for attempt := 1; ; attempt++ {
		taken, err := i.startOnce(ctx)
		if err == nil {
			i.hadPort = true
			return nil
		}
		if !taken || i.hadPort || attempt == portAttempts {
			return fmt.Errorf("start %s: %w", i.name, err)
		}
		if err := i.movePort(); err != nil {
			return fmt.Errorf("start %s: %w", i.name, err)
		}
	}
}

// movePort takes another port, before any client knows the present one.
func (i *Instance) movePort() error {
	next, err := port.Reserve()
	if err != nil {
		return err
	}
	old := i.port
	i.port = next
	return old.Release()
}

// startOnce tells as well whether it failed because somebody else listens on the port.
func (i *Instance) startOnce(ctx context.Context) (taken bool, err error) {
	c := i.command()
	logStart := size(i.log)
	if i.proc, err = i.launcher.Launch(ctx, c); err != nil {
		return false, err
	}
	if err = i.awaitReady(ctx); err == nil {
		return false, nil
	}
	if i.Running() {
		return false, errors.Join(err, i.Crash(context.WithoutCancel(ctx)))
	}
	text := since(i.log, logStart)
	return strings.Contains(text, "Address already in use"), fmt.Errorf("%w\n%s", err, text)
}

// awaitReady connects until the server answers.
func (i *Instance) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		err := i.ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-i.proc.Done():
			return fmt.Errorf("its server ended: %s", i.proc.Status())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("it does not answer: %w", context.Cause(ctx)), err)
		case <-tick.C:
		}
	}
}

func (i *Instance) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	c, err := pgx.Connect(ctx, i.SuperURL("postgres"))
	if err != nil {
		return err
	}
	return errors.Join(c.Ping(ctx), c.Close(ctx))
}

// Process is the postmaster as it was started last; nil before the first start.
func (i *Instance) Process() process.Process { return i.proc }

// Running tells whether the server's first process lives.
func (i *Instance) Running() bool {
	if i.proc == nil {
		return false
	}
	select {
	case <-i.proc.Done():
		return false
	default:
		return true
	}
}

// Stop ends the server in order: transactions are rolled back, a checkpoint is written, no recovery is due.
func (i *Instance) Stop(ctx context.Context) error {
	if !i.Running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if err := process.Stop(ctx, i.proc, syscall.SIGINT); err != nil {
		return fmt.Errorf("stop %s: %w", i.name, err)
	}
	return nil
}

// Crash ends all processes of the server with SIGKILL, as a loss of power would, and waits until all are gone and the
// machine has its memory back: the data directory may be replaced by another then. What was committed is there after the
// next Start. Where the first process ended by itself, others may be at work still, and commit: they are ended as well.
func (i *Instance) Crash(ctx context.Context) error {
	if i.proc == nil {
		return nil
	}
	var err error
	if i.Running() {
		err = process.Kill(ctx, i.proc)
	}
	if err = errors.Join(err, killServer(ctx, i.data), removeSharedMemory(i.view())); err != nil {
		return fmt.Errorf("crash %s: %w", i.name, err)
	}
	return nil
}

// Pause stops every process of the server and returns when all are seen stopped.
func (i *Instance) Pause(ctx context.Context) error {
	if err := process.Pause(ctx, i.proc); err != nil {
		return fmt.Errorf("pause %s: %w", i.name, err)
	}
	return nil
}

// Resume lets the processes of a paused server run on.
func (i *Instance) Resume(ctx context.Context) error {
	if err := process.Resume(ctx, i.proc); err != nil {
		return fmt.Errorf("resume %s: %w", i.name, err)
	}
	return nil
}

// CreateDatabase creates the role owner, unless it exists, and a database that belongs to it.
func (i *Instance) CreateDatabase(ctx context.Context, name, owner string) error {
	c, err := pgx.Connect(ctx, i.SuperURL("postgres"))
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	defer c.Close(context.WithoutCancel(ctx)) // the answers have been read; a failed good-bye changes nothing
	var exists bool
	if err := c.QueryRow(ctx, roleExists, owner).Scan(&exists); err != nil {
		return fmt.Errorf("look for role %s: %w", owner, err)
	}
	role, database := pgx.Identifier{owner}.Sanitize(), pgx.Identifier{name}.Sanitize()
	if !exists {
		if _, err := c.Exec(ctx, "CREATE ROLE "+role+" LOGIN"); err != nil {
			return fmt.Errorf("create role %s: %w", owner, err)
		}
	}
	if _, err := c.Exec(ctx, "CREATE DATABASE "+database+" OWNER "+role); err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// size is the length of a log, 0 where there is none.
func size(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// since is what was written to a log after the given length.
func since(file string, from int64) string {
	if file == "" {
		return "(its log was not kept)"
	}
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, from, 1<<16))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}
