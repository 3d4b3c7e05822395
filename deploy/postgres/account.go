package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"fenceproof/deploy/process"
)

// account is who the servers run as.
type account struct {
	name string
	// user is nil when the servers run as ourselves.
	user *process.User
}

// candidates are the users that a server may run as when we are root, best first.
var candidates = []string{"postgres", "nobody"}

// serverAccount finds the account for a harness that runs as uid.
func serverAccount(uid int) (account, error) {
	if uid != 0 {
		return account{name: strconv.Itoa(uid)}, nil
	}
	for _, name := range candidates {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		id, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err := errors.Join(err1, err2); err != nil {
			return account{}, fmt.Errorf("read the ids of user %s: %w", name, err)
		}
		if id != 0 {
			return account{name: name, user: &process.User{UID: id, GID: gid}}, nil
		}
	}
	return account{}, errors.New("PostgreSQL refuses to run as root and there is no user postgres or nobody for it: run this as an ordinary user, or type: useradd --system postgres")
}

// reaches tells whether the account may pass through every folder on the way to path, path itself included. What does
// not exist yet is left out: whoever makes it decides.
func (a account) reaches(path string) bool {
	if a.user == nil {
		return true
	}
	for dir := existing(path); ; dir = filepath.Dir(dir) {
		if !a.passes(dir) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// passes looks at the mode of one folder, for a user without further groups, as the servers run.
func (a account) passes(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	if !info.IsDir() {
		return true
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	switch mode := info.Mode().Perm(); {
	case int(st.Uid) == a.user.UID:
		return mode&0o100 != 0
	case int(st.Gid) == a.user.GID:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// existing is the real path of the deepest ancestor of path that exists.
func existing(path string) string {
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return real
		}
		parent := filepath.Dir(path)
		if parent == path {
			return path
		}
		path = parent
	}
}

// systemCache is the cache of a root whose home is closed to others.
const systemCache = "/var/cache/fenceproof"

// cacheFolder is where programs and the initialised data directory are kept: the user's cache, or the system's when the
// servers could not reach that.
func (a account) cacheFolder() (string, error) {
	dir, err := os.UserCacheDir()
	if err == nil {
		dir = filepath.Join(dir, "fenceproof")
	}
	switch {
	case a.user != nil && (err != nil || !a.reaches(dir)):
		dir = systemCache
	case err != nil:
		return "", fmt.Errorf("find a folder for the cache (set HOME or XDG_CACHE_HOME): %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	if !a.reaches(dir) {
		return "", fmt.Errorf("user %s, as which PostgreSQL runs, cannot enter the cache folder %s: type: chmod go+x %s", a.name, dir, dir)
	}
	return filepath.EvalSymlinks(dir)
}

// own hands dir, an empty folder that was just made, to the account.
func (a account) own(dir string) error {
	if a.user == nil {
		return nil
	}
	if err := os.Chown(dir, a.user.UID, a.user.GID); err != nil {
		return fmt.Errorf("hand %s to user %s: %w", dir, a.name, err)
	}
	return nil
}

// openToAll lets everyone read what was fetched: the umask of whoever fetched it may have closed it.
func openToAll(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o044
		if mode&0o100 != 0 {
			mode |= 0o011
		}
		return os.Chmod(path, mode)
	})
}
