// Package etcd runs etcd 3.6 members on this machine: it builds the pinned release once, out of a tools module that is
// embedded here, and runs single members and clusters, each with data and ports of its own on loopback, durable as in
// production and with elections fast enough for a test. Every connection from one member of a cluster to another can be
// led through a link of its own.
package etcd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// The oldest release that will do.
const (
	oldestMajor = 3
	oldestMinor = 6
)

// Installation is what members are made from. It is safe for use by several goroutines.
type Installation struct {
	folder  string
	version string
}

// Prepare finds etcd: in the folder that $ETCD_BIN names, else the pinned release in the user's cache, which it builds
// when it is not there yet. Several processes may do so at once; one builds and the others wait. progress hears, before
// it happens, whatever takes time or uses the network; it may be nil.
func Prepare(ctx context.Context, progress func(string)) (*Installation, error) {
	if progress == nil {
		progress = func(string) {}
	}
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("this runs on Linux only, and here is %s: use a Linux virtual machine or container", runtime.GOOS)
	}
	if folder := os.Getenv("ETCD_BIN"); folder != "" {
		return chosen(ctx, folder)
	}
	cache, err := cacheFolder()
	if err != nil {
		return nil, err
	}
	folder, err := build(ctx, cache, progress)
	if err != nil {
		return nil, err
	}
	in, err := inspect(ctx, folder)
	if err != nil {
		return nil, fmt.Errorf("use the etcd that was built (delete %s to have it built again): %w", folder, err)
	}
	return in, nil
}

// Version is the release, such as "3.6.14".
func (in *Installation) Version() string { return in.version }

// Folder is where the programs etcd and etcdutl are; those that were built here have etcdctl beside them.
func (in *Installation) Folder() string { return in.folder }

// Program is the path of a program, such as "etcdutl".
func (in *Installation) Program(name string) string { return filepath.Join(in.folder, name) }

func cacheFolder() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder for the cache (set HOME or XDG_CACHE_HOME): %w", err)
	}
	dir = filepath.Join(dir, "fenceproof", "etcd")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	return dir, nil
}

// chosen is the folder that the user names, or a reason why it will not do.
func chosen(ctx context.Context, folder string) (*Installation, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, fmt.Errorf("find the folder that ETCD_BIN names: %w", err)
	}
	in, err := inspect(ctx, folder)
	if err != nil {
		return nil, fmt.Errorf("ETCD_BIN=%s cannot be used: %w", folder, err)
	}
	return in, nil
}

// askLimit bounds the question for a program's version.
const askLimit = 10 * time.Second

// versionText is how etcd says its version, and etcdutl its own.
var versionText = regexp.MustCompile(`(?m)^(?:etcd Version|etcdutl version): (([0-9]+)\.([0-9]+)\.[0-9]+\S*)$`)

// inspect asks the programs in folder for their versions: both must be new enough, and the same.
func inspect(ctx context.Context, folder string) (*Installation, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	server, err := versionOf(ctx, folder, "etcd", "--version")
	if err != nil {
		return nil, err
	}
	tool, err := versionOf(ctx, folder, "etcdutl", "version")
	if err != nil {
		return nil, err
	}
	if server != tool {
		return nil, fmt.Errorf("%s holds etcd %s and etcdutl %s: they must be of one release", folder, server, tool)
	}
	return &Installation{folder: folder, version: server}, nil
}

func versionOf(ctx context.Context, folder, program, question string) (string, error) {
	path, err := exec.LookPath(filepath.Join(folder, program))
	if err != nil {
		return "", fmt.Errorf("no usable %s in %s: %w", program, folder, err)
	}
	text, err := exec.CommandContext(ctx, path, question).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w:\n%s", path, question, err, text)
	}
	m := versionText.FindStringSubmatch(string(text))
	if m == nil {
		return "", fmt.Errorf("%s %s answered %q", path, question, strings.TrimSpace(string(text)))
	}
	major, _ := strconv.Atoi(m[2]) // the pattern has only digits there; a number too large counts as the largest
	minor, _ := strconv.Atoi(m[3])
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return "", fmt.Errorf("it holds %s %s; %d.%d or later is needed", program, m[1], oldestMajor, oldestMinor)
	}
	return m[1], nil
}
