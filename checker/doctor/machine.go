package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"fenceproof/deploy/etcd"
	"fenceproof/deploy/local"
	"fenceproof/deploy/postgres"
	"fenceproof/deploy/process"
)

// enoughCores is how many processors the suite's times are made for.
const enoughCores = 2

// probes are those that only look.
func probes() []probe {
	return []probe{
		{"system", "everything", system},
		{"user", "PostgreSQL, which refuses root", user},
		{"cores", "runs at the rate that they are made for", cores},
		{"space", "a run's data and its history", space},
		{"memory", "--nemesis disk-full, whose disks are file systems in memory", memory},
		{"programs", "every run", programs},
		{"PostgreSQL", "every run but workload lock on etcd; with --nemesis restore that as well", database},
		{"npm", "fetching PostgreSQL where no version 16 or later is installed", npm},
		{"Go", "building etcd, and the mutants", compiler},
		{"etcd", "--backend etcd", keyValue},
		{"waits", "SDK-01 on an overloaded machine, where it excuses whom nobody let run", waits(process.Counted)},
		{"Chromium", "the tests that open the report in a browser", browser},
	}
}

func system(context.Context, Surroundings) (State, string, string) {
	here := runtime.GOOS + "/" + runtime.GOARCH
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return Lacking, here + ": Linux on amd64 or arm64 is needed", "use a Linux virtual machine or container"
	}
	return Fine, here, ""
}

func user(context.Context, Surroundings) (State, string, string) {
	name, as, err := postgres.Account()
	switch {
	case err != nil:
		return Lacking, err.Error(), "useradd --system postgres"
	case as != nil:
		return Fine, fmt.Sprintf("%s; PostgreSQL runs as %s", owner(), name), ""
	}
	return Fine, owner(), ""
}

func cores(context.Context, Surroundings) (State, string, string) {
	n := runtime.NumCPU()
	if n < enoughCores {
		return Without, fmt.Sprintf("%d processor: runs may be too slow for the dangers that they need", n), fmt.Sprintf("give the machine %d processors", enoughCores)
	}
	return Fine, fmt.Sprintf("%d processors", n), ""
}

func space(_ context.Context, s Surroundings) (State, string, string) {
	if err := local.RequireSpace(s.Runs); err != nil {
		return Lacking, err.Error(), "fenceproof clean --runs " + s.Runs
	}
	return Fine, fmt.Sprintf("more than %d GB free for %s", local.NeededSpace>>30, s.Runs), ""
}

func memory(_ context.Context, s Surroundings) (State, string, string) {
	free, err := available()
	if err == nil {
		err = enough(s.Memory, free)
	}
	if err != nil {
		return Lacking, err.Error(), "end what takes it (ps -eo pid,rss,args --sort -rss | head)"
	}
	return Fine, fmt.Sprintf("%d MB are available", free>>20), ""
}

// self is this program, which the lock clients of a run are.
const self = "fenceproof"

func programs(_ context.Context, s Surroundings) (State, string, string) {
	var missing []string
	for _, name := range append(local.Programs(), self) {
		if _, err := exec.LookPath(filepath.Join(s.Bin, name)); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return Lacking, fmt.Sprintf("%s are not in %s", strings.Join(missing, ", "), s.Bin), "make build"
	}
	return Fine, "the programs of runs are in " + s.Bin, ""
}

func database(ctx context.Context, _ Surroundings) (State, string, string) {
	found, err := postgres.Look(ctx)
	switch {
	case err == nil:
		return Fine, found, ""
	case errors.Is(err, postgres.ErrFetched):
		return Fine, err.Error(), ""
	}
	if os.Getenv("PG_BIN") != "" {
		return Lacking, err.Error(), "unset PG_BIN, or have it name the folder of a PostgreSQL 16 or later"
	}
	return Lacking, err.Error(), install("npm", "npm")
}

// npm is needed only where there is no PostgreSQL yet.
func npm(ctx context.Context, _ Surroundings) (State, string, string) {
	path, err := exec.LookPath("npm")
	if err == nil {
		return Fine, path, ""
	}
	if _, err := postgres.Look(ctx); err == nil {
		return Without, "there is none, and PostgreSQL is there", ""
	}
	return Lacking, "there is none in PATH", install("npm", "npm")
}

func compiler(ctx context.Context, _ Surroundings) (State, string, string) {
	path, err := exec.LookPath("go")
	if err != nil {
		return Lacking, "there is none in PATH", "put the folder of Go's own programs into PATH: PATH=$PATH:/usr/local/go/bin; where there is none, install Go"
	}
	out, err := exec.CommandContext(ctx, path, "env", "GOVERSION").Output()
	if err != nil {
		return Lacking, fmt.Sprintf("%s does not run: %v", path, err), "install Go anew"
	}
	return Fine, fmt.Sprintf("%s in %s", strings.TrimSpace(string(out)), path), ""
}

func keyValue(ctx context.Context, _ Surroundings) (State, string, string) {
	found, err := etcd.Look(ctx)
	switch {
	case err == nil:
		return Fine, found, ""
	case errors.Is(err, etcd.ErrBuilt):
		return Fine, err.Error(), ""
	}
	return Lacking, err.Error(), "put go into PATH, or set ETCD_BIN to the folder of an etcd 3.6"
}

// waits tells whether the kernel counts for how long threads wait for a processor. Where it does not, a run has no such evidence,
// and SDK-01 judges every client as one that was let run.
func waits(counted func() bool) func(context.Context, Surroundings) (State, string, string) {
	return func(context.Context, Surroundings) (State, string, string) {
		if !counted() {
			return Without, "the kernel does not count for how long threads wait for a processor (/proc/self/schedstat): on an overloaded machine SDK-01 may accuse a client that nobody let run",
				"boot a kernel with CONFIG_SCHED_INFO, which CONFIG_SCHEDSTATS=y or CONFIG_TASK_DELAY_ACCT=y brings"
		}
		return Fine, "the kernel counts for how long threads wait for a processor", ""
	}
}

// browsers are the names that Chromium goes by.
var browsers = []string{"chromium", "chromium-browser", "google-chrome"}

func browser(context.Context, Surroundings) (State, string, string) {
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			return Fine, path, ""
		}
	}
	return Without, "there is none in PATH: those tests are skipped, and reports are written all the same", install("chromium", "chromium")
}

// install is the command that installs a package, by its name on Debian and elsewhere.
func install(debian, elsewhere string) string {
	for _, tool := range []struct{ name, verb, of string }{
		{"apt-get", "install", debian}, {"dnf", "install", elsewhere}, {"apk", "add", elsewhere}, {"pacman", "-S", elsewhere}, {"zypper", "install", elsewhere},
	} {
		if _, err := exec.LookPath(tool.name); err == nil {
			return sudo() + tool.name + " " + tool.verb + " " + tool.of
		}
	}
	return "install " + elsewhere + " with the machine's package tool"
}

// sudo goes before what only root may do.
func sudo() string {
	if os.Geteuid() == 0 {
		return ""
	}
	return "sudo "
}
