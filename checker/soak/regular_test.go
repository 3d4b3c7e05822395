package soak

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// soon is what f gives, or a failure of the test where f waits for something that never comes.
func soon(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("it hangs")
		return nil
	}
}

func TestAPipeOrADeviceInPlaceOfAFileIsRefusedAndNotWaitedFor(t *testing.T) {
	for _, name := range []string{settingsFile, linesFile} {
		for kind, place := range map[string]func(path string) error{
			"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o644) },
			"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
			"a folder": func(path string) error { return os.Mkdir(path, 0o755) },
		} {
			f := folderOf(t, nil, ran("pause", 1, "pass"))
			path := filepath.Join(f.Dir, name)
			if err := errors.Join(writeJSON(filepath.Join(f.Dir, settingsFile), f.head), f.close(), os.Remove(path), place(path)); err != nil {
				t.Fatal(err)
			}
			for what, do := range map[string]func() error{
				"read": func() error { _, err := Read(f.Dir); return err },
				"continue": func() error {
					_, err := open(f.Dir, Settings{}, nil, nil, Session{}, 0)
					return err
				},
			} {
				if err := soon(t, do); err == nil || !strings.Contains(err.Error(), path+" is no regular file") {
					t.Errorf("%s for %s, %s: %v", kind, name, what, err)
				}
			}
		}
	}
	for _, name := range []string{summaryFile, pageFile} {
		f := folderOf(t, nil, ran("pause", 1, "pass"))
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := errors.Join(syscall.Mkfifo(pipe, 0o644), os.Symlink(pipe, filepath.Join(f.Dir, name))); err != nil {
			t.Fatal(err)
		}
		err := soon(t, func() error { _, err := f.Summarise(); return err })
		if is, e := os.Stat(pipe); err == nil || !strings.Contains(err.Error(), pipe+" is no regular file") || e != nil || is.Mode().IsRegular() {
			t.Errorf("%s: %v; the pipe is %v (%v)", name, err, is.Mode(), e)
		}
	}
	doc := filepath.Join(t.TempDir(), "doc.md")
	if err := syscall.Mkfifo(doc, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, do := range []func() error{func() error { return Placed(doc) }, func() error { return (&Summary{}).WriteInto(doc) }} {
		if err := soon(t, do); err == nil || !strings.Contains(err.Error(), doc+" is no regular file") {
			t.Errorf("%v", err)
		}
	}
}

func TestLinesWithoutTheirSettingsAreRefusedAndNothingOfThemChanges(t *testing.T) {
	f := folderOf(t, nil, ran("pause", 1, "pass"))
	if err := errors.Join(f.close(), os.Remove(filepath.Join(f.Dir, settingsFile))); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(filepath.Join(f.Dir, linesFile))
	const says = "has soak.ndjson and no soak.json, so what it runs is not known: put its soak.json back, or begin another soak in a new folder"
	for what, do := range map[string]func() error{
		"look":     func() error { _, err := Begun(f.Dir); return err },
		"read":     func() error { _, err := Read(f.Dir); return err },
		"continue": func() error { _, err := open(f.Dir, Settings{}, nil, nil, Session{}, 0); return err },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after, _ := os.ReadFile(filepath.Join(f.Dir, linesFile)); string(after) != string(before) {
		t.Errorf("the lines were\n%s\nand are\n%s", before, after)
	}
}

func TestASoakThatWasKilledBeforeItHadWrittenAnythingIsBegunAnew(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, linesFile), nil, 0o644), os.Mkdir(filepath.Join(dir, runsDir), 0o755), os.Mkdir(filepath.Join(dir, outputDir), 0o755)); err != nil {
		t.Fatal(err)
	}
	if begun, err := Begun(dir); begun || err != nil {
		t.Fatalf("%v, %v", begun, err)
	}
	if err := os.WriteFile(filepath.Join(dir, runsDir, "a run"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if begun, err := Begun(dir); begun || !errors.Is(err, ErrNoSoak) {
		t.Errorf("runs that no soak began: %v, %v", begun, err)
	}
}
