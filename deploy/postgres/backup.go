package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

var (
	//go:embed sql/backup_start.sql
	backupStart string
	//go:embed sql/backup_stop.sql
	backupStop string
)

// backupLabel is the file that tells a server that its data is a backup, and where to begin to read its log.
const backupLabel = "backup_label"

// walFolder is the server's log. It is copied last: a backup is complete with all of it that was written until its end.
const walFolder = "pg_wal"

// notInBackup are a server's own, and mean nothing to whoever starts from the copy: its process, its slots, what it shares
// with its backends.
var notInBackup = []string{"postmaster.pid", "postmaster.opts", "pg_replslot", "pg_dynshmem", "pg_notify", "pg_serial", "pg_snapshots", "pg_stat_tmp", "pg_subtrans"}

// Backup copies the data of the running server to dir, which must not exist, by PostgreSQL's own procedure: between
// pg_backup_start and pg_backup_stop the files are copied as they change, and the log makes them one state. A server started
// from dir holds all that was committed before Backup returned, or most of what was committed meanwhile. dir must be where
// the server's account reaches it: beside DataFolder it is.
func (i *Instance) Backup(ctx context.Context, dir string) error {
	if err := i.backUp(ctx, dir); err != nil {
		return errors.Join(fmt.Errorf("back up %s: %w", i.name, err), removeTree(dir))
	}
	return nil
}

func (i *Instance) backUp(ctx context.Context, dir string) error {
	c, err := pgx.Connect(ctx, i.SuperURL("postgres"))
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx)) // a backup that was begun ends with its connection
	if _, err := c.Exec(ctx, backupStart, "fenceproof"); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	account := i.in.account
	if err := account.copyLive(ctx, dir, i.data, func(rel string) bool { return rel == walFolder || slices.Contains(notInBackup, rel) }); err != nil {
		return err
	}
	var label string
	if err := c.QueryRow(ctx, backupStop).Scan(&label); err != nil {
		return fmt.Errorf("end: %w", err)
	}
	file := filepath.Join(dir, backupLabel)
	if err := os.WriteFile(file, []byte(label), 0o600); err != nil {
		return fmt.Errorf("write the label: %w", err)
	}
	if err := account.own(file); err != nil {
		return err
	}
	wal := filepath.Join(dir, walFolder)
	if err := os.Remove(wal); err != nil {
		return fmt.Errorf("make room for the log: %w", err)
	}
	return account.copyLive(ctx, wal, filepath.Join(i.data, walFolder), func(string) bool { return false })
}

// copiers is how many files are copied at a time: there are a thousand small ones, and each waits for the disk.
const copiers = 8

// copyLive copies a directory while its server runs, and hands it to the account. Of a folder that skip names only the
// folder itself is made, of a file nothing. A file that goes away meanwhile is left out: the log makes up for it. When ctx ends
// no further file is begun.
func (a account) copyLive(ctx context.Context, dst, src string, skip func(rel string) bool) error {
	var files errgroup.Group
	files.SetLimit(copiers)
	err := filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, fs.ErrNotExist) && path != src {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dst, rel)
		switch {
		case d.IsDir():
			if err := os.Mkdir(to, 0o700); err != nil {
				return err
			}
			if skip(rel) {
				err = fs.SkipDir
			}
			if own := a.own(to); own != nil {
				return own
			}
			return err
		case skip(rel):
			return nil
		case d.Type().IsRegular():
			files.Go(func() error { return a.copyOne(to, path) })
			return nil
		}
		return fmt.Errorf("%s is neither file nor folder", path)
	})
	if err := errors.Join(err, files.Wait()); err != nil {
		return fmt.Errorf("copy %s: %w", src, err)
	}
	return nil
}

func (a account) copyOne(dst, src string) error {
	switch err := copyFile(dst, src); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return a.own(dst)
}

// ReplaceData puts the data directory dir, a Backup say, in the place of the instance's own, after Stop or Crash. What was
// there is gone afterwards, and so is dir.
func (i *Instance) ReplaceData(dir string) error {
	if i.Running() {
		return fmt.Errorf("replace the data of %s: its server is still running", i.name)
	}
	if _, err := os.Stat(filepath.Join(dir, "PG_VERSION")); err != nil {
		return fmt.Errorf("replace the data of %s: %s is no data directory: %w", i.name, dir, err)
	}
	if err := removeTree(i.data); err != nil {
		return fmt.Errorf("replace the data of %s: %w", i.name, err)
	}
	if err := os.Rename(dir, i.data); err != nil {
		return fmt.Errorf("replace the data of %s: %w", i.name, err)
	}
	return nil
}
