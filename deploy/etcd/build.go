package etcd

import (
	"context"
	"crypto/sha256"
	_ "embed" // the tools module
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"

	"fenceproof/deploy/filelock"
)

// The tools module pins etcd's release and, by their checksums, everything that it is built from. It is not named go.mod,
// because files of another module cannot be embedded; for the build it gets its proper name.
var (
	//go:embed tools/etcd.mod
	toolsModule []byte
	//go:embed tools/etcd.sum
	toolsSums []byte
)

// builds maps the packages of the tools module to the names of their programs. The build names a program after its package.
var builds = []struct{ source, built, name string }{
	{"go.etcd.io/etcd/server/v3", "server", "etcd"},
	{"go.etcd.io/etcd/etcdctl/v3", "etcdctl", "etcdctl"},
	{"go.etcd.io/etcd/etcdutl/v3", "etcdutl", "etcdutl"},
}

var pinnedText = regexp.MustCompile(`(?m)^\s*go\.etcd\.io/etcd/server/v3 v(\S+)`)

// pinned is the release that the tools module names.
func pinned() string {
	m := pinnedText.FindSubmatch(toolsModule)
	if m == nil {
		return "unknown" // there is a test that it is known
	}
	return string(m[1])
}

// buildFolder is where the programs of this very tools module are kept.
func buildFolder(cache string) string {
	h := sha256.New()
	h.Write(toolsModule) // a hash takes everything
	h.Write(toolsSums)
	return filepath.Join(cache, fmt.Sprintf("%s-%s-%.6x", pinned(), runtime.GOARCH, h.Sum(nil)))
}

var errNoCompiler = errors.New("there is no go to build etcd with: install Go, or have ETCD_BIN name a folder that holds etcd and etcdutl of release 3.6 or later")

// build gives the folder of the programs, and builds them when they are not there.
func build(ctx context.Context, cache string, progress func(string)) (string, error) {
	home := buildFolder(cache)
	if _, err := os.Stat(home); err == nil {
		return home, nil
	}
	unlock, err := filelock.Lock(ctx, filepath.Join(cache, "build.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(home); err == nil {
		return home, nil // another process was faster
	}
	compiler, err := exec.LookPath("go")
	if err != nil {
		return "", errNoCompiler
	}
	progress(fmt.Sprintf("building etcd %s from source into %s: about a minute, once; later runs need neither the network nor this", pinned(), home))
	if err := compile(ctx, compiler, home); err != nil {
		return "", err
	}
	return home, nil
}

// compile builds in a folder beside home and renames it when it is complete, so that home is either whole or absent.
func compile(ctx context.Context, compiler, home string) error {
	work := home + ".partial"
	if err := os.RemoveAll(work); err != nil { // of a process that was killed
		return fmt.Errorf("remove an earlier attempt: %w", err)
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return fmt.Errorf("make the folder for etcd: %w", err)
	}
	for name, text := range map[string][]byte{"go.mod": toolsModule, "go.sum": toolsSums} {
		if err := os.WriteFile(filepath.Join(work, name), text, 0o644); err != nil {
			return fmt.Errorf("write %s of etcd's build: %w", name, err)
		}
	}
	args := []string{"build", "-trimpath", "-o", work + string(filepath.Separator)}
	for _, b := range builds {
		args = append(args, b.source)
	}
	if err := runGo(ctx, compiler, work, args); err != nil {
		return err
	}
	for _, b := range builds {
		if err := os.Rename(filepath.Join(work, b.built), filepath.Join(work, b.name)); err != nil {
			return fmt.Errorf("name what was built: %w", err)
		}
	}
	if err := os.Rename(work, home); err != nil {
		return fmt.Errorf("put etcd in place: %w", err)
	}
	return nil
}

// runGo runs the go command to its end, in the user's environment but for what would change the build. When ctx ends, so
// do the compilers that it started.
func runGo(ctx context.Context, compiler, dir string, args []string) error {
	cmd := exec.CommandContext(ctx, compiler, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GO111MODULE=on", "GOWORK=off", "GOFLAGS=-mod=readonly", "GOOS=", "GOARCH=", "CGO_ENABLED=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build etcd %s with go (is there a network?): %w:\n%s", pinned(), err, strings.TrimSpace(string(out)))
	}
	return nil
}
