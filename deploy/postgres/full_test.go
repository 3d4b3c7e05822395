package postgres

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// answers is a server that answers so each time.
type answers struct{ err error }

func (a answers) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, a.err
}

func TestOnlyARefusalForWantOfRoomShowsAFullDisk(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	lines := []string{
		"ERROR:  could not extend file \"base/5/1\": No space left on device\n", // from before the volume was filled
		"FATAL:  could not write init file: No space left on device\n",
		"PANIC:  could not write to file \"pg_wal/xlogtemp.7\": No space left on device\n",
	}
	broken := errors.New("unexpected EOF")
	for _, c := range []struct {
		name   string
		answer error
		log    string // since it was filled
		seen   string // empty for none
	}{
		{"it writes", nil, "", ""},
		{"no room", &pgconn.PgError{Code: "53100", Message: "could not extend file"}, "", "53100"},
		{"cancelled", &pgconn.PgError{Code: "57014"}, "", ""},
		{"shut down by somebody", &pgconn.PgError{Code: "57P01"}, "", ""},
		{"could not serialise", &pgconn.PgError{Code: "40001"}, "", ""},
		{"the connection broke, and nobody knows why", broken, "LOG:  checkpoint starting\n", ""},
		{"the connection broke by a panic", broken, "LOG:  x\n" + lines[2], "PANIC"},
		{"the connection broke, and there is no room", broken, lines[1], "FATAL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(log, []byte(lines[0]+lines[1]+c.log), 0o600); err != nil {
				t.Fatal(err)
			}
			i := &Instance{log: log, volume: &volume{mark: int64(len(lines[0] + lines[1]))}}
			seen, err := i.refused(t.Context(), answers{c.answer})
			if (c.seen == "") != (err != nil) || !strings.Contains(seen, c.seen) {
				t.Errorf("seen is %q, %v; want %q", seen, err, c.seen)
			}
		})
	}
}

// The line that matters may come after more than anybody would keep in memory.
func TestTheLineOfAPanicIsFoundBehindManyOthers(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	text := strings.Repeat("FATAL:  the database system is in recovery mode\n", 5000) + "PANIC:  could not write: No space left on device\n"
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	i := &Instance{log: log, volume: &volume{}}
	if got := i.wrote("PANIC"); !strings.HasPrefix(got, "PANIC") {
		t.Errorf("it is %q", got)
	}
}
