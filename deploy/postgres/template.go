package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fenceproof/deploy/filelock"
)

// initArguments are initdb's, without the directory: byte order and UTF-8 whatever the machine's language, no password
// because nothing but the loopback address reaches the server.
var initArguments = []string{"-U", superuser, "-A", "trust", "--no-sync", "--no-instructions", "--locale=C", "--encoding=UTF8"}

// superuser is the name of every instance's superuser.
const superuser = "postgres"

// ensureTemplate gives the data directory that all instances are copied from; it is initialised on first use.
func ensureTemplate(ctx context.Context, p programs, a account, cache string, progress func(string)) (string, error) {
	home := filepath.Join(cache, "templates")
	template := filepath.Join(home, templateName(p, a))
	if _, err := os.Stat(template); err == nil {
		return template, nil
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for data directories: %w", err)
	}
	unlock, err := filelock.Lock(ctx, filepath.Join(home, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(template); err == nil {
		return template, nil // another process was faster
	}
	progress("initialising a PostgreSQL " + p.version.String() + " data directory in " + template)
	work := template + ".partial"
	if err := os.RemoveAll(work); err != nil { // of a process that was killed
		return "", fmt.Errorf("remove an earlier attempt: %w", err)
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return "", fmt.Errorf("make a data directory: %w", err)
	}
	if err := a.own(work); err != nil {
		return "", err
	}
	_, err = a.run(ctx, p.path("initdb"), append([]string{"-D", work}, initArguments...), home)
	if err != nil {
		return "", fmt.Errorf("initialise a data directory: %w", err)
	}
	if err := os.Rename(work, template); err != nil {
		return "", fmt.Errorf("put the data directory in place: %w", err)
	}
	return template, nil
}

// templateName differs for whatever makes one data directory unfit for another use: programs, owner, options.
func templateName(p programs, a account) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{p.folder, p.version.String(), a.name}, initArguments...), "\x00")))
	return p.version.String() + "-" + hex.EncodeToString(sum[:6])
}

// copyTree copies the data directory src, whose server does not run, to dst, which must be empty or not exist, and hands it
// to the account.
func (a account) copyTree(dst, src string) error {
	return filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dst, rel)
		switch {
		case d.IsDir():
			if err = os.Mkdir(to, 0o700); rel == "." && errors.Is(err, os.ErrExist) {
				err = nil // a volume is mounted there, or was
			}
		case d.Type().IsRegular() && (d.Name() == "postmaster.pid" || d.Name() == filler):
			return nil
		case d.Type().IsRegular():
			err = copyFile(to, path)
		default:
			return fmt.Errorf("copy %s: it is neither file nor folder", path)
		}
		if err != nil {
			return fmt.Errorf("copy a data directory: %w", err)
		}
		return a.own(to)
	})
}

func copyFile(dst, src string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in) // the kernel copies, where it can without reading
	return errors.Join(err, out.Close())
}
