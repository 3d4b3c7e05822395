package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// twoAtOnce is a history of a mutex that two processes hold.
const twoAtOnce = `{:type :invoke, :f :acquire, :value nil, :process 0, :time 1, :index 0}
{:type :ok, :f :acquire, :value nil, :process 0, :time 2, :index 1}
{:type :info, :f :start, :process :nemesis, :time 3, :index 2}
{:type :invoke, :f :acquire, :value nil, :process 1, :time 4, :index 3}
{:type :ok, :f :acquire, :value nil, :process 1, :time 5, :index 4}
`

// written is a file with text in a new folder.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAHistoryOfJepsensIsImportedAndJudged(t *testing.T) {
	edn, into := written(t, "history.edn", twoAtOnce), filepath.Join(t.TempDir(), "run")
	out, status := fenceproof(t, "import", edn, "--into", into)
	if status != 0 || !strings.Contains(out, "imported 2 calls on 1 lock") || !strings.Contains(out, "passed over 1 of process :nemesis") || !strings.Contains(out, "fenceproof recheck "+into) {
		t.Fatalf("import ended with %d:\n%s", status, out)
	}
	out, status = fenceproof(t, "recheck", into)
	if status != 1 || !strings.Contains(out, "process-1 was granted key lock, although process-0 held it") ||
		!strings.Contains(out, "not recorded: paydb, lockdb, journal, nemesis, logs, run") {
		t.Errorf("recheck ended with %d:\n%s", status, out)
	}
	if out, status := fenceproof(t, "export", into); status != 0 || !strings.Contains(out, ":type :ok, :process 0, :f :acquire, :value [\"lock\" {:client \"process 0\"}]") {
		t.Errorf("export ended with %d:\n%s", status, out)
	}
}

func TestOneCallIsNotCountedAsSeveral(t *testing.T) {
	for text, want := range map[string]string{
		"{:type :invoke :f :acquire :process 0 :value \"x\"}{:type :ok :f :acquire :process 0 :fence 5}": "imported 1 call on 1 lock, 0 of them without a definite end; 1 grant has a fencing token\n" +
			"1 invocation has a value that was not taken",
		twoAtOnce: "imported 2 calls on 1 lock, 0 of them without a definite end; 0 grants have a fencing token\n",
	} {
		if out, status := fenceproof(t, "import", written(t, "history.edn", text), "--into", filepath.Join(t.TempDir(), "run")); status != 0 || !strings.HasPrefix(out, want) {
			t.Errorf("import ended with %d:\n%s", status, out)
		}
	}
}

// Whoever is shown how the history came about must come to the same verdict by it.
func TestTheCommandThatImportsAgainHasItsFlags(t *testing.T) {
	edn, into := written(t, "history.edn", twoAtOnce), filepath.Join(t.TempDir(), "a run")
	if out, status := fenceproof(t, "import", edn, "--into", into, "--ttl", "2s", "--value-is-key", "--reentrant", "--lock", "l 1"); status != 0 {
		t.Fatal(out)
	}
	text, err := os.ReadFile(filepath.Join(into, "history", "wiretap.ndjson"))
	want := "fenceproof import " + edn + " --into '" + into + "' --ttl 2s --value-is-key --reentrant --lock 'l 1'"
	if err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v: %.600s, want %s", err, text, want)
	}
}

func TestWhatImportAndExportCannotTakeIsWrongUsage(t *testing.T) {
	edn := written(t, "history.edn", twoAtOnce)
	there := filepath.Join(t.TempDir(), "run")
	if out, status := fenceproof(t, "import", edn, "--into", there); status != 0 {
		t.Fatal(out)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a broken history": {[]string{"import", written(t, "x.edn", "{:type :ok}\n{:type :ok :f}"), "--into", t.TempDir()}, "x.edn: line 1, column 1: the operation has no :process"},
		"a token that is none": {[]string{"import", written(t, "x.edn", "{:type :invoke :f :acquire :process 0}\n{:type :ok :f :acquire :process 0 :fence \"5\"}"), "--into", t.TempDir()},
			`x.edn: line 2, column 42: :fence of a grant is "5"`},
		"no EDN at all":        {[]string{"import", written(t, "x.edn", "[{:type :invoke"), "--into", t.TempDir()}, "x.edn: line 1, column 16: the text ends"},
		"no folder":            {[]string{"import", edn}, "--into FOLDER"},
		"a folder in a device": {[]string{"import", edn, "--into", "/dev/null/x"}, "--into /dev/null/x: /dev/null is no folder"},
		"no file":              {[]string{"import", "no-such.edn", "--into", t.TempDir()}, "open the history"},
		"a lease of no time":   {[]string{"import", edn, "--into", t.TempDir(), "--ttl", "1ns"}, "whole milliseconds"},
		"a lock of no name":    {[]string{"import", edn, "--into", t.TempDir(), "--lock", ""}, "--lock is empty"},
		"a folder with a run":  {[]string{"import", edn, "--into", there}, "has a history already"},
		"a mistyped flag":      {[]string{"import", edn, "--inot", there}, "did you mean --into?"},
		"no run":               {[]string{"export", t.TempDir()}, "is no run"},
		"a file that is there": {[]string{"export", there, "--out", edn}, "is there already, and it stays"},
		"no such lock":         {[]string{"export", there, "--key", "other"}, `no call on a lock "other"`},
		"a lease and no times": {[]string{"import", written(t, "x.edn", "{:type :invoke :f :acquire :process 0}"), "--into", t.TempDir(), "--ttl", "2s"}, "has no :time"},
	} {
		t.Run(name, func(t *testing.T) {
			out, status := fenceproof(t, c.args...)
			if status != exitUsage || !strings.Contains(out, c.want) {
				t.Errorf("status %d, want %d and %q:\n%s", status, exitUsage, c.want, out)
			}
		})
	}
	if text, err := os.ReadFile(edn); err != nil || string(text) != twoAtOnce {
		t.Errorf("the file was changed (%v)", err)
	}
}

// Whoever is refused tries again with the same name.
func TestAnExportThatIsRefusedLeavesNoFile(t *testing.T) {
	there := filepath.Join(t.TempDir(), "run")
	if out, status := fenceproof(t, "import", written(t, "history.edn", twoAtOnce), "--into", there); status != 0 {
		t.Fatal(out)
	}
	torn := filepath.Join(t.TempDir(), "run")
	text, err := os.ReadFile(filepath.Join(there, "history", "wiretap.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	end := strings.LastIndex(string(text), `{"trailer"`)
	if err := errors.Join(os.MkdirAll(filepath.Join(torn, "history"), 0o755), os.WriteFile(filepath.Join(torn, "history", "wiretap.ndjson"), text[:end], 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a history that lacks answers": {[]string{torn}, "the answers are not whole"},
		"a lock that nobody asked for": {[]string{there, "--key", "other"}, `no call on a lock "other"`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.edn")
			for range 2 {
				out, status := fenceproof(t, append([]string{"export", "--out", file}, c.args...)...)
				if status != exitUsage || !strings.Contains(out, c.want) {
					t.Errorf("status %d:\n%s", status, out)
				}
			}
			if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 0 {
				t.Errorf("left: %v (%v)", left, err)
			}
			if out, status := fenceproof(t, "export", "--out", file, there); status != 0 || !strings.Contains(out, "exported 4 operations") {
				t.Errorf("status %d:\n%s", status, out)
			}
			if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), ":f :acquire") {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}
