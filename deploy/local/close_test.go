package local

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestKeptDataStaysAndWasStoppedInOrder(t *testing.T) {
	c := config(t)
	c.Executors = 0
	s := boot(t, c)
	data := s.databases[PayDB].DataFolder()
	s.KeepData()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
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
