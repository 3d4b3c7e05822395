package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"fenceproof/deploy/process"
)

// ErrFetched says that there is no PostgreSQL yet, and that Prepare will fetch one.
var ErrFetched = errors.New("it is fetched at the first run, over the network")

// Look says which PostgreSQL Prepare would use, and makes nothing. The error says what is missing, and what to type; it is
// ErrFetched where nothing is missing but the first run.
func Look(ctx context.Context) (found string, err error) {
	a, cache, err := place()
	if err != nil {
		return "", err
	}
	p, err := a.look(ctx, cache)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("PostgreSQL %s in %s", p.version, p.folder), nil
}

// place is who the servers run as, and where their programs are kept.
func place() (account, string, error) {
	if err := supported(runtime.GOOS, runtime.GOARCH); err != nil {
		return account{}, "", err
	}
	a, err := serverAccount(os.Geteuid())
	if err != nil {
		return account{}, "", err
	}
	cache, err := a.cacheFolder()
	return a, cache, err
}

func (a account) look(ctx context.Context, cache string) (programs, error) {
	if folder := os.Getenv("PG_BIN"); folder != "" {
		return a.chosen(ctx, folder)
	}
	if best, _ := choose(a.installed(ctx, folders())); best != nil {
		return *best, nil
	}
	if fetched := fetchedTo(cache); exists(fetched) {
		return a.inspect(ctx, fetched)
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return programs{}, errors.New("there is no PostgreSQL 16 or later and no npm to fetch one with: " + howToInstall())
	}
	return programs{}, ErrFetched
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// fetchedTo is where npm puts the package's programs.
func fetchedTo(cache string) string {
	return filepath.Join(cache, "npm", packageVersion, "node_modules", packageName(), "native", "bin")
}

// packageName is the package for this machine.
func packageName() string { return "@embedded-postgres/linux-" + architectures[runtime.GOARCH] }

// Account is who the servers run as: a name, and the user where that is not ourselves.
func Account() (name string, user *process.User, err error) {
	a, err := serverAccount(os.Geteuid())
	return a.name, a.user, err
}
