package locktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fenceproof/system/lock"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// chooser is the environment variable that names the broken store on which a test binary runs the contract.
const chooser = "LOCKTEST_BROKEN_STORE"

// Opener opens a Store on what A says.
type Opener[A any] func(A, *slog.Logger) (lock.Store, error)

// As makes an Opener of a package's Open.
func As[A any, S lock.Store](open func(A, *slog.Logger) (S, error)) Opener[A] {
	return func(to A, log *slog.Logger) (lock.Store, error) { return open(to, log) }
}

// RunBroken asks whether the contract's tests can fail. Each *.patch in testdata/broken breaks a rule in a copy of the
// package that is being tested; on the store of that copy, every test that its lines "Must-Fail:" name has to fail, and all
// of its lines "Must-Say:" have to be in what they say: a backend that did not start is no reason. On a copy that nothing
// was changed in, all these tests have to pass, under the same conditions.
//
// The copies exist for the compiler alone. One test binary has them all: in it, the variable openStore of the package's
// tests, an Opener, is the broken package's Open.
func RunBroken(t *testing.T) {
	if raced {
		t.Skip("the broken stores are built without the race detector: a run without it sees them fall")
	}
	t.Parallel()
	patches, err := filepath.Glob("testdata/broken/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("no patches: %v", err)
	}
	var all []*broken
	for _, p := range patches {
		b, err := readBroken(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	intact := &broken{name: "intact", title: "Nothing is broken"}
	for _, b := range all {
		for _, name := range b.tests {
			if !slices.Contains(intact.tests, name) {
				intact.tests = append(intact.tests, name)
			}
		}
	}
	binary := buildBroken(t, append(all, intact))
	t.Run(intact.name, func(t *testing.T) {
		t.Parallel()
		intact.mustPass(t, binary)
	})
	for _, b := range all {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			b.mustFail(t, binary)
		})
	}
}

// broken is a patch and what it says of itself.
type broken struct {
	name  string
	title string
	tests []string
	says  []string
	files []*gitdiff.File
}

func readBroken(path string) (*broken, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	files, preamble, err := gitdiff.Parse(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	b := &broken{name: strings.TrimSuffix(filepath.Base(path), ".patch"), files: files}
	for line := range strings.Lines(preamble) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "Title":
			b.title = value
		case "Must-Fail":
			b.tests = append(b.tests, value)
		case "Must-Say":
			b.says = append(b.says, value)
		}
	}
	if b.title == "" || len(b.tests) == 0 || len(b.says) == 0 || len(files) == 0 {
		return nil, fmt.Errorf("%s needs a Title, a Must-Fail, a Must-Say and a change", path)
	}
	return b, nil
}

// runs bounds how often the named tests are run whose result this machine may have spoiled.
const runs = 3

// mustFail runs the named tests on the broken store. They are run again where they failed for another reason than the
// patch's; a test that passes has had its chance.
func (b *broken) mustFail(t *testing.T, binary string) {
	t.Helper()
	var out []byte
	var missing string
	for range runs {
		out = b.run(t, binary)
		for _, name := range b.tests {
			if !bytes.Contains(out, []byte("--- FAIL: "+name+" ")) {
				t.Fatalf("%s, and %s does not notice:\n%s", b.title, name, out)
			}
		}
		if missing = b.unsaid(out); missing == "" {
			return
		}
	}
	t.Errorf("%s, and nobody says %q:\n%s", b.title, missing, out)
}

// unsaid is the first of what the patch's tests have to say that out has not.
func (b *broken) unsaid(out []byte) string {
	for _, s := range b.says {
		if !bytes.Contains(out, []byte(s)) {
			return s
		}
	}
	return ""
}

// mustPass runs the named tests on the copy that nothing was changed in.
func (b *broken) mustPass(t *testing.T, binary string) {
	t.Helper()
	var out []byte
	for range runs {
		out = b.run(t, binary)
		if !slices.ContainsFunc(b.tests, func(name string) bool { return !bytes.Contains(out, []byte("--- PASS: "+name+" ")) }) {
			return
		}
	}
	t.Errorf("%s, and not all of its tests pass:\n%s", b.title, out)
}

// run runs the named tests on the store, and returns what they said.
func (b *broken) run(t *testing.T, binary string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "-test.timeout=60s", "-test.v", "-test.run="+pattern(b.tests))
	cmd.Env = append(os.Environ(), chooser+"="+b.name)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v\n%s", b.title, err, out)
	}
	return out
}

// pattern is the -run that names the tests, level by level.
func pattern(tests []string) string {
	var levels [][]string
	for _, name := range tests {
		for i, part := range strings.Split(name, "/") {
			if i == len(levels) {
				levels = append(levels, nil)
			}
			levels[i] = append(levels[i], regexp.QuoteMeta(part))
		}
	}
	var all []string
	for _, l := range levels {
		all = append(all, "^("+strings.Join(l, "|")+")$")
	}
	return strings.Join(all, "/")
}

// buildBroken builds the test binary of this package with every broken copy in it.
func buildBroken(t *testing.T, all []*broken) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}} {{.Name}}").Output()
	if err != nil {
		t.Fatalf("find this package: %v", err)
	}
	importPath, name, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	dir, replace := t.TempDir(), map[string]string{}
	imports, cases := "", ""
	for i, b := range all {
		if err := b.copy(filepath.Join(dir, b.name), replace); err != nil {
			t.Fatalf("%s: %v", b.title, err)
		}
		imports += fmt.Sprintf("\tb%d %q\n", i, importPath+"/broken/"+b.name)
		cases += fmt.Sprintf("\tcase %q:\n\t\topenStore = locktest.As(b%d.Open)\n", b.name, i)
	}
	chooses := fmt.Sprintf("package %s_test\n\nimport (\n\t\"os\"\n\t\"fenceproof/system/lock/locktest\"\n%s)\n\nfunc init() {\n\tswitch os.Getenv(%q) {\n%s\t}\n}\n",
		name, imports, chooser, cases)
	if err := put(replace, "broken_stores_test.go", filepath.Join(dir, "broken_stores_test.go"), chooses); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "broken.test")
	if err := os.WriteFile(overlay, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay="+overlay, "-o", binary).CombinedOutput(); err != nil {
		t.Fatalf("build the broken stores: %v\n%s", err, out)
	}
	return binary
}

// put writes text into real, and has the compiler find it at path.
func put(replace map[string]string, path, real, text string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	replace[path] = real
	if err := os.MkdirAll(filepath.Dir(real), 0o755); err != nil {
		return err
	}
	return os.WriteFile(real, []byte(text), 0o644)
}

// copy copies the package with the patch's changes into dir, which the compiler finds below broken/.
func (b *broken) copy(dir string, replace map[string]string) error {
	sources, err := filepath.Glob("*.go")
	if err != nil {
		return err
	}
	statements, err := filepath.Glob("sql/*.sql")
	if err != nil {
		return err
	}
	changed := 0
	for _, source := range append(sources, statements...) {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		text, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		patched := string(text)
		for _, f := range b.files {
			if f.OldName != source {
				continue
			}
			changed++
			for _, fragment := range f.TextFragments {
				if patched, err = change(patched, fragment); err != nil {
					return fmt.Errorf("%s: %w", source, err)
				}
			}
		}
		if err := put(replace, filepath.Join("broken", b.name, source), filepath.Join(dir, source), patched); err != nil {
			return err
		}
	}
	if changed != len(b.files) {
		return errors.New("the patch changes a file that is none of the package")
	}
	return nil
}

// change changes text as a fragment says, which is found by its lines and not by its place: they must be there once.
func change(text string, f *gitdiff.TextFragment) (string, error) {
	var before, after strings.Builder
	for _, l := range f.Lines {
		if l.Op != gitdiff.OpAdd {
			before.WriteString(l.Line)
		}
		if l.Op != gitdiff.OpDelete {
			after.WriteString(l.Line)
		}
	}
	if n := strings.Count(text, before.String()); n != 1 {
		return "", fmt.Errorf("the lines to change are there %d times:\n%s", n, before.String())
	}
	return strings.Replace(text, before.String(), after.String(), 1), nil
}
