// Package migrate applies a schema history named as C1 1.8 names it (V<n>__<imperative>.sql) with goose.
package migrate

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"testing/fstest"

	_ "github.com/jackc/pgx/v5/stdlib" // the "pgx" driver of database/sql
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// table is the history's table in each database.
const table = "schema_history"

// How often, in seconds, and how many times the lock is asked for that another migration holds.
const (
	lockPeriod = 1
	lockTries  = 60
)

var fileName = regexp.MustCompile(`^V([1-9][0-9]*)__([a-z0-9_]+)\.sql$`)

// Up applies every file of history (a folder of V<n>__<imperative>.sql) that the database at url lacks, each in a
// transaction of its own. Two at once wait for one another.
func Up(ctx context.Context, url string, history fs.FS, log *slog.Logger) error {
	files, err := gooseFiles(history)
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		return fmt.Errorf("open the database to migrate: %w", err)
	}
	defer db.Close()
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(lockPeriod, lockTries))
	if err != nil {
		return fmt.Errorf("prepare the migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName(table), goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	done, err := p.Up(ctx)
	for _, d := range done {
		log.Info("migration applied", "event", "migrated", "version", d.Source.Version, "file", d.Source.Path)
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// gooseFiles shows history under the names and with the marks that goose wants. A file is one statement to goose, so
// that function bodies need no marks of their own.
func gooseFiles(history fs.FS) (fs.FS, error) {
	entries, err := fs.ReadDir(history, ".")
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	out := fstest.MapFS{}
	for _, e := range entries {
		m := fileName.FindStringSubmatch(e.Name())
		if m == nil {
			return nil, fmt.Errorf("migration %s is not named V<n>__<what_it_does>.sql", e.Name())
		}
		body, err := fs.ReadFile(history, e.Name())
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", e.Name(), err)
		}
		text := bytes.Join([][]byte{[]byte("-- +goose Up\n-- +goose StatementBegin"), body, []byte("-- +goose StatementEnd\n")}, []byte("\n"))
		out[fmt.Sprintf("%s_%s.sql", m[1], m[2])] = &fstest.MapFile{Data: text}
	}
	if len(out) == 0 {
		return nil, errors.New("there are no migrations")
	}
	return out, nil
}
