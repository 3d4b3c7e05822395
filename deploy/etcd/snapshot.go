package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Endpoints is how programs are told of several members: their URLs with commas between them.
func Endpoints(urls []string) string { return strings.Join(urls, ",") }

// SaveSnapshot has the member write out its database as it is now, with a checksum, to file, which must not exist.
func (m *Member) SaveSnapshot(ctx context.Context, file string) error {
	if err := m.saveSnapshot(ctx, file); err != nil {
		return errors.Join(fmt.Errorf("take a snapshot of %s: %w", m.name, err), os.RemoveAll(file))
	}
	return nil
}

func (m *Member) saveSnapshot(ctx context.Context, file string) error {
	conn, err := grpc.NewClient("passthrough:///"+m.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return err
	}
	defer conn.Close()
	from, err := etcdserverpb.NewMaintenanceClient(conn).Snapshot(ctx, &etcdserverpb.SnapshotRequest{})
	if err != nil {
		return err
	}
	to, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(copySnapshot(to, from), to.Close())
}

func copySnapshot(to io.Writer, from etcdserverpb.Maintenance_SnapshotClient) error {
	for {
		part, err := from.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := to.Write(part.Blob); err != nil {
			return err
		}
	}
}

// Run runs a program to its end, and gives what it printed. An error has its words, too.
type Run func(ctx context.Context, program string, args ...string) (string, error)

// RestoreSnapshot has run make dir, a member's data directory, from a snapshot, by etcdutl and without any further care: the
// revision is the snapshot's. flags are those about the member (RestoreFlags).
func (in *Installation) RestoreSnapshot(ctx context.Context, run Run, snapshot, dir string, flags []string) error {
	if _, err := run(ctx, in.Program("etcdutl"), append([]string{"snapshot", "restore", snapshot, "--data-dir", dir}, flags...)...); err != nil {
		return fmt.Errorf("restore a snapshot of etcd: %w", err)
	}
	return nil
}

// SnapshotRevision has run find the revision that a snapshot was taken at.
func (in *Installation) SnapshotRevision(ctx context.Context, run Run, snapshot string) (int64, error) {
	out, err := run(ctx, in.Program("etcdutl"), "snapshot", "status", snapshot, "--write-out", "json")
	if err != nil {
		return 0, fmt.Errorf("read the revision of a snapshot of etcd: %w", err)
	}
	var status struct {
		Revision int64 `json:"revision"`
	}
	for line := range strings.Lines(out) { // it may have a word of warning as well
		if json.Unmarshal([]byte(line), &status) == nil && status.Revision > 0 {
			return status.Revision, nil
		}
	}
	return 0, fmt.Errorf("read the revision of a snapshot of etcd: etcdutl answers %.200q", out)
}
