package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// script is a plan whose steps, by time, last longer than any test waits: their windows are open when the harness is killed.
func script(t *testing.T, backend, steps string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan.json")
	text := `{"schema": 1, "workload": "payout", ` + backend + `, "nemesis": "script", "seed": 1, "executors": 3, "accounts": 3, "rate": 4,
  "drive": "90s", "prepare": "50ms", "together": 2, "steps": [` + steps + `]}`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"verify", "--plan", file}
}

func TestAHarnessKilledDuringAnyFaultLeavesNothing(t *testing.T) {
	const (
		pg   = `"backend": "pg"`
		etcd = `"backend": "etcd", "etcdMembers": 3`
		long = `"at": "500ms", "for": "60s"`
	)
	for name, c := range map[string]struct {
		backend, steps string
		args           []string // instead of a script
		open           []string // the faults of which each must have an open window; of one that is over at once, one that was seen
	}{
		"pause on pg": {backend: pg, open: []string{"pause executor-2", "pause payment-resource", "pause lockdb"},
			steps: `{"fault": "pause", "target": "executor-2", ` + long + `}, {"fault": "pause", "target": "payment-resource", ` + long + `}, {"fault": "pause", "target": "lockdb", ` + long + `}`},
		"kill on pg": {backend: pg, open: []string{"kill paydb", "kill rail-proxy", "kill executor-1"},
			steps: `{"fault": "kill", "target": "paydb", ` + long + `}, {"fault": "kill", "target": "rail-proxy", ` + long + `}, {"fault": "kill", "target": "executor-1", ` + long + `}`},
		"partition on pg": {backend: pg, open: []string{"cut", "hold"},
			steps: `{"fault": "cut", "target": "executor-1→*", ` + long + `}, {"fault": "hold", "target": "payment-resource→paydb", ` + long + `}`},
		"slow on pg": {backend: pg, open: []string{"slow"},
			steps: `{"fault": "slow", "target": "lock-server→lockdb", "network": {"latency": "100ms", "jitter": "30ms", "kbPerSecond": 64}, ` + long + `}`},
		"flaky on pg": {backend: pg, open: []string{"reset", "delay"},
			steps: `{"fault": "reset", "target": "executor-2→rail-proxy", ` + long + `},
				{"fault": "delay", "target": "executor-*→lock-server", "message": {"side": "request", "op": "acquire"}, ` + long + `}`},
		"revoke on pg": {args: []string{"verify", "--nemesis", "revoke", "--seed", "3"}, open: []string{"revoke"}},
		"sweep on pg":  {args: []string{"sweep", "--seed", "3"}, open: []string{"delay"}},
		"pause on etcd": {backend: etcd, open: []string{"pause etcd-1", "pause etcd-2"},
			steps: `{"fault": "pause", "target": "etcd-1", ` + long + `}, {"fault": "pause", "target": "etcd-2", ` + long + `}`},
		"kill on etcd": {backend: etcd, open: []string{"kill etcd", "kill lock-server"},
			steps: `{"fault": "kill", "target": "etcd-leader", ` + long + `}, {"fault": "kill", "target": "lock-server", ` + long + `}`},
		"partition on etcd": {backend: etcd, open: []string{"cut etcd"},
			steps: `{"fault": "cut", "target": "etcd-leader↔etcd-*", ` + long + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := c.args
			if args == nil {
				args = script(t, c.backend, c.steps)
			}
			r := startCommand(t, binaries, args[0], args[1:]...)
			r.awaitLine("the run's folder is")
			r.awaitOpen(c.open)
			p := possessionsOf(t, r.runs)
			if c.backend != etcd && len(p.segments) == 0 || len(p.sockets) == 0 || len(p.data) == 0 || len(p.cgroups) == 0 && canMakeCgroups() {
				t.Errorf("the run has %s: the test would prove too little", p)
			}
			signalTo(t, r, syscall.SIGKILL)
			if status := r.wait(); status != -1 {
				t.Errorf("exit status %d: the harness ended before it was killed", status)
			}
			if missing := r.notOpen(c.open); len(missing) > 0 && c.args == nil {
				t.Errorf("no longer open when it was killed: %q", missing)
			}
			awaitNobody(t, r.runs)
			p.awaitGone(t)
			if out, status := fenceproof(t, "recheck", r.folder()); status != 2 || !strings.Contains(strings.ToLower(out), "inconclusive") {
				t.Errorf("recheck ended with %d:\n%s", status, out)
			}
		})
	}
}

// notOpen are those of faults of which the nemesis log shows no window whose effect was seen and which goes on. A fault is
// an operation, perhaps with the beginning of its target. A revoke is over at once: to have been seen is enough.
func (r *running) notOpen(faults []string) []string {
	r.t.Helper()
	log, err := os.ReadFile(filepath.Join(r.folder(), "history", "nemesis.ndjson"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	open := map[int64]string{}
	for line := range bytes.Lines(log) {
		var e struct {
			Window            int64
			Op, Target, Phase string
		}
		if json.Unmarshal(line, &e) != nil {
			continue // the header, or torn
		}
		switch {
		case e.Phase == "seen":
			open[e.Window] = e.Op + " " + e.Target
		case e.Op != "revoke" && e.Phase != "inject":
			delete(open, e.Window)
		}
	}
	return slices.DeleteFunc(slices.Clone(faults), func(f string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(open)), func(w string) bool { return strings.HasPrefix(w, f) })
	})
}

// awaitOpen waits until the nemesis log says of each of faults that it is open.
func (r *running) awaitOpen(faults []string) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		missing := r.notOpen(faults)
		if len(missing) == 0 {
			return
		}
		select {
		case <-r.done:
			r.t.Fatalf("it ended, and these had not been seen: %q", missing)
		case <-time.After(5 * time.Millisecond): // the pause between two looks at the condition
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("these are not open: %q", missing)
		}
	}
}

// possessions are what a run has of the machine besides its folder.
type possessions struct {
	processes map[int]string // pid → when it started, so that another one of the same number is not taken for it
	segments  []string       // ids of System V shared memory
	shm       []string       // files in /dev/shm
	cgroups   []string       // folders
	mounts    []string       // mount points below the run's folder
	data      []string       // the databases' folders, which may lie elsewhere
	sockets   []string       // inodes of listening sockets
	runs      string
}

func (p possessions) String() string {
	return fmt.Sprintf("%d processes, segments %v, %v, cgroups %v, %v, data %v, %d listening sockets", len(p.processes), p.segments, p.shm, p.cgroups, p.mounts, p.data, len(p.sockets))
}

func possessionsOf(t *testing.T, runs string) possessions {
	t.Helper()
	p := possessions{processes: map[int]string{}, runs: runs, mounts: mountsBelow(runs)}
	links, err := filepath.Glob(filepath.Join(runs, "2*", "data", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		p.data = append(p.data, l)
		if at, err := filepath.EvalSymlinks(l); err == nil && at != l {
			p.data = append(p.data, at)
		}
	}
	listening := listeningSockets()
	for _, line := range leftovers(t, runs) {
		pid, err := strconv.Atoi(strings.Fields(line)[0])
		if err != nil {
			t.Fatal(err)
		}
		proc := filepath.Join("/proc", strconv.Itoa(pid))
		p.processes[pid] = startOf(pid)
		fds, _ := filepath.Glob(filepath.Join(proc, "fd", "*")) // it may have ended since
		for _, fd := range fds {
			to, _ := os.Readlink(fd)
			if inode, ok := strings.CutPrefix(to, "socket:["); ok && listening[strings.TrimSuffix(inode, "]")] {
				p.sockets = append(p.sockets, strings.TrimSuffix(inode, "]"))
			}
		}
		maps, _ := os.ReadFile(filepath.Join(proc, "maps"))
		for line := range strings.Lines(string(maps)) {
			if f := strings.Fields(line); len(f) > 5 && strings.HasPrefix(f[5], "/dev/shm/") {
				p.shm = append(p.shm, f[5])
			}
		}
		own, _ := os.ReadFile(filepath.Join(proc, "cgroup"))
		for line := range strings.Lines(string(own)) {
			if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && strings.HasPrefix(filepath.Base(path), "fenceproof-") && !slices.Contains(p.cgroups, filepath.Base(path)) {
				p.cgroups = append(p.cgroups, filepath.Base(path))
			}
		}
	}
	for id, creator := range segments(t) {
		if _, ours := p.processes[creator]; ours {
			p.segments = append(p.segments, id)
		}
	}
	return p
}

// left are those of p that are still there.
func (p possessions) left(t *testing.T) []string {
	t.Helper()
	var left []string
	for pid, start := range p.processes {
		if start != "" && startOf(pid) == start {
			left = append(left, fmt.Sprintf("process %d", pid))
		}
	}
	there := segments(t)
	for _, id := range p.segments {
		if _, ok := there[id]; ok {
			left = append(left, "shared memory "+id)
		}
	}
	for _, f := range slices.Concat(p.shm, p.data) {
		if _, err := os.Lstat(f); err == nil {
			left = append(left, f)
		}
	}
	for _, g := range p.cgroups {
		if slices.Contains(cgroupNames(), g) {
			left = append(left, "cgroup "+g)
		}
	}
	listening := listeningSockets()
	for _, s := range p.sockets {
		if listening[s] {
			left = append(left, "listening socket "+s)
		}
	}
	return append(left, mountsBelow(p.runs)...)
}

// awaitGone waits until nothing of p is left. The warden works on after the last of the processes that it guards.
func (p possessions) awaitGone(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		left := p.left(t)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("of the run these are left: %q", left)
		}
		time.Sleep(20 * time.Millisecond) // the pause between two looks at the condition
	}
}

// startOf is when a process started, in the kernel's ticks; "" when there is none, or only its exit status is left.
func startOf(pid int) string {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if err != nil || len(f) < 20 || f[0] == "Z" {
		return ""
	}
	return f[19]
}

// segments are the System V segments of shared memory: by id, the process that made it.
func segments(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 {
			if creator, err := strconv.Atoi(f[4]); err == nil {
				by[f[1]] = creator
			}
		}
	}
	return by
}

// listeningSockets are the inodes of the machine's listening TCP sockets.
func listeningSockets() map[string]bool {
	const listen = "0A"
	inodes := map[string]bool{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(file) // there may be no IPv6
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == listen {
				inodes[f[9]] = true
			}
		}
	}
	return inodes
}

func mountsBelow(folder string) []string {
	text, _ := os.ReadFile("/proc/self/mountinfo") // without /proc no test here works
	var below []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], folder) {
			below = append(below, "mount "+f[4])
		}
	}
	return below
}

// cgroupRoots are where cgroups of version 2 are mounted.
func cgroupRoots() []string {
	text, _ := os.ReadFile("/proc/self/mountinfo") // without /proc no test here works
	var roots []string
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		if f := strings.Fields(before); len(f) > 4 && strings.HasPrefix(after, "cgroup2 ") {
			roots = append(roots, f[4])
		}
	}
	return roots
}

// cgroupNames are the names of the machine's cgroups, as far down as ours are.
func cgroupNames() []string {
	var names []string
	for _, root := range cgroupRoots() {
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error { // what vanishes meanwhile is not there
			if err == nil && d.IsDir() {
				names = append(names, filepath.Base(path))
			}
			return nil
		})
	}
	return names
}

// canMakeCgroups tells whether a warden may make a cgroup here, as far as permissions say.
func canMakeCgroups() bool {
	return slices.ContainsFunc(cgroupRoots(), func(root string) bool {
		_, err := os.Stat(filepath.Join(root, "cgroup.procs"))
		return err == nil && unix.Access(root, unix.W_OK) == nil
	})
}
