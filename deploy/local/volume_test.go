package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fenceproof/deploy/postgres"
	"fenceproof/deploy/process"

	"github.com/jackc/pgx/v5"
)

// volumeVariable has the harness of a test fill the volume of lockdb.
const volumeVariable = "LOCAL_TEST_VOLUME"

// smallVolume is what these tests fill, in bytes.
const smallVolume = 128 << 20

// onVolume is a small stack of locks alone whose lockdb is on a volume.
func onVolume(c Config) Config {
	c.Executors, c.LocksOnly, c.Volumes = 0, true, map[string]int64{LockDB: smallVolume}
	return c
}

// actAsFullHarness boots such a stack and fills its volume. It returns what the test waits to read.
func actAsFullHarness(dir string) string {
	ctx := context.Background()
	in, err := postgres.Prepare(ctx, nil)
	if err != nil {
		return err.Error()
	}
	s, err := Boot(ctx, onVolume(Config{RunDir: dir, BinDir: os.Getenv("LOCAL_TEST_BIN"), Postgres: in}))
	if err != nil {
		return err.Error()
	}
	v, err := s.Volume(LockDB)
	if err != nil {
		return err.Error()
	}
	if _, err := v.Fill(ctx); err != nil {
		return err.Error()
	}
	d := s.databases[LockDB]
	return fmt.Sprintln("ready", d.DataFolder(), s.warden.InView(d.DataFolder()))
}

// mounts is what is mounted on the machine as this process sees it.
func mounts(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// accepts writes a row as the system does, and gives the server's refusal.
func accepts(ctx context.Context, t *testing.T, s *Stack) error {
	t.Helper()
	url, err := s.SuperURL(LockDB)
	if err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, "CREATE TABLE IF NOT EXISTS big AS SELECT repeat('x', 100) a FROM generate_series(1, 20000)")
	return err
}

func TestAFullVolumeRefusesWritesUntilItIsFreed(t *testing.T) {
	before := mounts(t)
	s := boot(t, onVolume(config(t)))
	if mounts(t) != before {
		t.Error("the volume is mounted where the rest of the machine can see it")
	}
	v, err := s.Volume(LockDB)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := v.Fill(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Log(seen)
	if !strings.Contains(seen, "0 of 134217728 bytes are free") || !strings.Contains(seen, "53100") {
		t.Errorf("seen: %s", seen)
	}
	if err := accepts(t.Context(), t, s); err == nil || !strings.Contains(err.Error(), "53100") {
		t.Errorf("a write on a full volume: %v", err)
	}
	// What the server gives back is filled again; the one that is asked to look sees to that.
	if err := os.Remove(filepath.Join(s.warden.InView(s.databases[LockDB].DataFolder()), "filler")); err != nil {
		t.Fatal(err)
	}
	if err := v.KeepFull(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, err := v.Full(t.Context()); err != nil || !strings.Contains(again, "0 of 134217728 bytes are free") {
		t.Errorf("of the volume that was filled again it says %q, %v", again, err)
	}
	if err := v.Free(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Full(t.Context()); err == nil {
		t.Error("a volume that was freed is full")
	}
	if err := errors.Join(v.Writes(t.Context()), accepts(t.Context(), t, s)); err != nil {
		t.Errorf("a write after the volume was freed: %v", err)
	}
}

func TestAServerWhoseLogHasNoRoomEndsAndComesBackWithWhatItHad(t *testing.T) {
	s := boot(t, onVolume(config(t)))
	if err := accepts(t.Context(), t, s); err != nil {
		t.Fatal(err)
	}
	v, err := s.Volume(LockDB)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen, err := v.ExhaustLog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Log(seen)
	if !strings.Contains(seen, "PANIC") || !strings.Contains(seen, "No space left on device") {
		t.Errorf("seen: %s", seen)
	}
	p, err := s.Process(LockDB)
	if err != nil {
		t.Fatal(err)
	}
	if p.Running() {
		t.Error("the server is taken for ended, and lives")
	}
	if seen, err := v.Full(t.Context()); err != nil || !strings.Contains(seen, "PANIC") {
		t.Errorf("of the volume that is full still it says %q, %v", seen, err)
	}
	if died := s.Died(); len(died) > 0 {
		t.Errorf("%+v is taken for a death that nobody asked for", died)
	}
	if err := v.Free(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := v.Writes(t.Context()); err != nil {
		t.Fatal(err)
	}
	url, err := s.SuperURL(LockDB)
	if err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	var n int
	if err := c.QueryRow(t.Context(), "SELECT count(*) FROM big").Scan(&n); err != nil || n != 20000 {
		t.Errorf("%d rows of 20000 are left, %v", n, err)
	}
}

func TestDataOnAVolumeIsKeptWhereARunOnTheDiskKeepsIt(t *testing.T) {
	c := onVolume(config(t))
	s, err := Boot(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	s.KeepData()
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(c.RunDir, "data", LockDB)
	for _, name := range []string{"PG_VERSION", "global/pg_control", "pg_wal"} {
		if _, err := os.Stat(filepath.Join(home, name)); err != nil {
			t.Error(err)
		}
	}
	if err := RemoveData(context.Background(), c.RunDir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after RemoveData: %v", err)
	}
}

func TestNothingOfAFullVolumeOutlivesAHarnessThatIsKilled(t *testing.T) {
	before := mounts(t)
	dir := runDir(t)
	harness, out := startHarness(t, dir, volumeVariable+"=1")
	f := awaitStack(t, out)
	data, inside := f[0], f[1]
	if info, err := os.Stat(filepath.Join(inside, "filler")); err != nil || info.Size() == 0 {
		t.Fatalf("the volume is not full: %v", err)
	}
	key := segmentKey(t, inside)
	all, err := process.Descendants(harness.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := harness.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	harness.Wait() // it was killed, and says so
	if err := process.AwaitGone(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if segmentExists(t, key) {
		t.Error("the server's shared memory is still there")
	}
	if mounts(t) != before {
		t.Errorf("a mount is left:\n%s", mounts(t))
	}
	for _, path := range []string{data, filepath.Join(dir, "data", LockDB)} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "logs", "warden.log")); err != nil || len(text) > 0 {
		t.Errorf("the warden complained: %s %v", text, err)
	}
}
