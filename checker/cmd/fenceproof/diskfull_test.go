package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestADatabaseWithoutRoomRefusesCleanlyAndServesAgainByItself(t *testing.T) {
	for name, args := range map[string][]string{
		"payouts on PostgreSQL": {"--duration", "16s", "--rate", "8"},
		"locks on PostgreSQL":   {"--workload", "lock", "--duration", "12s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, append([]string{"--nemesis", "disk-full", "--seed", "7"}, args...)...)
			if got := r.wait(); got != 0 {
				t.Fatalf("exit status %d", got)
			}
			awaitNobody(t, r.folder())
			for _, i := range r.verdict().Invariants {
				if i.ID == "DUR-01" && (i.Danger["full_lockdb"] == 0 || i.Danger["logs_exhausted"] == 0 || i.Danger["refused_full"] == 0) {
					t.Errorf("nobody was refused for want of room: %v", i.Danger)
				}
			}
			wire, err := os.ReadFile(filepath.Join(r.folder(), "history", "wiretap.ndjson"))
			if err != nil || strings.Contains(string(wire), `"status":500`) || !strings.Contains(string(wire), `"status":503`) {
				t.Errorf("%v; a full disk was answered with an internal error, or with nothing", err)
			}
			log, err := os.ReadFile(filepath.Join(r.folder(), "history", "nemesis.ndjson"))
			for _, want := range []string{"0 of ", "SQLSTATE 53100", "PANIC"} {
				if err != nil || !strings.Contains(string(log), want) {
					t.Errorf("the log of the nemesis does not say %q, %v:\n%s", want, err, log)
				}
			}
		})
	}
}

// full is a plan in which paydb's disk is full for a long time.
const full = `{"schema": 1, "workload": "payout", "backend": "pg", "nemesis": "script", "seed": 1, "executors": 2, "accounts": 2, "rate": 2,
  "drive": "20s", "prepare": "50ms", "together": 1, "steps": [{"fault": "disk-full", "target": "paydb", "disk": {"log": true}, "at": "1s", "for": "15s"}]}`

func TestAHarnessThatEndsWhileADiskIsFullLeavesNoMountAndNoFile(t *testing.T) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "interrupted": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "plan.json")
			if err := os.WriteFile(file, []byte(full), 0o644); err != nil {
				t.Fatal(err)
			}
			r := start(t, "--plan", file)
			r.awaitLine("now disk-full paydb")
			signalTo(t, r, signal)
			r.wait()
			awaitNobody(t, r.folder())
			if now, err := os.ReadFile("/proc/self/mountinfo"); err != nil || string(now) != string(mounts) {
				t.Errorf("a mount is left, %v:\n%s", err, now)
			}
			if _, err := os.Lstat(filepath.Join(r.folder(), "data", "paydb")); signal == syscall.SIGKILL && !os.IsNotExist(err) {
				t.Errorf("paydb's data is left: %v", err)
			}
			log, err := os.ReadFile(filepath.Join(r.folder(), "history", "nemesis.ndjson"))
			if signal == syscall.SIGINT && (err != nil || !strings.Contains(string(log), `"phase":"healed"`)) {
				t.Errorf("it was not healed, %v:\n%s", err, log)
			}
		})
	}
}
