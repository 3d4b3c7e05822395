package etcd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// folderOf makes a folder with programs that say these versions and do nothing else.
func folderOf(t *testing.T, server, tool string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"etcd": "etcd Version: " + server, "etcdutl": "etcdutl version: " + tool} {
		script(t, filepath.Join(dir, name), "echo '"+text+"'")
	}
	return dir
}

func script(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestTheUsersOwnEtcdIsTakenWhenItIsNewEnoughAndOfOnePiece(t *testing.T) {
	for _, c := range []struct{ server, tool, want string }{
		{"3.6.0", "3.6.0", ""},
		{"3.10.1", "3.10.1", ""},
		{"4.0.0-rc.1", "4.0.0-rc.1", ""},
		{"3.5.21", "3.5.21", "it holds etcd 3.5.21; 3.6 or later is needed"},
		{"2.9.0", "2.9.0", "it holds etcd 2.9.0"},
		{"3.6.14", "3.6.13", "they must be of one release"},
		{"unknown", "3.6.14", "answered"},
	} {
		t.Setenv("ETCD_BIN", folderOf(t, c.server, c.tool))
		in, err := Prepare(t.Context(), nil)
		switch {
		case c.want == "" && (err != nil || in.Version() != c.server):
			t.Errorf("%s: %v", c.server, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "ETCD_BIN=")):
			t.Errorf("%s and %s: got %v, want %q", c.server, c.tool, err, c.want)
		}
	}
	t.Setenv("ETCD_BIN", t.TempDir())
	if _, err := Prepare(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "no usable etcd") {
		t.Errorf("an empty folder: %v", err)
	}
}

// fakeGo puts a go in the PATH that runs this script, and an empty cache in the place of the user's.
func fakeGo(t *testing.T, text string) {
	t.Helper()
	dir := t.TempDir()
	script(t, filepath.Join(dir, "go"), text)
	t.Setenv("ETCD_BIN", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

// building counts its runs in the cache and makes programs that only say their versions.
const building = `echo run >> "$XDG_CACHE_HOME/runs"
grep -q '^module ' go.mod && grep -q 'go.etcd.io/bbolt' go.sum || exit 1
for n in server etcdctl etcdutl; do printf '#!/bin/sh\necho "etcd Version: 3.6.14"\necho "etcdutl version: 3.6.14"\n' > $n; chmod +x $n; done`

func TestSeveralAtOnceBuildOnceAndLaterOnesNeedNoCompiler(t *testing.T) {
	fakeGo(t, building)
	var mu sync.Mutex
	var lines []string
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			_, err := Prepare(t.Context(), func(line string) { mu.Lock(); defer mu.Unlock(); lines = append(lines, line) })
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	runs, err := os.ReadFile(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "runs"))
	if err != nil || string(runs) != "run\n" {
		t.Errorf("built: %q %v", runs, err)
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "etcd 3.6.14") || !strings.Contains(lines[0], os.Getenv("XDG_CACHE_HOME")) {
		t.Errorf("said: %q", lines)
	}
	t.Setenv("PATH", "/usr/bin:/bin")
	if _, err := Prepare(t.Context(), nil); err != nil {
		t.Errorf("later: %v", err)
	}
}

func TestABuildThatFailsOrIsCancelledLeavesNothingThatCouldBeTakenForEtcd(t *testing.T) {
	fakeGo(t, "echo 'dial tcp: no such host' >&2; exit 1")
	if _, err := Prepare(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "is there a network?") || !strings.Contains(err.Error(), "no such host") {
		t.Errorf("no network: %v", err)
	}
	script(t, filepath.Join(filepath.SplitList(os.Getenv("PATH"))[0], "go"), "touch server etcdctl etcdutl\necho $$ > \"$XDG_CACHE_HOME/pid\"\nsleep 600 & wait")
	ctx, cancel := context.WithCancel(t.Context())
	pid := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "pid")
	go func() { // ended by the cancellation that it waits to make
		for !exists(pid) && t.Context().Err() == nil {
			time.Sleep(time.Millisecond) // between two looks
		}
		cancel()
	}()
	if _, err := Prepare(ctx, nil); err == nil {
		t.Error("a cancelled build succeeded")
	}
	cache, err := cacheFolder()
	if err != nil {
		t.Fatal(err)
	}
	if exists(buildFolder(cache)) {
		t.Error("a build that was cut off is in the place of a whole one")
	}
	script(t, filepath.Join(filepath.SplitList(os.Getenv("PATH"))[0], "go"), building)
	if _, err := Prepare(t.Context(), nil); err != nil {
		t.Errorf("after that: %v", err)
	}
}

func TestWithoutACompilerTheUserIsToldOfBothWays(t *testing.T) {
	t.Setenv("ETCD_BIN", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	_, err := Prepare(t.Context(), func(line string) { t.Errorf("it said that it builds: %s", line) })
	if err == nil || !strings.Contains(err.Error(), "install Go") || !strings.Contains(err.Error(), "ETCD_BIN") {
		t.Errorf("got %v", err)
	}
}

func TestTheToolsModuleNamesOneRelease(t *testing.T) {
	for _, b := range builds {
		if want := fmt.Sprintf("%s v%s ", b.source, pinned()); !strings.Contains(string(toolsModule), want) {
			t.Errorf("%s is not of release %s", b.source, pinned())
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
