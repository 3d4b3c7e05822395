package postgres

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A backup is taken while somebody writes, and is the state of its end: all that was committed before it began, nothing of
// what was committed after it had ended.
func TestAServerThatIsPutBackKnowsNothingOfWhatCameAfterItsBackup(t *testing.T) {
	i := instance(t)
	statement(t, i, "CREATE SEQUENCE token")
	statement(t, i, "CREATE TABLE granted (token bigint)")
	statement(t, i, "INSERT INTO granted SELECT nextval('token') FROM generate_series(1, 500)")
	before := value[int64](t, i, "SELECT last_value FROM token")

	busy, stop := context.WithCancel(t.Context())
	defer stop()
	wrote, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- writeUntil(busy, i, wrote) }()
	<-wrote
	copied := i.DataFolder() + ".backup"
	t.Cleanup(func() { _ = os.RemoveAll(copied) }) // where the test ends early
	if err := i.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	statement(t, i, "INSERT INTO granted SELECT nextval('token') FROM generate_series(1, 5000)")
	statement(t, i, "CREATE TABLE later (n int)")
	after := value[int64](t, i, "SELECT last_value FROM token")

	if err := i.ReplaceData(copied); err == nil {
		t.Error("the data of a running server was replaced")
	}
	if err := i.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := i.ReplaceData(copied); err != nil {
		t.Fatal(err)
	}
	if err := i.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A server that has crashed may have a sequence 32 further than it had come: so many values are logged ahead.
	if at := value[int64](t, i, "SELECT last_value FROM token"); at < before || at > after-5000+32 {
		t.Errorf("the sequence stands at %d; it stood at %d before the backup and at %d long after it", at, before, after)
	}
	if n := value[int64](t, i, "SELECT count(*) FROM granted WHERE token <= "+strconv.FormatInt(before, 10)); n != 500 {
		t.Errorf("%d of the 500 rows from before the backup are there", n)
	}
	if value[bool](t, i, "SELECT to_regclass('later') IS NOT NULL") {
		t.Error("a table that was made after the backup is there")
	}
	if slots := value[int64](t, i, "SELECT count(*) FROM pg_replication_slots"); slots != 0 {
		t.Errorf("%d slots came with the backup", slots)
	}
	if _, err := os.Stat(copied); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the backup is still there: %v", err)
	}
}

// A copy takes as long as the disk wants. Whoever has no time for it any more does not wait for all of it.
func TestACopyEndsWithTheTimeForIt(t *testing.T) {
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(src, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, end := context.WithCancel(t.Context())
	err := account{}.copyLive(ctx, dst, src, func(rel string) bool {
		if rel == "a" {
			end()
		}
		return false
	})
	if _, there := os.Stat(filepath.Join(dst, "b")); !errors.Is(err, context.Canceled) || there == nil {
		t.Errorf("the copy went on: %v", err)
	}
}

// writeUntil commits one row after the other until ctx ends; wrote is closed after the first.
func writeUntil(ctx context.Context, i *Instance, wrote chan struct{}) error {
	c, err := pgx.Connect(ctx, i.SuperURL("postgres"))
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for n := 0; ; n++ {
		if _, err := c.Exec(ctx, "INSERT INTO granted SELECT nextval('token') FROM generate_series(1, 20)"); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if n == 0 {
			close(wrote)
		}
	}
}
