package postgres

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fenceproof/deploy/process"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var prepared = sync.OnceValues(func() (*Installation, error) { return Prepare(context.Background(), nil) })

// instance starts a server in a folder of the test's own.
func instance(t *testing.T) *Instance {
	t.Helper()
	in, err := prepared()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	i, err := in.Create(Options{Name: "ledger", Folder: filepath.Join(home, "data"), Log: filepath.Join(home, "log"),
		Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(i.Crash(context.Background()), i.Remove()); err != nil {
			t.Error(err)
		}
	})
	if err := i.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i
}

// statement runs a statement as the superuser.
func statement(t *testing.T, i *Instance, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), i.SuperURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// value runs a query as the superuser and gives back its one value.
func value[V any](t *testing.T, i *Instance, sql string) (v V) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), i.SuperURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// servers are all processes of the instance, those in sessions of their own too.
func servers(t *testing.T, i *Instance) []int {
	t.Helper()
	pids, err := process.WorkingIn(i.DataFolder(), "postgres")
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func TestWhatWasCommittedIsThereAfterACrash(t *testing.T) {
	i := instance(t)
	statement(t, i, "CREATE TABLE paid AS SELECT 1 AS n")
	before, port := servers(t, i), i.Port()
	if len(before) < 4 {
		t.Fatalf("the server has processes %v only", before)
	}
	if err := i.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if i.Running() || len(servers(t, i)) != 0 {
		t.Errorf("after the crash %v still run", servers(t, i))
	}
	if err := i.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if i.Port() != port {
		t.Errorf("the port moved from %d to %d", port, i.Port())
	}
	if n := value[int](t, i, "SELECT n FROM paid"); n != 1 {
		t.Errorf("got %d", n)
	}
}

func TestAServerIsDurableAndDecodesItsLog(t *testing.T) {
	i := instance(t)
	for name, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "wal_level": "logical", "dynamic_shared_memory_type": "mmap",
		"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "server_encoding": "UTF8", "TimeZone": "UTC",
	} {
		if got := value[string](t, i, "SELECT current_setting('"+name+"')"); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	slot := value[string](t, i, "SELECT slot_name FROM pg_create_logical_replication_slot('witness', 'pgoutput')")
	if slot != "witness" {
		t.Errorf("the slot is %q", slot)
	}
}

func TestAPausedServerHasNoProcessThatRuns(t *testing.T) {
	i := instance(t)
	c, err := pgx.Connect(t.Context(), i.SuperURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := i.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	pids := servers(t, i)
	for _, pid := range pids {
		if s, err := process.ReadStat(pid); err != nil || s.State != 'T' {
			t.Errorf("process %d is in state %c, %v", pid, s.State, err)
		}
	}
	if err := i.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("the connection did not survive the pause: %v", err)
	}
	if err := errors.Join(i.Pause(t.Context()), i.Crash(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if !process.Gone(pid) {
			t.Errorf("process %d survived the crash of a paused server", pid)
		}
	}
}

func TestNothingOfACrashedServerStays(t *testing.T) {
	i := instance(t)
	text, err := os.ReadFile(filepath.Join(i.DataFolder(), "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	key, id, ok := segment(string(text))
	if !ok || !segmentExists(t, key, id) {
		t.Fatalf("the running server has no System V segment: %s", text)
	}
	if err := i.Remove(); err == nil {
		t.Error("a running server was removed")
	}
	if err := i.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if segmentExists(t, key, id) { // whoever replaces the data directory now takes away the file that names it
		t.Errorf("System V segment %d is still there", id)
	}
	if err := i.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(i.DataFolder()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory is still there: %v", err)
	}
}

// A backend that never looks up does not notice that the first process has gone, and what it is at may still be committed.
func TestNothingStaysOfAServerWhoseFirstProcessEndedByItself(t *testing.T) {
	i := instance(t)
	c, err := pgx.Connect(t.Context(), i.SuperURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	busy := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.WithoutCancel(t.Context()), "DO $$ BEGIN LOOP END LOOP; END $$")
		busy <- err
	}()
	for deadline := time.Now().Add(20 * time.Second); value[int](t, i, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'DO %'") == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the backend is not seen at work")
		}
	}
	if err := syscall.Kill(i.Process().Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-i.Process().Done()
	if pids, err := process.WorkingIn(i.DataFolder(), "postgres"); err != nil || len(pids) == 0 {
		t.Fatalf("nothing is left that would have to be ended: %v", err)
	}
	if err := i.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pids, err := process.WorkingIn(i.DataFolder(), "postgres"); err != nil || len(pids) != 0 {
		t.Errorf("processes %d are left: %v", pids, errors.Join(err, process.KillAll(context.Background(), pids)))
	}
	if err := <-busy; err == nil {
		t.Error("the statement came to an end")
	}
}

func segmentExists(t *testing.T, key int32, id int) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if f[0] == strconv.Itoa(int(key)) && f[1] == strconv.Itoa(id) {
			return true
		}
	}
	return false
}

func TestAnotherServersSegmentIsLeftAlone(t *testing.T) {
	i := instance(t)
	data := t.TempDir()
	text, err := os.ReadFile(filepath.Join(i.DataFolder(), "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	key, id, _ := segment(string(text))
	lines := strings.Split(string(text), "\n")
	lines[6] = strconv.Itoa(int(key+1)) + " " + strconv.Itoa(id) // the id was given away since this was written
	if err := os.WriteFile(filepath.Join(data, "postmaster.pid"), []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removeSharedMemory(data); err != nil {
		t.Fatal(err)
	}
	if !segmentExists(t, key, id) {
		t.Error("a stranger's segment was removed")
	}
	if os.Geteuid() != 0 {
		return // we can make nobody else's file
	}
	if err := os.Chown(filepath.Join(data, "postmaster.pid"), 65534, 65534); err != nil { // who may not even look at it
		t.Fatal(err)
	}
	if err := removeSharedMemory(data); err != nil || !segmentExists(t, key, id) {
		t.Errorf("a segment of another user was removed, or is in the way: %v", err)
	}
}

func TestDemolishLeavesNothingOfAServerThatRuns(t *testing.T) {
	i := instance(t)
	pids := servers(t, i)
	if len(pids) == 0 {
		t.Fatal("none of its processes is seen")
	}
	text, err := os.ReadFile(filepath.Join(i.DataFolder(), "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	key, id, _ := segment(string(text))
	if err := Demolish(t.Context(), i.DataFolder()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if !process.Gone(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
	if segmentExists(t, key, id) {
		t.Errorf("System V segment %d is still there", id)
	}
	if err := Demolish(t.Context(), i.DataFolder()); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	in, err := prepared()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	i, err := in.Create(Options{Name: "ledger", Folder: filepath.Join(home, "data"), Log: filepath.Join(home, "log"),
		Settings: map[string]string{"no_such_setting": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	err = i.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("got %v", err)
	}
	if err := i.Remove(); err != nil {
		t.Error(err)
	}
}

func TestADatabaseBelongsToItsOwner(t *testing.T) {
	i := instance(t)
	if err := errors.Join(i.CreateDatabase(t.Context(), "paydb", "payapp"), i.CreateDatabase(t.Context(), "pooldb", "payapp")); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), i.URL("payapp", "paydb"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	var super bool
	if err := c.QueryRow(t.Context(), "SELECT rolsuper FROM pg_roles WHERE rolname = current_user").Scan(&super); err != nil || super {
		t.Errorf("payapp is superuser: %v, %v", super, err)
	}
	if _, err := c.Exec(t.Context(), "CREATE TABLE account ()"); err != nil {
		t.Errorf("the owner cannot make a table: %v", err)
	}
}

func TestAKeyBeyond31BitsIsReadAsTheKernelPrintsIt(t *testing.T) {
	key, id, ok := segment("1\n2\n3\n4\n5\n6\n18446744073709551615   7\nready\n")
	if key != -1 || id != 7 || !ok {
		t.Errorf("got %d %d %v", key, id, ok)
	}
	for _, torn := range []string{"", "1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\n6\n12\n"} {
		if _, _, ok := segment(torn); ok {
			t.Errorf("%q has a segment", torn)
		}
	}
}

func TestDataThatTheServerCannotEnterIsElsewhereAndFoundByALink(t *testing.T) {
	in, err := prepared()
	if err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	said := ""
	i, err := in.Create(Options{Name: "ledger", Folder: filepath.Join(closed, "data"), Progress: func(line string) { said = line }})
	if err != nil {
		t.Fatal(err)
	}
	if elsewhere := i.DataFolder() != i.Folder(); elsewhere != (os.Geteuid() == 0) || elsewhere != strings.Contains(said, i.DataFolder()) {
		t.Errorf("wanted in %s, is in %s, and said is %q", i.Folder(), i.DataFolder(), said)
	}
	if real, err := filepath.EvalSymlinks(i.Folder()); err != nil || real != i.DataFolder() {
		t.Errorf("where it was wanted is %s, %v", real, err)
	}
	if err := Demolish(t.Context(), i.Folder()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{i.Folder(), i.DataFolder()} {
		if _, err := os.Lstat(p); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", p, err)
		}
	}
	if err := i.Remove(); err != nil { // gives the port back
		t.Error(err)
	}
}
