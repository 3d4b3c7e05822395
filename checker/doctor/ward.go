package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"fenceproof/deploy/local/warden"
	"fenceproof/deploy/postgres"
	"fenceproof/deploy/process"
	"fenceproof/deploy/vskew"
)

// ward is where things are tried: a folder and a warden, as a run has them.
type ward struct {
	dir    string
	warden *warden.Warden
	apart  error // why there is no mount namespace; nil where there is one
}

func openWard(ctx context.Context) (*ward, error) {
	dir, err := os.MkdirTemp("", "fenceproof-doctor-")
	if err != nil {
		return nil, fmt.Errorf("make a folder to try things in: %w", err)
	}
	w := &ward{dir: dir}
	log := filepath.Join(dir, "warden.log")
	if w.warden, w.apart = warden.StartApart(ctx, log); w.apart != nil {
		if w.warden, err = warden.Start(ctx, log); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	if err := w.warden.Guard(ctx, warden.Leftover{Kind: warden.Folder, Path: dir}); err != nil { // should this program be killed
		return nil, errors.Join(err, w.close(ctx))
	}
	return w, nil
}

func (w *ward) close(ctx context.Context) error {
	return errors.Join(w.warden.Close(context.WithoutCancel(ctx)), os.RemoveAll(w.dir))
}

// probes are those that try.
func (w *ward) probes() []probe {
	return []probe{
		{"runs", "every run", w.runs},
		{"volume", "--nemesis disk-full", w.volume},
		{"clock", "--nemesis clock", w.clock},
		{"cgroup", "ending a whole server at one stroke", w.cgroup},
	}
}

// runs makes a folder where those of runs go, and removes it. The folder of all runs itself is not made.
func (w *ward) runs(ctx context.Context, s Surroundings) (State, string, string) {
	at, err := existing(s.Runs)
	if err != nil {
		return Lacking, err.Error(), mendRuns(at)
	}
	trial := filepath.Join(at, filepath.Base(w.dir)+"-run")
	l := warden.Leftover{Kind: warden.Folder, Path: trial}
	if err := w.warden.Guard(ctx, l); err != nil {
		return Lacking, err.Error(), "see what the message names"
	}
	if err := errors.Join(tryFolder(trial), w.warden.Release(ctx, l)); err != nil {
		return Lacking, err.Error(), mendRuns(at)
	}
	return Fine, "folders of runs can be made in " + s.Runs, ""
}

// existing is the full path of a folder, or of the one above it that is there.
func existing(folder string) (string, error) {
	at, err := filepath.Abs(folder)
	if err != nil {
		return folder, fmt.Errorf("find %s: %w", folder, err)
	}
	for ; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, os.ErrNotExist) {
			return at, err
		}
	}
	return at, nil
}

// tryFolder makes a folder and removes it.
func tryFolder(path string) error {
	if err := os.Mkdir(path, 0o755); err != nil {
		return fmt.Errorf("make the folder of a run: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the folder of a run: %w", err)
	}
	return nil
}

// mendRuns is what helps where no folder can be made in at.
func mendRuns(at string) string {
	const other = "give every command --runs FOLDER, with a folder that you may write to"
	if os.Geteuid() == 0 {
		return other
	}
	return fmt.Sprintf("%s; or sudo chown %d %s", other, os.Geteuid(), at)
}

// volume mounts a small file system where nobody else sees it, and fills it.
func (w *ward) volume(ctx context.Context, _ Surroundings) (State, string, string) {
	if w.apart != nil {
		return Lacking, w.apart.Error(), w.mendNamespaces()
	}
	const size = 1 << 20
	folder := filepath.Join(w.dir, "volume")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return Lacking, err.Error(), "make room in " + os.TempDir()
	}
	// It goes before the folder that it is in. Nothing is mounted there yet, which is no error then.
	if err := w.warden.Guard(ctx, warden.Leftover{Kind: warden.Mount, Path: folder}); err != nil {
		return Lacking, err.Error(), "see what the message names"
	}
	dir, err := w.warden.Mount(ctx, warden.Volume{Folder: folder, Bytes: size})
	if err != nil {
		return Lacking, err.Error(), w.mendNamespaces()
	}
	defer dir.Close()
	err = os.WriteFile(fmt.Sprintf("/proc/self/fd/%d/filler", dir.Fd()), make([]byte, 2*size), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		return Lacking, fmt.Sprintf("a volume of %d bytes took %d: %v", size, 2*size, err), "use a kernel with tmpfs"
	}
	return Fine, "file systems in memory can be mounted in a namespace of their own, as " + owner() + ", and filled", ""
}

func (w *ward) mendNamespaces() string {
	if os.Geteuid() == 0 {
		return "give the container the right to mount: CAP_SYS_ADMIN (docker run --cap-add SYS_ADMIN --security-opt apparmor=unconfined)"
	}
	for name, mend := range map[string]string{
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
		"/proc/sys/kernel/unprivileged_userns_clone":             "sudo sysctl kernel.unprivileged_userns_clone=1",
	} {
		text, err := os.ReadFile(name)
		if bad := map[bool]string{true: "1", false: "0"}[strings.Contains(name, "restrict")]; err == nil && strings.TrimSpace(string(text)) == bad {
			return mend
		}
	}
	return "sudo sysctl user.max_user_namespaces=10000, or run as root"
}

// sleeper is a program that does nothing, and that everybody may run.
const sleeper = "sleep"

// clock moves the clock of a process of the user that PostgreSQL runs as, and that of one that says its time.
func (w *ward) clock(ctx context.Context, _ Surroundings) (State, string, string) {
	const by = time.Hour
	path, err := exec.LookPath(sleeper)
	if err != nil {
		return Lacking, "there is no program sleep in PATH to try it on", "set PATH to /usr/bin:/bin"
	}
	_, as, err := postgres.Account()
	if err != nil {
		as = nil // that is a finding of its own
	}
	p, err := w.warden.Launch(ctx, process.Command{Path: path, Args: []string{"60"}, Dir: "/", User: as})
	if err != nil {
		return Lacking, err.Error(), "see what the message names"
	}
	moved := vskew.Move(ctx, p.Pid(), by)
	if moved == nil {
		moved = w.tellsMovedTime(ctx, by)
	}
	if err := errors.Join(moved, process.Kill(context.WithoutCancel(ctx), p)); err != nil {
		return Lacking, err.Error(), mendClock(moved)
	}
	return Fine, "the wall clock of a process can be moved (ptrace), and it says so", ""
}

// mendClock is what helps where a clock was not moved, by what stood in the way.
func mendClock(err error) string {
	switch {
	case errors.Is(err, vskew.ErrUnsupported):
		return "use a machine with Linux on amd64"
	case errors.Is(err, os.ErrPermission):
		return mendPtrace()
	case errors.Is(err, vskew.ErrLate):
		return "try again when the machine is less busy"
	}
	return "see what the message names; another kernel may have a vDSO that can be redirected"
}

func mendPtrace() string {
	if text, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil && strings.TrimSpace(string(text)) > "1" {
		return sudo() + "sysctl kernel.yama.ptrace_scope=1"
	}
	return "give the container the right to trace: CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)"
}

func (w *ward) cgroup(context.Context, Surroundings) (State, string, string) {
	if folder := w.warden.Cgroup(); folder != "" {
		return Fine, folder, ""
	}
	return Without, "none of version 2 can be made here: the tree of processes is followed instead", "run as root, or under systemd-run --user --scope -p Delegate=yes"
}
