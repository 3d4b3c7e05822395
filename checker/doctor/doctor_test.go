package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fenceproof/deploy/local/warden"
	"fenceproof/deploy/process"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	warden.RunIfAsked()
	RunIfAsked()
	openedWard()
	goleak.VerifyTestMain(m)
}

// bare is a machine with nothing on its PATH, and with empty caches.
func bare(t *testing.T) {
	t.Helper()
	home, err := os.MkdirTemp("", "fenceproof-bare-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(home, 0o755); err != nil { // PostgreSQL's user must be able to enter it
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(home, "none"))
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", home)
	t.Setenv("PG_BIN", "")
	t.Setenv("ETCD_BIN", "")
}

func examine(t *testing.T, s Surroundings) map[string]Finding {
	t.Helper()
	r, err := Examine(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Finding{}
	for _, f := range r.Findings {
		all[f.Name] = f
		if f.State == Lacking && r.Fit {
			t.Errorf("%s is lacking, and the machine is fit", f.Name)
		}
		if f.State != Fine && f.Mend == "" && f.Name != "npm" {
			t.Errorf("%s is %s (%s), and nobody says what to do", f.Name, f.State, f.Found)
		}
		if f.State == Fine && f.Mend != "" {
			t.Errorf("%s is fine, and is to be mended: %s", f.Name, f.Mend)
		}
	}
	return all
}

func TestAMachineWithoutProgramsIsToldWhatToType(t *testing.T) {
	bare(t)
	t.Setenv("PG_BIN", "/nowhere")
	all := examine(t, Surroundings{Runs: t.TempDir(), Bin: t.TempDir()})
	for name, want := range map[string]struct {
		state State
		mend  string
	}{
		"programs":   {Lacking, "make build"},
		"PostgreSQL": {Lacking, "PG_BIN"},
		"npm":        {Lacking, "npm"},
		"Go":         {Lacking, "PATH"},
		"etcd":       {Lacking, "ETCD_BIN"},
		"Chromium":   {Without, "chromium"},
		"clock":      {Lacking, "PATH"},
		"system":     {Fine, ""},
		"user":       {Fine, ""},
	} {
		if f := all[name]; f.State != want.state || !strings.Contains(f.Mend, want.mend) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestWithPostgreSQLAtHandNobodyNeedsNpm(t *testing.T) {
	bare(t)
	t.Setenv("PG_BIN", fakePostgreSQL(t))
	all := examine(t, Surroundings{Runs: t.TempDir(), Bin: t.TempDir()})
	if f := all["PostgreSQL"]; f.State != Fine || !strings.Contains(f.Found, "PostgreSQL 16.14") {
		t.Errorf("PostgreSQL: %+v", f)
	}
	if f := all["npm"]; f.State != Without {
		t.Errorf("npm: %+v", f)
	}
}

// What may be made where is asked as somebody whose folder it is not: root may write anywhere.
func TestAFolderInWhichNoRunCanBeMadeIsSaidToBeOne(t *testing.T) {
	home, err := os.MkdirTemp("", "fenceproof-others-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(home, 0o555); err != nil {
		t.Fatal(err)
	}
	w, err := openWard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for _, folder := range []string{home, filepath.Join(home, "runs"), filepath.Join(home, "some", "runs")} {
		_ = process.As(process.User{UID: 65534, GID: 65534}, func() error {
			state, found, mend := w.runs(t.Context(), Surroundings{Runs: folder})
			if state != Lacking || !strings.Contains(found, "permission denied") || !strings.Contains(mend, "--runs FOLDER") ||
				!strings.Contains(mend, fmt.Sprintf("chown %d %s", os.Geteuid(), home)) {
				t.Errorf("%s is %s: %s; %s", folder, state, found, mend)
			}
			return nil
		})
	}
	mine := t.TempDir()
	for _, folder := range []string{mine, filepath.Join(mine, "some", "runs"), os.TempDir()} {
		if state, found, _ := w.runs(t.Context(), Surroundings{Runs: folder}); state != Fine {
			t.Errorf("%s is %s: %s", folder, state, found)
		}
	}
	if left, err := os.ReadDir(mine); err != nil || len(left) != 0 {
		t.Errorf("trying it left %v (%v)", left, err)
	}
}

// fakePostgreSQL is a folder with programs that say what PostgreSQL's say of their version.
func fakePostgreSQL(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(os.Getenv("HOME"), "pg")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\necho '"+name+" (PostgreSQL) 16.14'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestWhatIsTriedLeavesNothingBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	all := examine(t, Surroundings{Runs: t.TempDir(), Bin: t.TempDir()})
	after, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || string(after) != string(mounts) {
		t.Errorf("a mount is left, %v:\n%s", err, after)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "fenceproof-doctor-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("folders are left: %v %v", left, err)
	}
	if living, err := process.Descendants(os.Getpid()); err != nil || len(living) > 0 {
		t.Errorf("processes are left: %v %v", living, err)
	}
	if f := all["cgroup"]; f.State == Fine {
		if _, err := os.Stat(f.Found); err == nil {
			t.Errorf("cgroup %s is left", f.Found)
		}
	}
	for _, name := range []string{"volume", "clock", "cgroup"} {
		if f := all[name]; f.State != Fine {
			t.Skipf("of what was tried the %s could not be made here, so nothing of it can have been left: %s", name, f.Found)
		}
	}
}

// wardVariable makes this program one that has a ward, says where, and waits until it is killed.
const wardVariable = "FENCEPROOF_DOCTOR_TEST_WARD"

func openedWard() {
	if os.Getenv(wardVariable) == "" {
		return
	}
	w, err := openWard(context.Background())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(w.dir)
	_, _ = io.Copy(io.Discard, os.Stdin) // which nobody closes before it is killed
	os.Exit(1)
}

func TestAKilledProgramLeavesNothingOfWhatItWasTrying(t *testing.T) {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), wardVariable+"=1", "TMPDIR="+t.TempDir())
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	dir := strings.TrimSpace(line)
	if _, there := os.Stat(dir); err != nil || there != nil {
		t.Errorf("it says %q: %v, %v", line, err, there)
	}
	err = c.Process.Kill()
	if _, ended := c.Process.Wait(); err != nil || ended != nil {
		t.Fatal(err, ended)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) { // the pause between two looks at the condition
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s is left", dir)
		}
	}
}
