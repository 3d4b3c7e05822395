package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Stat is what /proc/<pid>/stat tells of a process or thread.
type Stat struct {
	Pid, Parent int
	// State is one letter: R running, S sleeping, D in the disk, T stopped, Z dead and not yet reaped.
	State byte
	// Start is when it began, in clock ticks since boot: with the pid it names the process for good.
	Start uint64
}

// ReadStat reads a process's state; os.ErrNotExist when there is none.
func ReadStat(pid int) (Stat, error) {
	return readStat(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
}

func readStat(file string) (Stat, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, syscall.ESRCH) {
		err = os.ErrNotExist // it ended between open and read
	}
	if err != nil {
		return Stat{}, err
	}
	return parseStat(text)
}

// parseStat reads the line; the second field is the program's name in parentheses and may hold anything, ")" too.
func parseStat(text []byte) (Stat, error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return Stat{}, fmt.Errorf("read a process's state: %q is no stat line", text)
	}
	rest := strings.Fields(string(text[end+1:]))
	if len(rest) < 20 {
		return Stat{}, fmt.Errorf("read a process's state: %q is too short", text)
	}
	pid, err1 := strconv.Atoi(strings.TrimSpace(string(text[:open])))
	parent, err2 := strconv.Atoi(rest[1])
	start, err3 := strconv.ParseUint(rest[19], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return Stat{}, fmt.Errorf("read a process's state: %w", err)
	}
	return Stat{Pid: pid, Parent: parent, State: rest[0][0], Start: start}, nil
}

// Gone tells whether the process has ended; one that is dead and only waits to be reaped has.
func Gone(pid int) bool {
	s, err := ReadStat(pid)
	return errors.Is(err, os.ErrNotExist) || (err == nil && (s.State == 'Z' || s.State == 'X'))
}

// all lists every process of the machine that is visible to us.
func all() ([]Stat, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	var out []Stat
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil {
			continue
		}
		s, err := ReadStat(pid)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// Descendants lists the living children of pid, their children, and so on, parents first. Unless they are stopped there
// may be others by the time it returns.
func Descendants(pid int) ([]int, error) {
	stats, err := Family(pid)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, s := range stats {
		out = append(out, s.Pid)
	}
	return out, nil
}

// Family is Descendants with what names each of them for good: a pid may be another process's by the time it is used.
func Family(pid int) ([]Stat, error) {
	stats, err := all()
	if err != nil {
		return nil, err
	}
	children := map[int][]Stat{}
	for _, s := range stats {
		if s.State != 'Z' && s.State != 'X' {
			children[s.Parent] = append(children[s.Parent], s)
		}
	}
	var out []Stat
	for next := children[pid]; len(next) > 0; {
		out = append(out, next...)
		var deeper []Stat
		for _, s := range next {
			deeper = append(deeper, children[s.Pid]...)
		}
		next = deeper
	}
	return out, nil
}

// WorkingIn lists the living processes of a program, by its file's name, whose working directory is dir. Others that
// merely look around there are none of them.
func WorkingIn(dir, program string) ([]int, error) {
	stats, err := all()
	if err != nil {
		return nil, err
	}
	var out []int
	for _, s := range stats {
		if s.State != 'Z' && link(s.Pid, "cwd") == dir && filepath.Base(link(s.Pid, "exe")) == program {
			out = append(out, s.Pid)
		}
	}
	return out, nil
}

// link is where one of a process's links in /proc points to; empty when it has ended or is not ours to look at. A file
// that was deleted meanwhile counts under its name.
func link(pid int, name string) string {
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	to, err := os.Readlink(filepath.Join(folder, name))
	if errors.Is(err, os.ErrPermission) && os.Geteuid() == 0 { // root may not trace: in a container, by default
		var owner User
		if owner, err = Owner(folder); err == nil {
			err = As(owner, func() (err error) { to, err = os.Readlink(filepath.Join(folder, name)); return err })
		}
	}
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(to, " (deleted)")
}

// stopped tells whether every thread of pid is in the stopped state. A process that has ended is not.
func stopped(pid int) (bool, error) {
	return everyThread(pid, func(state byte) bool { return state == 'T' || state == 't' })
}

// resumed tells whether no thread of pid is in the stopped state any more.
func resumed(pid int) (bool, error) {
	return everyThread(pid, func(state byte) bool { return state != 'T' && state != 't' })
}

func everyThread(pid int, want func(state byte) bool) (bool, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	if len(files) == 0 || Gone(pid) {
		return false, fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	for _, f := range files {
		s, err := readStat(f)
		if errors.Is(err, os.ErrNotExist) {
			continue // a thread that ended meanwhile
		}
		if err != nil {
			return false, err
		}
		if s.State != 'Z' && s.State != 'X' && !want(s.State) {
			return false, nil
		}
	}
	return true, nil
}
