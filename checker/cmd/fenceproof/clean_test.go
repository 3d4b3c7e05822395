package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestCleanLeavesTheRunsOfASoakAlone(t *testing.T) {
	dir := t.TempDir()
	runs := filepath.Join(dir, "runs")
	old := filepath.Join(runs, "20260101T000000.000Z-payout-pg-pause-1")
	if err := errors.Join(os.MkdirAll(old, 0o755), os.WriteFile(filepath.Join(dir, "soak.json"), []byte("{}"), 0o644)); err != nil {
		t.Fatal(err)
	}
	lines, err := os.Create(filepath.Join(dir, "soak.ndjson"))
	if err == nil {
		err = syscall.Flock(int(lines.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(runs, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{runs, runs + "/", link, filepath.Join(dir, "runs", "..", "runs")} {
		if out, status := fenceproof(t, "clean", "--runs", name); status != exitUsage || !strings.Contains(out, "which is going on: wait for its end, or end it with Ctrl-C") {
			t.Errorf("%s: status %d: %s", name, status, out)
		}
	}
	if err := lines.Close(); err != nil {
		t.Fatal(err)
	}
	if out, status := fenceproof(t, "clean", "--runs", runs); status != exitUsage || !strings.Contains(out, "and its evidence: remove that whole folder by hand") {
		t.Errorf("once it has ended: status %d: %s", status, out)
	}
	if _, err := os.Stat(old); err != nil {
		t.Error(err)
	}
}

func TestCleanKnowsWhatRunsFromTheFolderOfProgramsWhereverItIsItself(t *testing.T) {
	runs, bin := t.TempDir(), filepath.Join(t.TempDir(), "bin")
	clean := func() (string, int) { return fenceproof(t, "clean", "--idle", "--bin", bin, "--runs", runs) }
	if out, status := clean(); status != 0 {
		t.Errorf("there is no such folder, status %d: %s", status, out)
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(sleep)
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(err, os.Mkdir(bin, 0o755), os.WriteFile(filepath.Join(bin, "lock-server"), program, 0o755), os.Symlink(bin, link)); err != nil {
		t.Fatal(err)
	}
	if out, status := clean(); status != 0 {
		t.Errorf("nothing runs from it, status %d: %s", status, out)
	}
	service := exec.Command(filepath.Join(bin, "lock-server"), "100")
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = service.Process.Kill()
		_ = service.Wait()
	}()
	for range 2 {
		if out, status := clean(); status != exitUsage || !strings.Contains(out, "lock-server") || !strings.Contains(out, "is running (process "+strconv.Itoa(service.Process.Pid)+")") {
			t.Errorf("a service is running, status %d: %s", status, out)
		}
		bin = link
	}
	if out, status := fenceproof(t, "clean", "--bin", bin, "--runs", runs); status != exitUsage || !strings.Contains(out, "--bin says nothing without --idle") {
		t.Errorf("status %d: %s", status, out)
	}
}
