package local

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestKeptDataStaysAndWasStoppedInOrder(t *testing.T) {
	c := config(t)
	c.Executors = 0
	s := boot(t, c)
	data := s.databases[PayDB].DataFolder()
	_, number, err := net.SplitHostPort(s.databases[PayDB].Address())
	if err != nil {
		t.Fatal(err)
	}
	s.KeepData()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	mark, err := net.Listen("unix", "@fenceproof-port-"+number) // by which a port is reserved
	if err != nil {
		t.Errorf("port %s is still reserved: %v", number, err)
	} else if err := mark.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err != nil {
		t.Errorf("the data is gone: %v", err)
	}
	if _, err := os.Stat(filepath.Join(data, "postmaster.pid")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the server was not stopped in order: %v", err)
	}
	if err := RemoveData(t.Context(), c.RunDir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data was removed and is there: %v", err)
	}
}

// What was saved of etcd is a file, and stays where both the harness and its warden were killed.
func TestASnapshotThatWasLeftIsRemovedWithTheDataThatWasKept(t *testing.T) {
	dir := runDir(t)
	snapshot := filepath.Join(dir, "data", "etcd.snapshot")
	if err := errors.Join(os.Mkdir(filepath.Dir(snapshot), 0o755), os.WriteFile(snapshot, []byte("keys"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := RemoveData(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(snapshot); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// Where the server's user cannot enter the run's folder, its data and a backup of it are elsewhere, and nobody would look there
// for what a killed harness has left.
func TestABackupOutsideTheRunsFolderIsFoundFromThere(t *testing.T) {
	c := config(t)
	c.Executors, c.LocksOnly = 0, true
	if err := os.Chmod(c.RunDir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := boot(t, c)
	d, err := s.database(LockDB)
	if err != nil {
		t.Fatal(err)
	}
	if d.Folder() == d.DataFolder() {
		t.Skip("PostgreSQL has a user of its own only where the tests are root's: here it runs as this one, and all of its data is in the run's folder")
	}
	link := d.Folder() + ".backup"
	for range 2 { // the second takes the place of the first
		b, err := s.BackUpLocks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if to, err := filepath.EvalSymlinks(link); err != nil || to != b.Path() {
			t.Errorf("the backup is in %s, and the run's folder leads to %q: %v", b.Path(), to, err)
		}
	}
	s.lose(t)
	if err := s.backup.PutBack(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	b, err := s.BackUpLocks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, path := range []string{link, b.Path(), filepath.Dir(link)} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}
