package warden

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// makeCgroup makes the cgroup that everything is started in, beside our own processes. Killing it ends whatever is in
// it at one stroke, also a process that has hidden from its ancestors. Ordinary users often may not make one; then the
// result is empty and the warden relies on the tree of processes.
func makeCgroup() string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	parent := cgroupFolder(string(mounts), string(own))
	if parent == "" {
		return ""
	}
	dir := filepath.Join(parent, "fenceproof-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil { // Linux before 5.14
		_ = os.Remove(dir) // an empty cgroup that was just made; there is nobody to tell
		return ""
	}
	return dir
}

// cgroupFolder finds our own cgroup (v2) from the texts of mountinfo and cgroup. The tree may be mounted anywhere, also
// below that of version 1, and only a part of it may be.
func cgroupFolder(mountinfo, own string) string {
	path := ""
	for line := range strings.Lines(own) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path = p
		}
	}
	if path == "" {
		return ""
	}
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if !ok || !strings.HasPrefix(after, "cgroup2 ") || len(f) < 5 {
			continue
		}
		if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(f[3], "/")); ok {
			return filepath.Join(f[4], rest)
		}
	}
	return ""
}

// removeCgroup kills what is in the cgroup, waits until it is empty, and removes it. One that is gone is no error.
func removeCgroup(ctx context.Context, dir string) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("kill a cgroup: %w", err)
	}
	for {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("remove a cgroup: %w", err)
		}
		select {
		case <-ctx.Done():
			left, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) // only for the message
			return fmt.Errorf("remove cgroup %s: it still has processes (%s): %w", dir, bytes.Fields(left), context.Cause(ctx))
		case <-time.After(time.Millisecond):
		}
	}
}
