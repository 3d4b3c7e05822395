package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"fenceproof/checker/verdict"
)

// Ctrl-C in a terminal ends `fenceproof verify | tee` at its other end as well, and at once.
func TestARunWhoseReaderLeavesIsHealedJudgedAndTold(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(binaries, "fenceproof"), "verify", "--nemesis", "pause", "--seed", "5", "--runs", runs)
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	one := make([]byte, 1)
	if _, err := in.Read(one); err != nil { // it has begun to tell
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	var dir string
	for deadline := time.Now().Add(patience); dir == ""; time.Sleep(20 * time.Millisecond) { // the pause between two looks at the condition
		found, err := filepath.Glob(filepath.Join(runs, "2*", "history", "nemesis.ndjson"))
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no run: %v", err)
		}
		if len(found) == 1 {
			dir = filepath.Dir(filepath.Dir(found[0]))
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its status is asked below
	if got := cmd.ProcessState.ExitCode(); got != verdict.ExitOpen {
		t.Errorf("exit status %d (%s), want %d", got, cmd.ProcessState, verdict.ExitOpen)
	}
	awaitNobody(t, dir)
	if v, err := verdict.Read(dir); err != nil || v.Exit != verdict.ExitOpen {
		t.Errorf("the verdict: %+v, %v", v, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "report.html")); err != nil {
		t.Error(err)
	}
}
