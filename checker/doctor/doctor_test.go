package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fenceproof/deploy/local/warden"
	"fenceproof/deploy/process"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	warden.RunIfAsked()
	RunIfAsked()
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
	for _, name := range []string{"volume", "clock", "cgroup"} {
		if f := all[name]; f.State != Fine {
			t.Skipf("of what was tried the %s could not be made here, so nothing of it can be left: %s", name, f.Found)
		}
	}
	if _, err := os.Stat(all["cgroup"].Found); err == nil {
		t.Errorf("cgroup %s is left", all["cgroup"].Found)
	}
	if living, err := process.Descendants(os.Getpid()); err != nil || len(living) > 0 {
		t.Errorf("processes are left: %v %v", living, err)
	}
}
