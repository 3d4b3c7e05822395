package mutant

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrStale says that this program was not built from the checkout whose mutants it was asked for.
var ErrStale = errors.New("this program was built from other sources; run `make build` first")

// Sources are the files that runs are made from, by their paths in the module, each with its SHA-256 in hexadecimal:
// those that the suite and the services are compiled from. Patches and plans are told apart for each mutant by itself.
type Sources map[string]string

// sourcesOf asks the compiler for the sources in the module's folder root.
func sourcesOf(ctx context.Context, root string) (Sources, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Dir,Module,GoFiles,CgoFiles,SFiles,EmbedFiles", lockClients, "./system/cmd/...")
	cmd.Dir = root
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the sources: %w\n%s", err, bytes.TrimSpace(complaint.Bytes()))
	}
	files := []string{"go.mod", "go.sum"}
	for from := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir                                   string
			Module                                *struct{ Main bool }
			GoFiles, CgoFiles, SFiles, EmbedFiles []string
		}
		if err := from.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("list the sources: %w", err)
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}
		dir, err := filepath.Rel(root, p.Dir)
		if err != nil {
			return nil, fmt.Errorf("list the sources: %w", err)
		}
		for _, f := range slices.Concat(p.GoFiles, p.CgoFiles, p.SFiles, p.EmbedFiles) {
			if f = path.Join(filepath.ToSlash(dir), f); !ofOneMutant(f) {
				files = append(files, f)
			}
		}
	}
	return digest(root, slices.Values(files))
}

// ofOneMutant tells whether a file is a patch or a plan.
func ofOneMutant(file string) bool {
	return strings.HasPrefix(file, "checker/mutant/patches/") || strings.HasPrefix(file, "checker/mutant/plans/")
}

// digest reads these files of the module at root.
func digest(root string, files func(func(string) bool)) (Sources, error) {
	all := Sources{}
	for f := range files {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(f)))
		if err != nil {
			return nil, fmt.Errorf("read the sources: %w", err)
		}
		all[f] = fmt.Sprintf("%x", sha256.Sum256(text))
	}
	return all, nil
}

// changed is the first file that now has and s has not, or the other way round, or that is another; "" where none is.
func (s Sources) changed(now Sources) string {
	for _, f := range slices.Sorted(maps.Keys(s)) {
		if now[f] != s[f] {
			return f
		}
	}
	for _, f := range slices.Sorted(maps.Keys(now)) {
		if _, ok := s[f]; !ok {
			return f
		}
	}
	return ""
}

// same fails where a file of the sources at root is not what it was. A matrix takes long enough for somebody to work on
// them meanwhile, and what its runs show must be of one system.
func (s Sources) same(root string) error {
	now, err := digest(root, maps.Keys(s))
	if err != nil {
		return err
	}
	if f := s.changed(now); f != "" {
		return errChanged(f)
	}
	return nil
}

func errChanged(file string) error {
	return fmt.Errorf("%s was changed, made or removed while mutants were run; put it back, or begin another matrix", file)
}

// fresh fails where this program, built at the time built, is older than the sources at root, or has other patches or
// plans than are there: it would judge by rules that are no longer those of the checkout.
func (s Sources) fresh(root string, built time.Time) error {
	for f := range s {
		is, err := os.Stat(filepath.Join(root, filepath.FromSlash(f)))
		if err != nil {
			return fmt.Errorf("look at the sources: %w", err)
		}
		if is.ModTime().After(built) {
			return fmt.Errorf("%w (%s is newer)", ErrStale, f)
		}
	}
	for dir, own := range map[string]fs.FS{"patches": patches, "plans": plans} {
		there, err := os.ReadDir(filepath.Join(root, "checker", "mutant", dir))
		if err != nil {
			return fmt.Errorf("look at the %s: %w", dir, err)
		}
		mine, err := fs.ReadDir(own, dir)
		if err != nil {
			return fmt.Errorf("look at the %s: %w", dir, err)
		}
		if len(mine) != len(there) {
			return fmt.Errorf("%w (it has %d %s, and there are %d)", ErrStale, len(mine), dir, len(there))
		}
		for _, e := range mine {
			a, errA := fs.ReadFile(own, dir+"/"+e.Name())
			b, errB := os.ReadFile(filepath.Join(root, "checker", "mutant", dir, e.Name()))
			if errA != nil || errB != nil || !bytes.Equal(a, b) {
				return fmt.Errorf("%w (%s/%s is another)", ErrStale, dir, e.Name())
			}
		}
	}
	return nil
}

// ownTime is when this program was built.
func ownTime() (time.Time, error) {
	exe, err := os.Executable()
	if err != nil {
		return time.Time{}, fmt.Errorf("find this program: %w", err)
	}
	is, err := os.Stat(exe)
	if err != nil {
		return time.Time{}, fmt.Errorf("find this program: %w", err)
	}
	return is.ModTime(), nil
}
