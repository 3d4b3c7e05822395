package warden

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"fenceproof/deploy/process"

	"golang.org/x/sys/unix"
)

// Volume is a file system of its own, in memory and of a fixed size, that the warden and what it starts find at a folder.
type Volume struct {
	// Folder is where it is mounted: an empty folder that exists.
	Folder string `json:"folder"`
	// Bytes is its size.
	Bytes int64 `json:"bytes"`
	// User, where not nil, is whom it belongs to.
	User *process.User `json:"user,omitempty"`
}

// StartApart starts a warden as Start does, in a mount namespace of its own: Mount works there, nobody else on the machine
// sees what is mounted, and it is gone with the last process of the run, whoever is killed. An ordinary user's warden is
// root for mounts alone, in a user namespace of its own.
func StartApart(ctx context.Context, log string) (*Warden, error) {
	w, err := launch(ctx, log, apart)
	if err != nil {
		return nil, fmt.Errorf("start a warden that may mount (it takes root, or a kernel that gives ordinary users namespaces; fenceproof doctor says which): %w", err)
	}
	return w, nil
}

// apartVariable tells the warden that it has a mount namespace of its own.
const apartVariable = "FENCEPROOF_WARDEN_APART"

// apart puts the warden into namespaces of its own.
func apart(cmd *exec.Cmd) {
	cmd.Env = append(cmd.Env, apartVariable+"=1")
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
}

// settleApart is the warden's first work in namespaces of its own: what it mounts stays there, and what it starts inherits
// no right to mount.
func settleApart() error {
	if os.Getenv(apartVariable) == "" {
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("keep rights to ourselves: %w", err)
	}
	return nil
}

// mount mounts v in the warden's own namespace.
func (v Volume) mount() error {
	if os.Getenv(apartVariable) == "" {
		return fmt.Errorf("mount a volume on %s: this warden has no mount namespace of its own", v.Folder)
	}
	uid, gid := os.Getuid(), os.Getgid()
	if v.User != nil {
		uid, gid = v.User.UID, v.User.GID
	}
	options := fmt.Sprintf("size=%d,mode=0700,uid=%d,gid=%d", v.Bytes, uid, gid)
	if err := unix.Mount("fenceproof", v.Folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount a volume of %d bytes on %s: %w", v.Bytes, v.Folder, err)
	}
	return nil
}

// Cgroup is the folder of the cgroup that everything is started in; empty where none can be made.
func (w *Warden) Cgroup() string { return w.cgroup }

// InView is where a path is found as the warden sees it, while it lives.
func (w *Warden) InView(path string) string {
	return filepath.Join("/proc", strconv.Itoa(w.cmd.Process.Pid), "root", path)
}

// Mount has the warden mount v, and gives its folder as only those see it who are in the warden's namespace, us with this
// handle besides: everything in it is found below /proc/self/fd. The volume is there until the handle is closed and the
// warden, and all that it started, have ended.
func (w *Warden) Mount(ctx context.Context, v Volume) (*os.File, error) {
	if _, err := w.ask(ctx, request{Op: opMount, Volume: &v}); err != nil {
		return nil, err
	}
	dir, err := os.Open(w.InView(v.Folder))
	if err != nil {
		return nil, fmt.Errorf("look into the volume on %s: %w", v.Folder, err)
	}
	return dir, nil
}
