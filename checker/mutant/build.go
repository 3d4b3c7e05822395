package mutant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Why a mutant that could not be run is no kill.
var (
	ErrApply = errors.New("the patch does not apply")
	ErrBuild = errors.New("it does not build")
)

// lockClients is the program of the lock clients: a part of the suite that runs beside the services.
const lockClients = "./checker/cmd/fenceproof"

// Builder builds the services of the module at Root into folders below Scratch.
type Builder struct {
	Root    string // the module's folder
	Scratch string
}

// FindRoot is the folder of the module that dir is in. It must be fenceproof's own: its sources are what is patched.
func FindRoot(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the sources: %w", err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			if !strings.HasPrefix(string(text), "module fenceproof\n") {
				return "", fmt.Errorf("%s is no checkout of fenceproof; mutants are made from its sources", dir)
			}
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no checkout of fenceproof is here or above; mutants are made from its sources, so run this in one")
		}
		dir = filepath.Dir(dir)
	}
}

// Healthy builds all services as they are, and the lock clients, and returns the folder of their binaries.
func (b Builder) Healthy(ctx context.Context) (bin string, err error) {
	bin = filepath.Join(b.Scratch, "healthy")
	if err := b.build(ctx, bin, "", "./system/cmd/...", lockClients); err != nil {
		return "", fmt.Errorf("build the healthy services: %w", err)
	}
	return bin, nil
}

// Mutant builds the services of m from its patched sources. The folder that it returns has those of healthy beside them.
func (b Builder) Mutant(ctx context.Context, m Mutant, healthy string) (bin string, err error) {
	dir := filepath.Join(b.Scratch, m.Name)
	overlay, err := b.overlay(m, dir)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrApply, err)
	}
	bin = filepath.Join(dir, "bin")
	if err := b.build(ctx, bin, overlay, m.packages()...); err != nil {
		return "", fmt.Errorf("%w: %w", ErrBuild, err)
	}
	others, err := os.ReadDir(healthy)
	if err != nil {
		return "", fmt.Errorf("find the healthy services: %w", err)
	}
	for _, o := range others {
		if slices.Contains(m.Services, o.Name()) {
			continue
		}
		if err := os.Symlink(filepath.Join(healthy, o.Name()), filepath.Join(bin, o.Name())); err != nil {
			return "", fmt.Errorf("put the healthy services beside: %w", err)
		}
	}
	return bin, nil
}

// remove removes what was built for m: the binaries of all of them are gigabytes.
func (b Builder) remove(m Mutant) error {
	for _, x := range []Mutant{m, m.control()} {
		if err := os.RemoveAll(filepath.Join(b.Scratch, x.Name)); err != nil {
			return fmt.Errorf("remove the build of %s: %w", x.Name, err)
		}
	}
	return nil
}

// Check applies and compiles m, and links nothing.
func (b Builder) Check(ctx context.Context, m Mutant) error {
	overlay, err := b.overlay(m, filepath.Join(b.Scratch, m.Name))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrApply, err)
	}
	if err := b.build(ctx, "", overlay, m.packages()...); err != nil {
		return fmt.Errorf("%w: %w", ErrBuild, err)
	}
	return nil
}

func (m Mutant) packages() (all []string) {
	for _, s := range m.Services {
		all = append(all, "./system/cmd/"+s)
	}
	return all
}

// build compiles packages into the folder bin; without one it only sees whether they compile, and links nothing.
func (b Builder) build(ctx context.Context, bin, overlay string, packages ...string) error {
	args := []string{"list", "-export", "-f", ""}
	if bin != "" {
		if err := os.MkdirAll(bin, 0o755); err != nil {
			return err
		}
		args = []string{"build", "-o", bin + string(filepath.Separator)}
	}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Dir = b.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, bytes.TrimSpace(out))
	}
	return nil
}

// overlay writes the patched files of m and the file that tells the compiler to read them in place of the originals.
func (b Builder) overlay(m Mutant, dir string) (string, error) {
	replace := map[string]string{}
	for _, f := range m.files {
		original := filepath.Join(b.Root, filepath.FromSlash(f.OldName))
		if f.IsNew || f.IsDelete || f.IsRename || f.IsBinary {
			return "", fmt.Errorf("%s: a mutant changes lines of files, and makes, renames or removes none", f.NewName)
		}
		if f.OldName != path.Clean(f.OldName) || !strings.HasPrefix(f.OldName, "system/") && !strings.HasPrefix(f.OldName, "migrations/") {
			return "", fmt.Errorf("%s is no source of the system", f.OldName)
		}
		source, err := os.ReadFile(original)
		if err != nil {
			return "", err
		}
		patched, err := apply(string(source), f.TextFragments)
		if err != nil {
			return "", fmt.Errorf("%s: %w", f.OldName, err)
		}
		replace[original] = filepath.Join(dir, "src", filepath.FromSlash(f.OldName))
		if err := os.MkdirAll(filepath.Dir(replace[original]), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(replace[original], []byte(patched), 0o644); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}

// apply changes source as the fragments say. A fragment is found by its lines and not by its position, so that a patch
// stands changes elsewhere in the file; where its lines occur twice, or not at all, it does not apply.
func apply(source string, fragments []*gitdiff.TextFragment) (string, error) {
	if len(fragments) == 0 {
		return "", errors.New("nothing is changed")
	}
	for _, f := range fragments {
		var before, after strings.Builder
		for _, l := range f.Lines {
			if l.Op != gitdiff.OpAdd {
				before.WriteString(l.Line)
			}
			if l.Op != gitdiff.OpDelete {
				after.WriteString(l.Line)
			}
		}
		switch n := occurrences(source, before.String()); n {
		case 1:
		case 0:
			return "", fmt.Errorf("the lines of %s are not there any more", strings.TrimSpace(f.Header()))
		default:
			return "", fmt.Errorf("the lines of %s are there %d times; give more context", strings.TrimSpace(f.Header()), n)
		}
		i := find(source, before.String())
		source = source[:i] + after.String() + source[i+before.Len():]
	}
	return source, nil
}

// occurrences counts where whole lines of source are those of lines.
func occurrences(source, lines string) (n int) {
	for from := 0; ; n++ {
		i := find(source[from:], lines)
		if i < 0 {
			return n
		}
		end := strings.IndexByte(source[from+i:], '\n')
		if end < 0 {
			return n + 1
		}
		from += i + end + 1
	}
}

// find is the place of the first whole lines of source that are lines, −1 for none. lines ends with a newline.
func find(source, lines string) int {
	if strings.HasPrefix(source, lines) {
		return 0
	}
	if i := strings.Index(source, "\n"+lines); i >= 0 {
		return i + 1
	}
	return -1
}
