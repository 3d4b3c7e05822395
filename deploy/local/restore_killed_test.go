package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"fenceproof/deploy/etcd"
	"fenceproof/deploy/postgres"
	"fenceproof/deploy/process"
)

// putBackVariable has the harness of a test put etcd back to a snapshot.
const putBackVariable = "LOCAL_TEST_PUT_BACK"

// actAsRestoringHarness is killed before it comes to its end: its etcdutl takes too long.
func actAsRestoringHarness(dir string, in *postgres.Installation) string {
	ctx := context.Background()
	found, err := etcd.Prepare(ctx, nil)
	if err != nil {
		return err.Error()
	}
	s, err := Boot(ctx, Config{RunDir: dir, BinDir: os.Getenv("LOCAL_TEST_BIN"), Postgres: in, Backend: BackendEtcd, Etcd: found, EtcdMembers: 1, LocksOnly: true})
	if err != nil {
		return err.Error()
	}
	b, err := s.BackUpLocks(ctx)
	if err != nil {
		return err.Error()
	}
	fmt.Println("ready", s.members[0].DataFolder(), b.Path())
	if err := s.members[0].Kill(ctx); err != nil {
		return err.Error()
	}
	return fmt.Sprint(b.PutBack(ctx, nil))
}

// Who makes a member's data is a process of the run like any other: it would write where nobody cleans up any more.
func TestNobodyMakesDataForAHarnessThatWasKilled(t *testing.T) {
	real, err := etcd.Prepare(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	programs, pidFile := t.TempDir(), filepath.Join(t.TempDir(), "pid")
	if err := os.Symlink(real.Program("etcd"), filepath.Join(programs, "etcd")); err != nil {
		t.Fatal(err)
	}
	slow := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *'snapshot restore'*) echo $$ > %[1]s.new; mv %[1]s.new %[1]s; exec sleep 300;; esac\nexec %[2]s \"$@\"\n", pidFile, real.Program("etcdutl"))
	if err := os.WriteFile(filepath.Join(programs, "etcdutl"), []byte(slow), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := runDir(t)
	harness, out := startHarness(t, dir, putBackVariable+"=1", "ETCD_BIN="+programs)
	data := awaitStack(t, out)
	var pid int
	await(t, "etcdutl to be at work", func() bool {
		text, err := os.ReadFile(pidFile)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	t.Cleanup(func() { endLeft(pid) })
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
	if !process.Gone(pid) {
		t.Error("etcdutl is still at work")
	}
	for _, path := range data {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}

// endLeft ends what a build that leaves it behind has left.
func endLeft(pid int) {
	if p, err := os.FindProcess(pid); err == nil && !process.Gone(pid) {
		_ = p.Kill()
	}
}
