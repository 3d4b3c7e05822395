package postgres

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"fenceproof/deploy/process"
)

// oldest is the first major version that will do.
const oldest = 16

// version is a server's version; minor is -1 for a development version.
type version struct{ major, minor int }

func (v version) String() string {
	if v.minor < 0 {
		return strconv.Itoa(v.major)
	}
	return fmt.Sprintf("%d.%d", v.major, v.minor)
}

// programs is a folder that holds postgres and initdb of one version.
type programs struct {
	folder  string
	version version
}

func (p programs) path(name string) string { return filepath.Join(p.folder, name) }

var versionText = regexp.MustCompile(`\(PostgreSQL\) ([0-9]+)(?:\.([0-9]+))?`)

// inspect asks the postgres in folder for its version, as the account that will run it.
func (a account) inspect(ctx context.Context, folder string) (programs, error) {
	if folder, err := filepath.EvalSymlinks(folder); err == nil && !a.reaches(folder) {
		return programs{}, fmt.Errorf("user %s, as which it would run, cannot enter %s", a.name, folder)
	}
	for _, name := range []string{"postgres", "initdb"} {
		if _, err := exec.LookPath(filepath.Join(folder, name)); err != nil {
			return programs{}, fmt.Errorf("no usable %s in %s: %w", name, folder, err)
		}
	}
	out, err := a.run(ctx, filepath.Join(folder, "postgres"), []string{"--version"}, "/")
	if err != nil {
		return programs{}, err
	}
	m := versionText.FindStringSubmatch(out)
	if m == nil {
		return programs{}, fmt.Errorf("%s/postgres --version answered %q", folder, strings.TrimSpace(out))
	}
	v := version{minor: -1}
	if v.major, err = strconv.Atoi(m[1]); err != nil {
		return programs{}, err
	}
	if m[2] != "" {
		if v.minor, err = strconv.Atoi(m[2]); err != nil {
			return programs{}, err
		}
	}
	return programs{folder: folder, version: v}, nil
}

// run runs a program of PostgreSQL to its end, as the account, and gives back what it printed. It dies with us, and for
// that the thread has to live that started it.
func (a account) run(ctx context.Context, path string, args []string, dir string) (string, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Dir = environment, dir
	attr, _, err := process.Command{User: a.user}.Attributes()
	if err != nil {
		return "", err
	}
	cmd.SysProcAttr = attr
	text, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run %s: %w:\n%s", path, err, text)
	}
	return string(text), nil
}

// environment is all that PostgreSQL's programs get to see.
var environment = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "TZ=UTC", "LC_ALL=C"}

// findPrograms chooses the programs: $PG_BIN, an installed version, the npm package.
func findPrograms(ctx context.Context, a account, cache string, progress func(string)) (programs, error) {
	if folder := os.Getenv("PG_BIN"); folder != "" {
		return a.chosen(ctx, folder)
	}
	best, passedOver := choose(a.installed(ctx, folders()))
	for _, p := range passedOver {
		progress(fmt.Sprintf("PostgreSQL %s in %s is older than %d and is passed over", p.version, p.folder, oldest))
	}
	if best != nil {
		return *best, nil
	}
	folder, err := fetch(ctx, cache, progress)
	if err != nil {
		return programs{}, err
	}
	p, err := a.inspect(ctx, folder)
	if err != nil {
		return programs{}, fmt.Errorf("use the fetched PostgreSQL (delete %s to have it fetched again): %w", filepath.Join(cache, "npm"), err)
	}
	return p, nil
}

// chosen is the folder that the user names, or a reason why it will not do.
func (a account) chosen(ctx context.Context, folder string) (programs, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return programs{}, fmt.Errorf("find the folder that PG_BIN names: %w", err)
	}
	p, err := a.inspect(ctx, folder)
	if err != nil {
		return programs{}, fmt.Errorf("PG_BIN=%s cannot be used: %w", folder, err)
	}
	if p.version.major < oldest {
		return programs{}, fmt.Errorf("PG_BIN=%s holds PostgreSQL %s; %d or later is needed", folder, p.version, oldest)
	}
	return p, nil
}

// folders are those in which distributions put PostgreSQL, and those of PATH.
func folders() []string {
	var out []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",                       // Debian, Ubuntu
		"/usr/pgsql-*/bin",                                // PostgreSQL's own packages for Red Hat
		"/usr/libexec/postgresql*",                        // Alpine
		"/usr/lib/postgresql*/bin",                        // SUSE, Gentoo
		"/usr/local/pgsql/bin",                            // built from source
		"/opt/postgresql*/bin",                            // vendors
		"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin", // Homebrew
	} {
		found, _ := filepath.Glob(pattern) // the only error is a malformed pattern
		out = append(out, found...)
	}
	return append(out, filepath.SplitList(os.Getenv("PATH"))...)
}

// installed inspects the folders that hold a postgres. One that cannot be used is no candidate.
func (a account) installed(ctx context.Context, folders []string) []programs {
	var out []programs
	seen := map[string]bool{}
	for _, f := range folders {
		real, err := filepath.EvalSymlinks(filepath.Join(f, "postgres"))
		if err != nil || seen[real] {
			continue
		}
		seen[real] = true
		if p, err := a.inspect(ctx, filepath.Dir(real)); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// choose takes the version nearest to the one that the system is written for, and lists those that are too old.
func choose(found []programs) (best *programs, tooOld []programs) {
	slices.SortStableFunc(found, func(a, b programs) int {
		if a.version.major != b.version.major {
			return a.version.major - b.version.major
		}
		return b.version.minor - a.version.minor
	})
	for i, p := range found {
		if p.version.major >= oldest {
			return &found[i], tooOld
		}
		tooOld = append(tooOld, p)
	}
	return nil, tooOld
}
