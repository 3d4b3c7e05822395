package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Bump is how far past its snapshot a restored etcd is moved, in revisions. It plays the margin's part: it has to be more
// than etcd has gone on since the snapshot was taken.
const Bump = 1_000_000_000

// Snapshot is the first step of the guard of the etcd backend: it makes a member's data directory from a snapshot.
type Snapshot struct {
	Etcdutl       string // the program
	File          string // the snapshot
	DataDir       string // what to make; it must not exist
	SkipHashCheck bool   // for a copy of a member's database, which bears no checksum
	// Member says which member's data it is: etcdutl's flags --name, --initial-cluster, --initial-cluster-token and
	// --initial-advertise-peer-urls, each where given.
	Member map[string]string
}

// Revision is the revision at which the snapshot was taken.
func (s Snapshot) Revision(ctx context.Context) (int64, error) { return s.revisionOf(ctx, s.File) }

// Plan is by how much o bumps a snapshot of that revision: by Bump, or by more where a floor asks for it.
func (o Order) Plan(revision int64) (bump int64, err error) {
	if o.Floor != 0 {
		if _, err := o.target(0); err != nil {
			return 0, err
		}
	}
	bump = max(Bump, o.Floor-revision)
	switch {
	case revision > math.MaxInt64-Margin-bump:
		return 0, fmt.Errorf("revision %d of the snapshot, moved by %d, leaves fewer than %d revisions up to 2^63-1, the last there is", revision, bump, int64(Margin))
	case o.Seen.Token >= revision+bump:
		return 0, fmt.Errorf("paydb has seen %s, and the snapshot of revision %d, moved by %d, would not be past it; give a --floor that is", o.Seen, revision, bump)
	}
	return bump, nil
}

// Restore makes the data directory and returns the revision that it stands at. Where it returns an error it has left
// nothing behind.
func (s Snapshot) Restore(ctx context.Context, o Order) (revision int64, err error) {
	if _, err := os.Lstat(s.DataDir); !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("%s exists already: an etcd is restored into a directory that does not", s.DataDir)
	}
	from, err := s.Revision(ctx)
	if err != nil {
		return 0, err
	}
	bump, err := o.Plan(from)
	if err != nil {
		return 0, err
	}
	revision, err = s.restore(ctx, bump)
	if err == nil && revision <= max(o.Seen.Token, o.Floor-1) {
		err = fmt.Errorf("%s stands at revision %d, which is not past %s", s.DataDir, revision, o.Seen)
	}
	if err != nil {
		return 0, errors.Join(err, os.RemoveAll(s.DataDir))
	}
	return revision, nil
}

func (s Snapshot) restore(ctx context.Context, bump int64) (int64, error) {
	args := []string{"snapshot", "restore", s.File, "--data-dir", s.DataDir, "--bump-revision", fmt.Sprint(bump), "--mark-compacted"}
	for name, value := range s.Member {
		args = append(args, "--"+name, value)
	}
	if s.SkipHashCheck {
		args = append(args, "--skip-hash-check")
	}
	if _, err := s.run(ctx, args...); err != nil {
		return 0, fmt.Errorf("restore %s: %w", s.File, err)
	}
	return s.revisionOf(ctx, filepath.Join(s.DataDir, "member", "snap", "db"))
}

// revisionOf is the revision of a database's file.
func (s Snapshot) revisionOf(ctx context.Context, file string) (int64, error) {
	out, err := s.run(ctx, "snapshot", "status", file, "--write-out", "json")
	if err != nil {
		return 0, fmt.Errorf("read the revision of %s: %w", file, err)
	}
	var status struct {
		Revision *int64 `json:"revision"`
	}
	if err := json.Unmarshal(out, &status); err != nil || status.Revision == nil || *status.Revision < 0 {
		return 0, fmt.Errorf("read the revision of %s: etcdutl answers %.200q", file, out)
	}
	return *status.Revision, nil
}

// run runs etcdutl and gives its standard output. What it says when it fails ends its error output.
func (s Snapshot) run(ctx context.Context, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, s.Etcdutl, args...)
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no program %q: have --etcdutl or ETCDUTL name etcd's etcdutl, release 3.6 or later", s.Etcdutl)
	}
	if err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return nil, fmt.Errorf("%s: %w: %s", s.Etcdutl, err, lines[len(lines)-1])
	}
	return out, nil
}
